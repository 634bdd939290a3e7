"""halfwink: a laboratory for low-latency energy saving in servers.

import halfwink as hw

res = hw.compare("nginx", techniques=["tap", "mapg-counter"], machine="ev6-16")
res.table()  # polars DataFrame
res.chart()  # altair chart
hw.advise("nginx", load="30%", p99_us=2000)  # what to set
hw.idle("gaps.txt")  # what each idle policy would have made of recorded idle times
hw.run("studies/gating.toml", executor=hw.Dask("tcp://HOST:PORT"))
hw.open("halfwink-out/run-gating")  # the results again
hw.capture("nginx")  # a trace of one's own, in nginx.hwt
hw.record(["./program", "data.bin"])  # a program's user instructions, in program.hwt
hw.run_part("gating", (3, 200), out="shared")  # of an array of jobs; hw.collected when all are done
hw.compare("nginx", techniques=["tap", MyGate])  # a class of your own; see hw.policies
hw.tune(MyGate, {"after_us": (1, 1000)}, workload="nginx")  # values that save most

Names of one subject are in its package: `halfwink.advice`, `calibrate`, `capture`, `live`,
`models`, `policies`, `runs`, `targets`.
"""

from __future__ import annotations

from halfwink.exports import lazily

#: As `typing` has it, which takes longer to import than all else that is here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from halfwink import capture
    from halfwink import policies as policies
    from halfwink._core import __version__, techniques, worlds
    from halfwink.advice.advice import advise
    from halfwink.advice.day_advice import advise_day
    from halfwink.advice.idle_gaps import idle
    from halfwink.advice.verification import verify
    from halfwink.capture.recorder import record
    from halfwink.errors import HalfwinkError, Interrupted, RunError
    from halfwink.jobs import Job
    from halfwink.models.request_profile import profile
    from halfwink.results.results import Results
    from halfwink.results.results import open_results as open
    from halfwink.runs.comparison import compare
    from halfwink.runs.executors import LocalExecutor
    from halfwink.runs.laws import check_policy
    from halfwink.runs.logs import replay
    from halfwink.runs.pools import Dask, Pool
    from halfwink.runs.sampling import sample
    from halfwink.runs.studies import StudyRun, collected, run, run_part
    from halfwink.runs.sweep_plan import plan_study
    from halfwink.runs.tuning import tune
    from halfwink.targets.catalogue import experiment, experiments, machines, workloads
    from halfwink.targets.targets import reproduce

#: Where each public name lives. They are imported when they are asked for, so that `capture` and
#: `list` do not wait for data frames and charts.
_HOMES = {
    "Dask": "runs.pools",
    "HalfwinkError": "errors",
    "Interrupted": "errors",
    "Job": "jobs",
    "LocalExecutor": "runs.executors",
    "Pool": "runs.pools",
    "Results": "results.results",
    "RunError": "errors",
    "StudyRun": "runs.studies",
    "__version__": "_core",
    "advise": "advice.advice",
    "advise_day": "advice.day_advice",
    "collected": "runs.studies",
    "check_policy": "runs.laws",
    "compare": "runs.comparison",
    "experiment": "targets.catalogue",
    "experiments": "targets.catalogue",
    "idle": "advice.idle_gaps",
    "machines": "targets.catalogue",
    "open": "results.results",
    "plan_study": "runs.sweep_plan",
    "record": "capture.recorder",
    "replay": "runs.logs",
    "reproduce": "targets.targets",
    "run": "runs.studies",
    "run_part": "runs.studies",
    "sample": "runs.sampling",
    "profile": "models.request_profile",
    "tune": "runs.tuning",
    "verify": "advice.verification",
    "techniques": "_core",
    "workloads": "targets.catalogue",
    "worlds": "_core",
}
# A built-in function has the name `open` already.
_found = lazily(__name__, _HOMES, {"open": "open_results"})

__all__ = [
    "Dask",
    "HalfwinkError",
    "Interrupted",
    "Job",
    "LocalExecutor",
    "Pool",
    "Results",
    "RunError",
    "StudyRun",
    "__version__",
    "advise",
    "advise_day",
    "capture",
    "check_policy",
    "collected",
    "compare",
    "experiment",
    "experiments",
    "idle",
    "machines",
    "open",
    "plan_study",
    "profile",
    "record",
    "replay",
    "reproduce",
    "run",
    "run_part",
    "sample",
    "techniques",
    "tune",
    "verify",
    "workloads",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name in ("capture", "policies"):
        from importlib import import_module

        return import_module(f"halfwink.{name}")
    return _found(name)


def __dir__() -> list[str]:
    return sorted(__all__)
