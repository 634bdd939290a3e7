"""Documents of comparisons, studies, samples and replays."""

from __future__ import annotations

from halfwink import _core
from halfwink.schemas.parts import INTEGER, NOTE, NUMBER, OBJECT, TEXT, Node, part
from halfwink.schemas.shared import INTERVAL
from halfwink.schemas.tables import FREE, tables

#: Run that a row belongs to.
RUN = "workload machine set technique"
#: Columns that relate a run to others.
RELATED = (
    "energy_saving_pct slowdown_pct energy_delay_pct energy_saving_low_pct energy_saving_high_pct "
    "equal_rate_saving_pct equal_rate_saving_low_pct equal_rate_saving_high_pct beyond_today_pct "
    "beyond_today_low_pct beyond_today_high_pct available breaks today core_energy_saving_pct? "
    "core_clock_saving_pct? l1i_mpki? l1d_mpki? l2_mpki? l3_mpki? branch_mpki?"
)


def world_row(table: str, world: str | None = None, names: str = "") -> Node:
    """Returns a row of a table of results: the columns that a world declares, or that every world
    has, and others by name."""
    held = [dict(w["tables"][table]) for w in _core.worlds() if world in (None, w["name"])]
    shared = {name: kind for name, kind in held[0].items() if all(name in own for own in held)}
    columns = {name: NOTE if kind == "text" else NUMBER for name, kind in shared.items()}
    return part(f"{RUN} {names}", **columns)


TABLES = {
    "check-policy": tables(
        "laws that a policy keeps, and published techniques that decide as it does",
        part(
            "family",
            seeds=INTEGER.called(
                "Seeds that were played, each without and with faults; "
                "fewer than asked for if the time did not suffice."
            ),
        ),
        laws=part(
            seeds=INTEGER.called("Seeds under which the law was checked; 0 if none was played."),
            law=TEXT.called("Law in words."),
            breach=part(
                seed=INTEGER.called("Seed of the events."),
                event=INTEGER.called("Number of the event, from 0 (the start)."),
                found=TEXT.called("Time, event, what was found and what was expected."),
            )
            .or_null()
            .called("First event at which the law was broken; null if none was found."),
        ),
        published=part(
            "technique",
            seeds=INTEGER.called("Seeds under which both were compared."),
            source=NOTE.called("Publication that it comes from; null if there is none."),
            equal_seeds=INTEGER.called(
                "Seeds under which both requested the same actions at the same times."
            ),
            decisions=INTEGER.called(
                "Decisions at which at least one of both acted; 0 if neither ever did."
            ),
            equal_decisions=INTEGER.called("Decisions at which both requested the same actions."),
        ),
    ),
    "replay": tables(
        "whether a log's decisions repeat",
        part(
            "log timers actions unheard last_ps",
            header=part(
                "build family log machine schema technique workload world",
                set=TEXT.by_name().optional().called("Values that were set, by path."),
            ),
            policies=NUMBER.called("Policies in the log."),
            lines=NUMBER.called("Lines of the log."),
            events=NUMBER.called("Events played."),
            beside=OBJECT.optional().called("The other log, and where they differ."),
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
    ),
    "sample": tables(
        "techniques on samples of a long recording, with intervals",
        part(
            "first instructions l3_cold_fills l3_misses load machine period warm_up "
            "windows workload baseline",
            unit=NUMBER.called("Measured length of a window, in instructions."),
            samples=INTEGER.called("Samples of a run that the recording holds; 0: all of it."),
            of=INTEGER.called("Instructions of that run."),
            modelled=TEXT.listed(),
        ),
        techniques=part(
            "instructions technique windows_needed",
            core_energy_j_per_instruction=INTERVAL,
            core_energy_saving_pct=INTERVAL.or_null(),
            cpi=INTERVAL,
            energy_j_per_instruction=INTERVAL,
            energy_saving_pct=INTERVAL.or_null(),
            ipc=INTERVAL,
            memory_stall_p99_ns=INTERVAL,
            slowdown_pct=INTERVAL.or_null(),
        ),
    ),
    "compare": tables(
        "runs of techniques on workloads, and the verdict on them",
        part("world baseline", modelled=TEXT.listed()),
        runs=world_row("run", names=RELATED).with_columns(),
        ledger=world_row("ledger").optional(),
        host=part(f"{RUN} host_s rate unit").optional(),
        slots=part(RUN).with_columns().optional(),
        calls=world_row("calls", "chip").optional(),
        segregation=world_row("segregation", "chip").optional(),
        proportionality=part(
            f"{RUN} idle_to_peak_pct dynamic_range_pct linear_deviation proportionality_gap "
            "energy_proportionality"
        ).optional(),
        published_watts=part(
            f"{RUN} load_pct power_w published_w above_published_pct published_use "
            "published_result published_server"
        ).optional(),
        peaks=part(
            f"{RUN} issuers iops driver_us_per_io latency_mean_us energy_j_per_unit"
        ).optional(),
        steps=part(f"{RUN} socket_full_at change_pct").optional(),
    ),
    "run": tables(
        "the runs of a study", "study", runs=world_row("run", names=RELATED).with_columns()
    ),
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
