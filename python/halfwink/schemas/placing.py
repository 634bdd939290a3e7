"""Documents of programs that run on real cores and caches."""

from __future__ import annotations

from halfwink.schemas.parts import LIST, NOTE, NUMBER, OBJECT, Node, document, part
from halfwink.schemas.shared import INTERVAL, MEASURED
from halfwink.schemas.tables import tables

CALL_TIMES = part("mean_ns p50_ns p99_ns timed")
REFUSED = part("for_measurements forged malformed replayed too_many")
CHANGE = part("high_pct low_pct mean_pct")

COLD = NOTE.called("Way in which caches were made cold.")
DROP = NOTE.called("Way in which pages were dropped.")


def _classes(names: str = "", **by: Node) -> Node:
    """Returns a row of latencies of the requests of one class."""
    quantiles = {name: OBJECT.or_null() for name in ("p50", "p90", "p99")}
    about = "Class of the requests, such as `warm`, `cold` or `dropped`."
    return part(f"n {names}", class_=NOTE.called(about), **by, **quantiles)


DOCUMENTS = {
    "live.delegate": document(
        "halfwink live delegate -o: calls that moved and stayed, and what that cost",
        "confined decision_ns log_dropped log_records n_ns os_cpu policy "
        "process_images steps_back threads uncounted_threads wall_s",
        calls=part(
            "calls delegated stayed",
            here=CALL_TIMES,
            name=NOTE,
            refused=NUMBER.by_name(),
            there=CALL_TIMES.called("Moved calls, as the program sees them."),
        ).listed(),
        hand_off=part("caller_naps mean_ns p50_ns p99_ns timed worker_wakes"),
        measured=MEASURED,
        modelled_energy=part("big_core_j model small_core_always_on_j small_core_on_demand_j"),
        prediction=part(
            "compared right_side_of_n_pct within_5_percent_pct",
            threads_by_last_n_ns=NUMBER.by_name(),
        ).or_null(),
        residency=part(
            "os_cpu_worked_pct os_cpu_worked_s stayed_calls_s thread_s waited_pct waited_s"
        ),
        status=NUMBER.called(
            "Exit status of the program; 128 and the signal's number if a signal ended it."
        ),
        workers=NUMBER.called("Number of workers."),
    ),
    "live.preheat.daemon": document(
        "halfwink live preheat daemon: what was announced and preheated",
        "duration_s failed handshakes heard kernel_lines loads log_dropped log_error not_done "
        "restarts unknown wakes",
        measured=MEASURED,
        refused=REFUSED,
    ),
    "resctrl.plan": document(
        "halfwink live resctrl plan: a division of a cache; also the plan's file",
        "leave_it routing ways",
        advice=part(
            "kernel_ways leave_it routing ways_of_cache",
            expected=part(energy=CHANGE, latency=CHANGE).or_null(),
            why=NOTE,
        ).or_null(),
        cache=NOTE.called("Cache that is divided, such as `L2`."),
        classes=part(
            "role ways",
            cpus=NOTE.called("CPUs as a list, such as `0-3`."),
            name=NOTE,
            schemata=NOTE.listed(),
            tasks=LIST,
        ).listed(),
        kernel=part("by covers", mode=NOTE.called("Mode of the group."))
        .or_null()
        .called("Way in which the kernel's work gets a class of its own."),
        notes=NOTE.listed(),
        workload=NOTE,
    ),
}

TABLES = {
    "live preheat pages": tables(
        "pages of a program",
        part(
            "server rounds lead_us loads",
            recorded=part(
                "files read written",
                dropped=part(
                    "changed files", memory=NUMBER.called("Pages of the program's own memory.")
                ).called("Pages that were dropped."),
            ),
        ),
        tests=part(
            "p_ahead_dropped p_replayed_dropped p_sham_ahead p_stopped_dropped "
            "p_warm_ahead removed_ahead removed_by_replay removed_by_sham",
            kind=DROP,
        ),
        classes=_classes("major_faults minor_faults", kind=DROP),
    ),
    "live preheat self-test": tables(
        "prefetching on this machine",
        part(
            "server rounds lead_us",
            learned=part(
                "rounds",
                kinds=part(
                    "candidates",
                    first=NUMBER.called("Lines that were quick after the first request."),
                    common=NUMBER.called("Lines that were quick after all requests."),
                    kept=NUMBER.called("Lines of `common` that are slow without a request."),
                    warm=NUMBER.called(
                        "Median time of a cached load: ns in the kernel, else ticks."
                    ),
                    cold=NUMBER.called(
                        "Time that 90 % of the uncached loads exceed, as of `warm`."
                    ),
                    name=NOTE,
                ).listed(),
            ),
            rates_ns_per_line=part(
                "best_prefetch kernel_cold kernel_warm ratio",
                user=NUMBER.called("Time of a loop in the server's own thread."),
            ),
            announcement_to_first_load_us=part(
                "n", p50=INTERVAL.or_null(), p90=INTERVAL.or_null(), p99=INTERVAL.or_null()
            ),
            counts=part(
                "failed handshakes heard kernel_lines loads not_done restarts unknown wakes",
                refused=REFUSED,
            ),
        ),
        tests=part(
            "p_preheated_cold p_sham_preheated p_warm_preheated removed_by_preheat removed_by_sham",
            cold=COLD,
        ),
        classes=_classes(cold=COLD),
    ),
    "live resctrl apply": tables(
        "what was set",
        part(
            "journal left not_moved rehearsal tasks",
            groups=NOTE.listed().called("Groups of the resource control file system."),
        ),
    ),
    "live resctrl restore": tables(
        "what was set back",
        part(
            "journal nothing",
            changes=NOTE.listed().called("Changes that were written, in order."),
        ),
    ),
    "live resctrl show": tables(
        "how the caches are divided",
        part(
            "applied free_classes kernel_mode_unread rehearsal root",
            kernel_mode=part(
                "group",
                active=NOTE.called("Mode that is in force."),
                modes=NOTE.listed().called("Modes that this kernel offers."),
            ).or_null(),
            resources=OBJECT,
        ),
        groups=part(
            "kmode_cpus",
            cpus=NOTE.called("CPUs as a list, such as `0-3`."),
            masks=OBJECT.or_null(),
            mode=NOTE.called("Mode of the group."),
            name=NOTE,
            tasks=NUMBER.listed(),
        ),
    ),
    "live idle": tables(
        "idle times of CPUs",
        "fallback mechanism watched_s",
        cpus=part(
            "cpu exact_s log2_over_exact log2_s lost mean_us periods proc_stat_s",
            histogram=NUMBER.listed().listed(),
        ),
    ),
}
