"""Documents of idle times, caches, power delivery and core switching."""

from __future__ import annotations

from halfwink.schemas.parts import (
    COUNT,
    INTEGER,
    NOTE,
    NUMBER,
    REAL,
    TEXT,
    Node,
    part,
)
from halfwink.schemas.tables import tables

SCHEME = part(
    "scheme route look_up kernel_ways user_rank kernel_rank user_accesses "
    "kernel_accesses user_misses kernel_misses mpki instructions fast slow "
    "waited_misses ipc gain_pct equal_gain_pct predicted_pct banks_per_access "
    "changes converged_mcycles final_kernel_ways"
)

PREPARED = TEXT.called("Preparation: `warm`, `cold`, `preheated` and others.")
IDLE_AS = TEXT.called("Source of the idle times: `exact`, `recorded` or `corrected`.")
_WAIT = "time that work waits for its CPU to wake."


def _policy(names: str, **nodes: Node) -> Node:
    """Returns rows of what a policy makes of the gaps."""
    return part(
        f"{names}right_pct shallow_pct deep_pct shallow_j deep_j ticks swallowed agrees_pct "
        "tick_s asleep_pct package_saved_j package_sleeps",
        technique=TEXT.called(
            "Policy; `recorded` is the kernel's choice, `best` the best one in hindsight."
        ),
        gaps=INTEGER.called("Gaps that the policy is judged by."),
        energy_j=REAL.called("Energy of the CPUs in gaps, with wake-ups and ticks; modelled."),
        idle_w=REAL.called("Power of a CPU in a gap; modelled."),
        latency_mean_us=REAL.called(f"Mean {_WAIT}"),
        latency_p99_us=REAL.called(f"99th percentile of the {_WAIT}"),
        latency_max_us=REAL.called(f"Longest {_WAIT}"),
        state_s=REAL.listed(),
        waking_s=REAL.called("Time in which CPUs wake."),
        **nodes,
    )


TABLES = {
    "idle": tables(
        "what each idle policy would have made of recorded idle times, or counters of idle states",
        part(
            "length_s? all_idle_pct? all_idle_us? to_task_pct? kernel_shallow? kernel_deep? "
            "bad_lines? lost_events? broken_gaps? cut_gaps? basis? package_asleep_pct? "
            "all_idle_least_pct? all_idle_most_pct?",
            file=TEXT.called("File of the recording."),
            format=TEXT.called("Format that the file was read as."),
            cpus=INTEGER.called("CPUs with gaps, or CPUs that were counted."),
            machine=TEXT.called("Server whose states and watts are used.").optional(),
            today=TEXT.called("Policy to set, of those that can be had today.").optional(),
            limit_us=NUMBER.called("Latency limit to set; null if none is advised.").optional(),
            gaps=INTEGER.called("Gaps of the recording.").optional(),
            idle_pct=REAL.called("Share of the CPUs' time in gaps, or in idle states.").optional(),
            gap_us=NUMBER.listed()
            .called("Mean, median and 99th percentile of the gaps.")
            .optional(),
            states=TEXT.listed().optional(),
            factor=NUMBER.listed().optional(),
            watts=NUMBER.listed()
            .called("Power of a core in each state, then waking, then active.")
            .optional(),
            cores=INTEGER.called("Cores of the server.").optional(),
            modelled=TEXT.listed().optional(),
            measured=TEXT.listed().called("Quantities that are measured."),
        ),
        policies=_policy(
            "", saved_pct=NUMBER.called("Idle energy saved against menu, with the package's sleep.")
        ).optional(),
        limits=_policy("limit_us ").optional(),
        chosen=part(
            number=INTEGER.called("Number of the state in the kernel."),
            name=NOTE.called(
                "Name of the state in the server's file; null if it has no such state."
            ),
            gaps=INTEGER.called("Gaps in which the kernel chose the state."),
        ).optional(),
        counters=part(
            "share_pct deep shallow rejected",
            stays=COUNT.called("Entries into the state on all CPUs; null if not counted."),
            state=TEXT.called("Name of the state in the kernel."),
            seconds=NUMBER.called("Time in the state; null if the file has shares alone."),
            stay_us=NUMBER.called("Mean length of a stay; null if the file does not tell."),
        ).optional(),
    ),
    "pdn": tables(
        "wake-ups on a power grid",
        calibrate=part("element value").optional(),
        fit=part(
            "fit t0_ns alpha beta delta error_mean_pct error_max_pct error_max_ns",
            gamma=NUMBER.called("Weight of `y` in the equation."),
        ).optional(),
        sensitivity=part("element t0_ns", scale=NUMBER.called("Factor on the element.")).optional(),
        stagger=part("waking at_once_ns staggered_ns cut_pct").optional(),
        table=part("case sets w x y z wake_up_ns staggered_ns").optional(),
    ),
    "pdn --case": tables(
        "one wake-up on a power grid",
        part("case shortest_ns wake_up_ns", droop=NUMBER.listed()),
    ),
    "preheat breakdown": tables(
        "parts of the time of a request",
        steps=part(
            "how time_us reduction_pct data_kib",
            step=TEXT.called("Step of the request."),
            factor=NUMBER.called("Factor of the step on the time."),
        ),
    ),
    "preheat deadline": tables(
        "how early a packet must be announced",
        requests=part(
            "workload lead_us wake_us bandwidth load_us overshoot_us response_us cold_us "
            "net_gain_us",
            late=TEXT.called("Request whose load is not complete: held, or run meanwhile."),
        ),
    ),
    "preheat prototype": tables(
        "response times warm, cold and preheated, and what is loaded",
        services=part("workload response_us p99_us misses cpi", mode=PREPARED),
        loads=part("workload data_kib run_lines cost_us kib_per_us"),
    ),
    "preheat simulate": tables(
        "agents on a service's requests",
        part(
            "workload machine marked_requests alone training_requests measured_requests loses "
            "dumped_level set_lines set_kib set_words mean_run_lines saved_w",
            cut=TEXT.called("Way in which requests were cut out of the recording."),
        ),
        modes=part(
            "requests response_mean_us response_p50_us response_p99_us reduction l2_misses "
            "l3_misses lines loaded useful touched preheat_us late_us energy_uj excess_uj "
            "break_even_us",
            mode=PREPARED,
        ),
        requests=part(
            "request instructions response_us l2_misses l3_misses lines loaded useful touched "
            "preheat_us late_us energy_uj",
            mode=PREPARED,
        ),
        training=part("request dumped touched evicted common"),
        orders=part("preheat_us", order=TEXT.called("Order in which lines are loaded.")),
    ),
    "segregation sweep": tables(
        "ways to divide a cache between kernel and user",
        "workload l1 l2 instructions kernel_share references configurations "
        "way_partition_by_set_mpki insertion_by_set_mpki",
        best=SCHEME,
        schemes=SCHEME,
        curves=part("route side recency hits"),
    ),
    "switching": tables(
        "costs of moving threads between cores",
        accounts=part(
            "workload variant accounting os_core_w elapsed_s idle_app_s idle_os_s energy_j merit "
            "work_per_joule",
            idle=IDLE_AS,
            rate=NUMBER.called("Work done in the reported interval."),
        ).optional(),
        calibrate=part("element value").optional(),
        calls=part(
            "workload variant configuration kernel call made_per_s moved_per_s app_pct os_pct"
        ).optional(),
        cores=part(
            "workload variant configuration kernel core user_pct call_pct switch_pct "
            "interrupt_pct waking_pct off_pct recorded_idle_pct wakes_per_s",
            idle_pct=NUMBER,
        ).optional(),
        costs=part("configuration kernel power_up_cycles ns races_lost").optional(),
        facts=part("fact value").optional(),
        printed=part(
            "workload variant accounting os_core_w elapsed_single_s elapsed_s idle_app_s "
            "idle_os_s energy_j merit break_even_merit_w break_even_energy_w",
            idle=IDLE_AS,
        ).optional(),
        runs=part(
            "workload variant configuration kernel amount amount_unit unit_ns power_w "
            "amount_per_joule"
        ).optional(),
        systems=part(
            "system total_w cpu_w largest_other_w workload variant os_core_w gain_j"
        ).optional(),
    ),
}
