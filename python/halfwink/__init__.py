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
"""

from __future__ import annotations

#: As `typing` has it, which takes longer to import than all else that is here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from halfwink import capture
    from halfwink._core import __version__, techniques, worlds
    from halfwink.advice.advice import Advice, advise
    from halfwink.advice.day_advice import DayAdvice, advise_day
    from halfwink.advice.idle_gaps import IdleGaps, idle
    from halfwink.advice.verification import Verification, verify
    from halfwink.calibrate.block import StorageCalibration, calibrate_storage
    from halfwink.calibrate.host import HostCalibration, calibrate_host
    from halfwink.capture.recorder import Recording, record
    from halfwink.errors import HalfwinkError, Interrupted, RunError
    from halfwink.jobs import Job
    from halfwink.live.router import LiveRouter
    from halfwink.models.circuits import Fabric, Schedule, circuit_schedule, fabric
    from halfwink.models.fabric_advice import CircuitAdvice, circuit_advice
    from halfwink.models.io_paths import io_path
    from halfwink.models.preheat import PreheatSimulation
    from halfwink.models.preheat import simulate as preheat_simulation
    from halfwink.models.profiles import OsProfile, os_profile, os_profiles
    from halfwink.models.request_profile import RequestProfile, profile, stated_profile
    from halfwink.models.segregation import Segregation, segregation_sweep
    from halfwink.models.service import ServiceProfile, service_profile
    from halfwink.results.results import Results
    from halfwink.results.results import open_results as open
    from halfwink.runs.comparison import compare
    from halfwink.runs.executors import LocalExecutor
    from halfwink.runs.laws import check_policy
    from halfwink.runs.logs import Beside, Replay, beside, replay
    from halfwink.runs.pools import Dask, Pool
    from halfwink.runs.sampling import Sample, sample
    from halfwink.runs.studies import StudyRun, collected, run, run_part
    from halfwink.runs.sweep_plan import StudyPlan, plan_study
    from halfwink.targets.catalogue import experiment, experiments, machines, workloads
    from halfwink.targets.claim_verdicts import claims
    from halfwink.targets.mutation import Mutants, mutants
    from halfwink.targets.score import Score, scores
    from halfwink.targets.targets import reproduce

#: Where each public name lives. They are imported when they are asked for, so that `capture` and
#: `list` do not wait for data frames and charts.
_HOMES = {
    "Advice": "advice.advice",
    "CircuitAdvice": "models.fabric_advice",
    "DayAdvice": "advice.day_advice",
    "Dask": "runs.pools",
    "Fabric": "models.circuits",
    "HalfwinkError": "errors",
    "HostCalibration": "calibrate.host",
    "Interrupted": "errors",
    "Job": "jobs",
    "LiveRouter": "live.router",
    "LocalExecutor": "runs.executors",
    "Mutants": "targets.mutation",
    "OsProfile": "models.profiles",
    "Pool": "runs.pools",
    "PreheatSimulation": "models.preheat",
    "Results": "results.results",
    "RunError": "errors",
    "Sample": "runs.sampling",
    "Schedule": "models.circuits",
    "Score": "targets.score",
    "Segregation": "models.segregation",
    "RequestProfile": "models.request_profile",
    "ServiceProfile": "models.service",
    "StorageCalibration": "calibrate.block",
    "StudyPlan": "runs.sweep_plan",
    "StudyRun": "runs.studies",
    "IdleGaps": "advice.idle_gaps",
    "__version__": "_core",
    "Beside": "runs.logs",
    "Recording": "capture.recorder",
    "Replay": "runs.logs",
    "advise": "advice.advice",
    "advise_day": "advice.day_advice",
    "beside": "runs.logs",
    "calibrate_host": "calibrate.host",
    "calibrate_storage": "calibrate.block",
    "circuit_advice": "models.fabric_advice",
    "circuit_schedule": "models.circuits",
    "claims": "targets.claim_verdicts",
    "collected": "runs.studies",
    "check_policy": "runs.laws",
    "compare": "runs.comparison",
    "experiment": "targets.catalogue",
    "experiments": "targets.catalogue",
    "fabric": "models.circuits",
    "idle": "advice.idle_gaps",
    "io_path": "models.io_paths",
    "machines": "targets.catalogue",
    "mutants": "targets.mutation",
    "open": "results.results",
    "os_profile": "models.profiles",
    "os_profiles": "models.profiles",
    "plan_study": "runs.sweep_plan",
    "preheat_simulation": "models.preheat",
    "record": "capture.recorder",
    "replay": "runs.logs",
    "reproduce": "targets.targets",
    "run": "runs.studies",
    "run_part": "runs.studies",
    "sample": "runs.sampling",
    "scores": "targets.score",
    "segregation_sweep": "models.segregation",
    "profile": "models.request_profile",
    "service_profile": "models.service",
    "stated_profile": "models.request_profile",
    "verify": "advice.verification",
    "Verification": "advice.verification",
    "techniques": "_core",
    "workloads": "targets.catalogue",
    "worlds": "_core",
}
#: Public names that their homes spell otherwise: built-in functions have them already, or the home
#: says the rest.
_ALIASES = {"open": "open_results", "preheat_simulation": "simulate"}

__all__ = [
    "Advice",
    "Beside",
    "CircuitAdvice",
    "Dask",
    "DayAdvice",
    "Fabric",
    "HalfwinkError",
    "HostCalibration",
    "IdleGaps",
    "Interrupted",
    "Job",
    "LiveRouter",
    "LocalExecutor",
    "Mutants",
    "OsProfile",
    "Pool",
    "PreheatSimulation",
    "Recording",
    "Replay",
    "RequestProfile",
    "Results",
    "RunError",
    "Sample",
    "Schedule",
    "Score",
    "Segregation",
    "ServiceProfile",
    "StorageCalibration",
    "StudyPlan",
    "StudyRun",
    "Verification",
    "__version__",
    "advise",
    "advise_day",
    "beside",
    "calibrate_host",
    "calibrate_storage",
    "capture",
    "check_policy",
    "circuit_advice",
    "circuit_schedule",
    "claims",
    "collected",
    "compare",
    "experiment",
    "experiments",
    "fabric",
    "idle",
    "io_path",
    "machines",
    "mutants",
    "open",
    "os_profile",
    "os_profiles",
    "plan_study",
    "preheat_simulation",
    "profile",
    "record",
    "replay",
    "reproduce",
    "run",
    "run_part",
    "sample",
    "scores",
    "segregation_sweep",
    "service_profile",
    "stated_profile",
    "techniques",
    "verify",
    "workloads",
    "worlds",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "capture":
        # A module that can be called.
        return import_module("halfwink.capture")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'halfwink' has no attribute '{name}'")
    return getattr(import_module(f"halfwink.{home}"), _ALIASES.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)
