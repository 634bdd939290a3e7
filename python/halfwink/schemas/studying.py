"""Documents of comparisons, studies, samples and replays."""

from __future__ import annotations

from halfwink import _core
from halfwink.schemas.parts import INTEGER, LIST, NUMBER, OBJECT, TEXT, Node, choice, document, part
from halfwink.schemas.shared import INTERVAL
from halfwink.schemas.tables import FREE, tables

DOCUMENTS = {
    "compare": document(
        "halfwink compare: the verdict and a result for each workload and technique",
        "workload machine set unit_of_work world baseline",
        verdict=TEXT.listed(),
        proportionality=part(
            "workload machine set technique idle_to_peak_pct dynamic_range_pct "
            "linear_deviation proportionality_gap energy_proportionality"
        )
        .listed()
        .optional(),
        peaks=part(
            "workload machine set technique driver_us_per_io",
            issuers=INTEGER.called("CPUs that issue I/Os in the run."),
            iops=NUMBER.called("Rate of I/Os."),
            latency_mean_us=NUMBER.called("Mean latency of an I/O."),
            energy_j_per_unit=NUMBER.called("Energy of an I/O; modelled."),
        )
        .listed()
        .optional(),
        steps=part("workload machine set technique socket_full_at change_pct")
        .listed()
        .optional()
        .called("Change that one CPU of a further socket causes."),
        results=part(
            "workload machine unit_of_work technique energy_j_per_unit "
            "core_energy_j_per_unit? energy_saving_pct energy_saving_low_pct "
            "energy_saving_high_pct equal_rate_saving_pct equal_rate_saving_low_pct "
            "equal_rate_saving_high_pct beyond_today_pct beyond_today_low_pct "
            "beyond_today_high_pct core_energy_saving_pct? core_clock_saving_pct? "
            "slowdown_pct energy_delay_pct units load idle_w available breaks today",
            latency_us=part("mean p50 p90 p99 max"),
            residency=part("active stalled idle gating gated charging restoring").optional(),
            run=Node({"type": ["number", "string", "null"]})
            .by_name()
            .called("Row of the run in the table `run`, with the columns of its world."),
            slots=Node({"type": ["number", "string", "null"]})
            .by_name()
            .listed()
            .optional()
            .called("The run over time, if the world divides it into slots."),
            ledger=part("mode time_s energy_j", component=TEXT, state=TEXT, cause=TEXT).listed(),
            modelled=TEXT.listed(),
            sim=part("instructions? kernel_instructions? ipc? duration_s host_s rate unit mips?"),
            kernel=part(
                "invocations moved_invocations kernel_time_share os_core_time_share away_share",
                calls=OBJECT.listed(),
            )
            .optional()
            .called("Kernel work and its moves to OS cores."),
            watts=part(
                basis=choice("published", "measured", "estimated", "assumed"),
                factor=Node(
                    {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
                ),
            ).optional(),
        ).listed(),
    ),
    "replay": document(
        "halfwink replay: whether a log's decisions repeat",
        "log timers actions unheard last_ps",
        header=part(
            "build family log machine schema technique workload world",
            set=part(requests=TEXT).optional(),
        ),
        policies=NUMBER.called("Policies in the log."),
        lines=NUMBER.called("Lines of the log."),
        events=NUMBER.called("Events played."),
        ended=part(
            whole=part(
                "end_ps",
                dropped=NUMBER.called("Lines that the log lost because it was full."),
                lines=NUMBER.called("Lines of the log."),
            )
        ),
        first_difference=part(
            "line now_ps",
            event=OBJECT,
            expected=Node({"type": ["object", "string"]})
            .listed()
            .called("Actions that the log has, or the reason why there are none."),
            found=Node({"type": ["object", "string"]}).listed(),
            place=part("family stream").called("Policy that the line belongs to."),
        ).or_null(),
    ),
    "sample": document(
        "halfwink sample: techniques on samples of a long recording, with intervals",
        "first instructions l3_cold_fills l3_misses load machine period warm_up "
        "windows workload baseline",
        unit=NUMBER.called("Measured length of a window, in instructions."),
        results=part(
            "instructions technique windows_needed",
            core_energy_j_per_instruction=INTERVAL,
            core_energy_saving_pct=INTERVAL.or_null(),
            cpi=INTERVAL,
            energy_j_per_instruction=INTERVAL,
            energy_saving_pct=INTERVAL.or_null(),
            ipc=INTERVAL,
            memory_stall_p99_ns=INTERVAL,
            slowdown_pct=INTERVAL.or_null(),
        ).listed(),
        modelled=TEXT.listed(),
        warnings=LIST,
    ),
}

#: Columns of a run that relate it to others, beside those that every world declares.
RELATED = (
    "energy_saving_pct slowdown_pct energy_delay_pct energy_saving_low_pct energy_saving_high_pct "
    "equal_rate_saving_pct equal_rate_saving_low_pct equal_rate_saving_high_pct beyond_today_pct "
    "beyond_today_low_pct beyond_today_high_pct available breaks today"
)


def run_columns(world: str | None = None) -> str:
    """Returns the columns of runs of a world; without one, those of every world."""
    runs = [dict(w["tables"]["run"]) for w in _core.worlds() if world in (None, w["name"])]
    own = [name for name in runs[0] if all(name in run for run in runs)]
    return " ".join(["workload machine set technique", *own, RELATED])


TABLES = {
    "run": tables("the runs of a study", "study", runs=part(run_columns()).with_columns()),
    "query": tables("rows that SQL found in the tables of a run", "sql", rows=FREE),
    "run --plan": tables(
        "what a study will play, and an estimate of what that costs",
        part(
            "study jobs work unit cpu_hours is_measured most_results least_hours most_hours",
            results=INTEGER.called("Results of the plan."),
            there=INTEGER.called("Results that are there already."),
            parts=INTEGER,
        ),
    ),
}
