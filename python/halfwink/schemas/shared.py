"""Parts that documents of several areas have in common."""

from __future__ import annotations

from halfwink.schemas.parts import LIST, NOTE, OBJECT, Node, part

INTERVAL = part("high low value")
DIRECT_MAP = part("bytes virt_base")
TOTALS = part(
    "accesses idle_ns instructions kernel_instructions repeats requests runs", events=OBJECT
)
FACT = part("fact value")
TIMES = part("count max_us mean_us p50_us p99_us")
LEDGER_ROW = part("cause component energy_j state time_s", mode=NOTE)
LEDGER = part("duration_s energy_j gap_s imbalance tolerance_s", rows=LEDGER_ROW.listed())
MEASURED = part(meters=LIST, missing=NOTE)
REPORTED = part(
    ledger=Node({"type": ["array", "string"]}).listed().listed(),
    run=Node({"type": ["array", "string"]}).listed().listed().called("Table `run` of the report."),
)
