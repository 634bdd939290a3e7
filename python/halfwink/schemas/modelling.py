"""Documents of idle times, caches, power delivery and core switching."""

from __future__ import annotations

from halfwink.schemas.parts import (
    INTEGER,
    NOTE,
    NUMBER,
    OBJECT,
    REAL,
    TEXT,
    Node,
    document,
    part,
)

SCHEME = part(
    "scheme route look_up kernel_ways user_rank kernel_rank user_accesses "
    "kernel_accesses user_misses kernel_misses mpki instructions fast slow "
    "waited_misses ipc gain_pct equal_gain_pct predicted_pct banks_per_access "
    "changes converged_mcycles final_kernel_ways"
)

_WAIT = "time that work waits for its CPU to wake."


def _policy(names: str, **nodes: Node) -> Node:
    """Returns rows of what a policy makes of the gaps."""
    return (
        part(
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
        .closed()
        .listed()
    )


DOCUMENTS = {
    "idle": document(
        "halfwink idle: what each idle policy would have made of recorded idle times",
        file=TEXT.called("File of the recording."),
        machine=TEXT.called("Server whose states and watts are used."),
        answer=TEXT.listed(),
        today=TEXT.called("Policy to set, of those that can be had today."),
        limit_us=NUMBER.called("Latency limit to set; null if none is advised."),
        recording=part(
            "gaps length_s all_idle_pct all_idle_us to_task_pct kernel_shallow kernel_deep",
            format=TEXT.called("Format that the file was read as."),
            cpus=INTEGER.called("CPUs with gaps."),
            idle_pct=REAL.called("Share of the CPUs' time in gaps."),
            gap_us=Node(
                {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
            ).called("Mean, median and 99th percentile of the gaps."),
            chosen=part(
                number=INTEGER.called("Number of the state in the kernel."),
                name=NOTE.called(
                    "Name of the state in the server's file; null if it has no such state."
                ),
                gaps=INTEGER.called("Gaps in which the kernel chose the state."),
            )
            .closed()
            .listed(),
            left_out=part("bad_lines lost_events broken_gaps cut_gaps")
            .closed()
            .called("Part of the file that is not played."),
        ).closed(),
        results=_policy(
            "", saved_pct=NUMBER.called("Idle energy saved against menu, with the package's sleep.")
        ).called("One row for each policy, menu first."),
        limits=_policy("limit_us "),
        facts=part(
            "basis",
            states=TEXT.listed(),
            watts=REAL.listed().called("Power of a core in each state, then waking, then active."),
            factor=Node(
                {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
            ),
            cores=INTEGER.called("Cores of the server."),
        )
        .closed()
        .called("Numbers of the server that the answer rests on."),
        modelled=TEXT.listed(),
        measured=TEXT.listed().called("Quantities that are measured."),
    ).closed(),
    "idle.counters": document(
        "halfwink idle: counters of idle states, which have no idle times",
        file=TEXT.called("File of the counters."),
        format=TEXT.called("Format that the file was read as."),
        cpus=INTEGER.called("CPUs that were counted."),
        answer=TEXT.listed(),
        results=part(
            "stays share_pct deep shallow rejected",
            state=TEXT.called("Name of the state in the kernel."),
            seconds=NUMBER.called("Time in the state; null if the file has shares alone."),
        )
        .closed()
        .listed()
        .called("One row for each state, from the shallowest."),
        measured=TEXT.listed().called("Quantities that are measured."),
    ).closed(),
    "pdn": document("halfwink pdn: wake-ups on a power grid", "view", rows=OBJECT.listed()),
    "pdn.case": document(
        "halfwink pdn --case: one wake-up on a power grid",
        "case shortest_ns wake_up_ns",
        droop=NUMBER.listed(),
    ),
    "preheat.breakdown": document(
        "halfwink preheat breakdown: where the time of a request goes",
        steps=part(
            "how time_us reduction_pct data_kib",
            step=TEXT.called("Step of the request."),
            factor=NUMBER.called("Factor of the step on the time."),
        ).listed(),
    ),
    "preheat.deadline": document(
        "halfwink preheat deadline: how early a packet must be announced",
        requests=part(
            "workload lead_us wake_us bandwidth load_us overshoot_us response_us cold_us "
            "net_gain_us",
            late=TEXT.called(
                "Treatment of a request whose load is not complete: held, or run meanwhile."
            ),
        ).listed(),
    ),
    "preheat.prototype": document(
        "halfwink preheat prototype: response times warm, cold and preheated, and what is loaded",
        services=part(
            "workload response_us p99_us misses cpi",
            mode=TEXT.called("Preparation of the request: `warm`, `cold`, `preheated` and others."),
        ).listed(),
        loads=part("workload data_kib run_lines cost_us kib_per_us")
        .listed()
        .called("Costs of loading the sets."),
    ),
    "preheat.simulate": document(
        "halfwink preheat simulate: agents on a service's requests",
        "workload machine",
        facts=part(
            "marked_requests alone training_requests measured_requests loses dumped_level "
            "set_lines set_kib set_words mean_run_lines saved_w",
            cut=TEXT.called("Way in which requests were cut out of the recording."),
        ).listed(),
        modes=part(
            "requests response_mean_us response_p50_us response_p99_us reduction "
            "l2_misses l3_misses lines loaded useful touched preheat_us late_us energy_uj "
            "excess_uj break_even_us",
            mode=TEXT.called("Preparation of the request: `warm`, `cold`, `preheated` and others."),
        ).listed(),
        requests=part(
            "request instructions response_us l2_misses l3_misses lines loaded useful "
            "touched preheat_us late_us energy_uj",
            mode=TEXT.called("Preparation of the request: `warm`, `cold`, `preheated` and others."),
        ).listed(),
        training=part("request dumped touched evicted common").listed(),
        orders=part("preheat_us", order=TEXT.called("Order in which lines are loaded.")).listed(),
    ),
    "segregation.sweep": document(
        "halfwink segregation sweep: ways to divide a cache between kernel and user",
        "workload l1 l2",
        facts=part(
            "instructions kernel_share references configurations "
            "way_partition_by_set_mpki insertion_by_set_mpki"
        ),
        lru=SCHEME,
        best=SCHEME.listed(),
        schemes=SCHEME.listed(),
        curves=part("route side recency hits").listed(),
    ),
    "switching": document(
        "halfwink switching: costs of changing cores",
        "view",
        rows=part(
            "workload? variant? configuration kernel call? made_per_s? moved_per_s? "
            "app_pct? os_pct? power_up_cycles? ns? races_lost? amount? amount_unit? "
            "unit_ns? power_w? amount_per_joule? core? user_pct? call_pct? switch_pct? "
            "interrupt_pct? waking_pct? off_pct? recorded_idle_pct? wakes_per_s?",
            idle_pct=NUMBER.optional(),
        ).listed(),
    ),
}
