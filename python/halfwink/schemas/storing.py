"""Documents of block devices."""

from __future__ import annotations

from halfwink.schemas.parts import NOTE, NUMBER, OBJECT, TEXT, document, part
from halfwink.schemas.shared import LEDGER, MEASURED, REPORTED, TIMES
from halfwink.schemas.tables import tables

CPU = part("cache cache_bytes cpu level package")
MACHINE = part(cpus=CPU.listed())
ALONE = part("us interrupt_us instructions")
TOGETHER = part("iops lines upgrades instructions halted")
STAGE = part(alone=ALONE.called("Costs of an I/O while one CPU issues."), together=TOGETHER)

DOCUMENTS = {
    "live.block": document(
        "halfwink live block: what the block device did",
        "cpu_s duration_s errors hears log_dropped log_error policy policy_fault policy_faults "
        "rest size_bytes",
        connections=part(
            "accepted done open peak refused vanished wrong",
            late=NUMBER.called("Connections whose client took too long."),
        ).called("Connections by outcome."),
        flushes=part("answered count failed", took=TIMES),
        io=part("again at_once direct enters fell_back io parts past_cache ringed"),
        latency=TIMES,
        ledger=LEDGER,
        machine=MACHINE.called("CPUs of this machine and their caches."),
        measured=MEASURED,
        policy_state=part("gathering gives handlers").or_null(),
        queues=NOTE,
        requests=part(
            "flushes read_bytes reads refused trims writes written_bytes zeroes",
            caches=NUMBER.called("Cache requests (`NBD_CMD_CACHE`)."),
            statuses=NUMBER.called("Block-status queries."),
        ),
        stages=OBJECT.or_null(),
        tables=REPORTED,
        workers=part(
            "batches cpu given overflowed polling_s sleeping_s wakes working_s",
            here=NUMBER.called("I/Os that the worker completed on its own CPU."),
        ).listed(),
    ),
}

TABLES = {
    "live block --advise": tables(
        "which policy suits this machine and load",
        part(
            machine=MACHINE.called("CPUs of this machine and their caches."),
            wake=part("from to call_us until_us sleeper_us").or_null(),
            load=part("iops io_us mean_iops").or_null(),
            advice=part(
                "queues poll poll_below_us gap_us rq_affinity",
                cpus=NUMBER.listed().called("CPUs to use, by number."),
                why=NOTE.listed(),
                lines=NOTE.listed().listed().called("Shell commands that set the advice."),
                expected=part(
                    "iops iops_low iops_high cpus_low cpus_high uj_per_io uj_per_io_low "
                    "uj_per_io_high",
                    cpus=NUMBER.called("Mean number of CPUs that are busy."),
                ).or_null(),
            ).or_null(),
            traced=part(
                "depth bytes reads_pct iops peak_iops traced_latency_us device_latency_us "
                "phases left_out read_as",
                kind=NOTE,
                issuers=NUMBER,
            )
            .optional()
            .called("Load of `--load`, if it was given."),
        ),
        trips=part("from to same_cache same_package line_ns"),
        policies=part(
            "policy iops iops_low iops_high latency_p50_us latency_p50_us_low "
            "latency_p50_us_high latency_p99_us latency_p99_us_low latency_p99_us_high "
            "cpus_low cpus_high awake_cpus awake_cpus_low awake_cpus_high uj_per_io "
            "uj_per_io_low uj_per_io_high",
            cpus=NUMBER.called("Mean number of CPUs that are busy."),
        ).optional(),
    ),
    "storage calibrate": tables(
        "a machine made of recordings, and how well it predicts",
        alone=part("us interrupt_us instructions", queues=TEXT),
        together=part("iops lines upgrades instructions halted", queues=TEXT),
        predictions=part(
            "cpus predicted error_pct held_out",
            queues=TEXT,
            played=NUMBER.called("Simulated rate of I/Os."),
        ),
    ),
}
