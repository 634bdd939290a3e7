"""Documents of circuit-switched fabrics."""

from __future__ import annotations

from halfwink.schemas.parts import LIST, NOTE, NUMBER, TEXT, Node, document, part
from halfwink.schemas.shared import FACT
from halfwink.schemas.studying import RELATED, world_row
from halfwink.schemas.tables import tables

RUN = world_row("run", "racks", f"{RELATED} is_front")
_SETTING = "hosts slot_us night_us gbps tokens margin_us mtu spin_us spin_share realtime"
SETTING = part(_SETTING, technique=NOTE)
SLACK = part("count max_us p1_us p50_us p90_us p99_us")
LOST = part("overflowed too_long unsent")
REFUSED = part("foreign malformed replayed")
VIOLATIONS = part("cut elsewhere night")
LOAD = part(
    "cpu_ns foreign received received_bytes reordered sent",
    missing=NUMBER.called("Numbers that never arrived."),
)
CPU_PCT = part(
    "shapers spinning",
    load=NUMBER.called("Processor time of the load's threads, relative to the duration."),
    switch=NUMBER.called("Processor time of the switch, relative to the duration."),
)


def _switch(names: str = "at_work") -> Node:
    return part(
        "at_s back_hosts circuits cpu_s duration_s forwarded forwarded_bytes "
        "is_realtime late_slots lost_hosts overlaps refused_joins replies rested_s "
        f"syncs up_s {names}",
        guard=SLACK,
        lost=LOST,
        lost_now=LIST,
        refused=REFUSED,
        slots=NUMBER.called("Slots of the fabric that have passed."),
        sync_late=SLACK,
        violations=VIOLATIONS,
    )


def _hosts(load: Node, names: str = "at_work") -> Node:
    return part(
        "at_s cpu_s duration_s for_nobody host is_realtime overflowed received received_bytes "
        f"sent sent_bytes spun_s syncs taken untaken waiting_bytes {names}",
        days=NUMBER.called("Days on which the host had something to send."),
        begin=SLACK,
        load=load,
        lost=LOST,
        refused=REFUSED,
        sync=SLACK,
    )


DOCUMENTS = {
    "live.circuits": document(
        "halfwink live circuits: use of the circuits between namespaces",
        "use_pct gbps duty_pct up_pct late_slots overlaps violations forwarded "
        "held_bytes dropped realtime",
        setting=SETTING,
        switch=_switch(),
        hosts=_hosts(LOAD.or_null()).listed(),
        slots=NUMBER.called("Slots of the fabric that have passed."),
        cpu_pct=CPU_PCT,
    ),
}

TABLES = {
    "live circuits --transfer": tables(
        "a file through the fabric",
        part("size equal seconds", setting=SETTING, switch=_switch()),
        hosts=_hosts(NUMBER),
    ),
    "live circuits --virtual": tables(
        "the fabric in virtual time",
        part(
            "use_pct gbps duty_pct up_pct late_slots overlaps violations forwarded "
            "held_bytes dropped realtime",
            setting=part(f"{_SETTING} dilation shaper tcp seed", technique=NOTE),
            switch=_switch(""),
            streams=LIST,
            slots=NUMBER.called("Slots of the fabric that have passed."),
            cpu_pct=CPU_PCT,
        ),
        hosts=_hosts(LOAD.or_null(), ""),
    ),
    "live circuits --slots": tables(
        "the least slots by ideal use",
        part(setting=SETTING),
        slots=part(
            "slot_us night_us duty_pct use_pct use_least_pct use_most_pct violations "
            "forwarded overlaps late_slots begin_p99_us cpu_pct"
        ),
    ),
    "circuits advise": tables(
        "fabrics and techniques on one workload, and the Pareto front",
        "workload measure",
        best=RUN,
        runs=RUN,
        sensitivity=part(
            "machine technique j_per_gb is_front",
            value=TEXT.called("Path of the value that was changed."),
            factor=NUMBER.called("Factor on the value."),
        ).with_columns(),
    ),
    "circuits model": tables(
        "equations of a fabric of circuits",
        "fabric",
        facts=FACT.optional(),
        days=part("day_us sharers duty_pct bandwidth_gbps round_trip_us").optional(),
        savings=part(
            "demand_gbps utilisation_pct packets_w circuits_w saved_pct port_ratio"
        ).optional(),
        trees=part(
            "radix servers switches top_switches", levels=NUMBER.called("Levels of switches.")
        ).optional(),
    ),
    "circuits schedule": tables(
        "a demand as a week of circuits",
        part("hosts days_us week_us duty_pct sum_error", slots=NUMBER.called("Slots of the week.")),
        week=part("slot day_us", circuits=TEXT.called("Circuits of the slot, as `0>1 1>2`.")),
    ),
}
