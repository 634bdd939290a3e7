"""Documents of advice, its checks and the measurements that it rests on."""

from __future__ import annotations

from halfwink.schemas.parts import (
    FLAG,
    INTEGER,
    NOTE,
    NUMBER,
    REAL,
    TEXT,
    choice,
    part,
)
from halfwink.schemas.studying import RELATED, world_row
from halfwink.schemas.tables import tables

TODAY = TEXT.called(
    "Composition to set, of those that can be had today; the nearest if none keeps the goal."
)
NEEDS = choice("today", "kernel", "silicon").called("Most that a technique of it needs.")
RUNS = world_row("run", "node", RELATED).with_columns()

TABLES = {
    "advise": tables(
        "what to set for a service, and what the advice rests on",
        part(
            "goal_p99_us",
            today=TODAY,
            best=TEXT.called(
                "Composition with the least energy of all that keep the goal, whatever it needs."
            ),
            runner_up=TEXT.called(
                "Best of the other compositions of today that keep the goal; empty if none."
            ),
            keeps_goal=FLAG.called("Whether today keeps the goal."),
            linux=TEXT.listed(),
        ),
        assumptions=part(
            "still_saves",
            path=TEXT.called("Path of the value, as `--set` takes it."),
            value=TEXT.called("Value in the file."),
            played=TEXT.called("The two other values that were played."),
            why=TEXT.called("Comment in the file."),
            low_pct=REAL.called("Least saving against menu."),
            high_pct=REAL.called("Greatest saving against menu."),
            keeps_goal=FLAG.called("Whether the composition keeps the goal under each value."),
        ),
        runs=RUNS,
        tried=part(
            "technique latency_mean_us latency_p99_us keeps_goal",
            energy_j_per_unit=NUMBER.called("Energy of a request; modelled."),
            needs=NEEDS,
        ),
    ),
    "advise --day": tables(
        "what to set on a fleet for a day of load, and which servers may sleep",
        part(
            "goal_p99_us asleep scaled_by",
            today=TODAY,
            keeps_goal=FLAG.called("Whether the composition keeps the goal in each step."),
            linux=TEXT.listed(),
            linux_asleep=TEXT.listed(),
        ),
        plans=part(
            "fleet_kw energy_kwh saving_pct over_goal_pct awake_min awake_mean awake_max",
            technique=TEXT.called("Composition on all servers."),
            needs=NEEDS,
            asleep=choice("none", "some").called(
                "Whether servers sleep that the load does not need."
            ),
            p99_us=NUMBER.called("Longest 99th percentile of the latency of the day."),
            wakes=INTEGER.called("Servers that are woken, counted each time."),
        ),
        day=part(
            "hours per_s menu_load_pct menu_fleet_kw menu_p99_us menu_awake "
            "today_load_pct today_fleet_kw today_p99_us today_awake asleep_load_pct "
            "asleep_fleet_kw asleep_p99_us asleep_awake"
        ),
        runs=RUNS,
    ),
    "profile": tables(
        "what a request of a service costs a core",
        part(
            "workload service_mean_us user_share apart_us busy_w shared_uj half_pct",
            file=TEXT.called("File of the profile."),
            core=TEXT.called("Machine file of the core; `any` if no recording was played."),
            requests=INTEGER,
        ),
        cold=part(
            "extra_us preheated_us",
            loses=TEXT.listed(),
            load_us=NUMBER.called("Time that preheating takes."),
        ),
        variants=part(
            "time power shared",
            technique=TEXT.called(
                "Technique that works within a request, or several joined by `+`."
            ),
            moved=part("visits visit_us power")
            .or_null()
            .called("Kernel code on cores of the kernel; null if none has moved."),
        ),
    ),
    "verify": tables(
        "a prediction of an advice, and this machine measured",
        part(
            "made_at sha256 predicted_per_s measured_per_s predicted_cores",
            workload=TEXT.called("Service and load that were predicted."),
            machine=TEXT.called("Server that was predicted."),
            technique=TEXT.called("Composition that the machine ran while it was measured."),
            seconds=REAL.called("Length of the measurement."),
            missing=TEXT.listed().called("Quantities that could not be measured, and why."),
            notes=TEXT.listed().called("Sentences on doubtful results."),
            cpus=INTEGER.called("CPUs of this machine; 0 if they could not be counted."),
        ),
        quantities=part(
            what=TEXT.called("Quantity, such as `package_w`, `latency_p99_us` or `c6_pct`."),
            unit=choice("W", "us", "%").called("Unit of the four numbers."),
            predicted=NUMBER.called("Value that the model predicts."),
            low=NUMBER.called("Lower end of the range of the prediction; null if none is known."),
            high=NUMBER.called("Upper end of the range of the prediction; null if none is known."),
            measured=NUMBER.called("Measured value; null if it was not measured."),
            off_pct=NUMBER.called(
                "Difference of the measured from the predicted value, in per cent, of shares "
                "in points."
            ),
            verdict=choice(
                "inside",
                "above",
                "below",
                "no range",
                "other load",
                "other machine",
                "not measured",
            ).called("Place of the measured value."),
        ),
    ),
    "measure": tables(
        "costs of each way to hand work to another core, and how far trials spread",
        part("counter_ghz counter_is_constant there", here=NUMBER.called("CPU that measures.")),
        ratios=part("of_medians spread_pct", of=NOTE.listed()),
        items=part(
            "max_ns? mean_ns? min_ns? p50_ns? p90_ns? p99_ns? repetitions? trials? spread_pct?",
            name=NOTE,
            what=NOTE,
            missing=NOTE.optional().called("Reason why it was not measured; absent if it was."),
        ),
    ),
    "calibrate host": tables(
        "this machine measured, and native beside simulated time of programs",
        part(
            "machine mean_error_pct worst_error_pct mean_error_huge_pct worst_error_huge_pct "
            "mean_error_held_out_pct worst_error_held_out_pct mean_error_huge_held_out_pct "
            "worst_error_huge_held_out_pct",
            notes=TEXT.listed(),
        ),
        numbers=part("name value unit spread_pct runs"),
        curves=part("curve place place_unit height height_unit"),
        programs=part(
            "program held_out instructions native_ns native_huge_ns simulated_ns error_pct "
            "error_huge_pct"
        ),
    ),
    "doctor": tables(
        "what this machine has, and what adds the rest",
        findings=part("present detail fix", what=NOTE),
    ),
}
