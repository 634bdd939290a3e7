"""States of cores over time as a Chrome trace, which Perfetto opens."""

from __future__ import annotations

import json

import polars as pl

from halfwink.files import Place, write_whole

#: Colours that chrome://tracing and Perfetto know by name.
COLOURS = {
    "active": "thread_state_running",
    "stalled": "thread_state_uninterruptible",
    "idle": "thread_state_sleeping",
    "gating": "thread_state_runnable",
    "gated": "grey",
    "charging": "thread_state_iowait",
    "restoring": "thread_state_unknown",
}


def write_timeline(path: Place, timeline: pl.DataFrame) -> None:
    """Writes spans as complete events: a process per run, a thread per core; raises OSError."""
    events: list[dict[str, object]] = []
    runs = timeline.select("workload", "machine", "set", "technique").unique(maintain_order=True)
    for pid, run in enumerate(runs.iter_rows(named=True)):
        name = f"{run['workload']} on {run['machine']}: {run['technique']}"
        events.append(_name("process_name", name, pid))
        spans = timeline.join(pl.DataFrame([run]), on=list(run), how="semi", nulls_equal=True)
        cores = spans["component"].unique(maintain_order=True)
        for tid, core in enumerate(cores):
            events.append(_name("thread_name", core, pid, tid))
        numbers = {core: tid for tid, core in enumerate(cores)}
        for span in spans.iter_rows(named=True):
            if span["state"] == "unused":
                continue
            events.append(
                {
                    "name": span["state"],
                    "cat": "core",
                    "ph": "X",
                    # Microseconds; a thousandth of one is the resolution of the format.
                    "ts": span["start_ns"] / 1000,
                    "dur": (span["end_ns"] - span["start_ns"]) / 1000,
                    "pid": pid,
                    "tid": numbers[span["component"]],
                    "cname": COLOURS.get(span["state"], "generic_work"),
                }
            )
    note = "modelled: states of simulated cores; times in simulated nanoseconds"
    document = {"displayTimeUnit": "ns", "otherData": {"note": note}, "traceEvents": events}
    write_whole(path, json.dumps(document))


def _name(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
