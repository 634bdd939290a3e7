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
    from halfwink.advice import Advice, advise
    from halfwink.block_calibration import StorageCalibration, calibrate_storage
    from halfwink.catalogue import experiment, experiments, machines, workloads
    from halfwink.circuits import Fabric, Schedule, circuit_schedule, fabric
    from halfwink.claim_verdicts import claims
    from halfwink.comparison import compare
    from halfwink.day_advice import DayAdvice, advise_day
    from halfwink.errors import HalfwinkError, Interrupted, RunError
    from halfwink.executors import LocalExecutor
    from halfwink.fabric_advice import CircuitAdvice, circuit_advice
    from halfwink.host_calibration import HostCalibration, calibrate_host
    from halfwink.idle_gaps import IdleGaps, idle
    from halfwink.io_paths import io_path
    from halfwink.jobs import Job
    from halfwink.live_router import LiveRouter
    from halfwink.logs import Beside, Replay, beside, replay
    from halfwink.mutation import Mutants, mutants
    from halfwink.pools import Dask, Pool
    from halfwink.preheat import PreheatSimulation
    from halfwink.preheat import simulate as preheat_simulation
    from halfwink.profiles import OsProfile, os_profile, os_profiles
    from halfwink.recorder import Recording, record
    from halfwink.request_profile import RequestProfile, profile, stated_profile
    from halfwink.results import Results
    from halfwink.results import open_results as open
    from halfwink.sampling import Sample, sample
    from halfwink.score import Score, scores
    from halfwink.segregation import Segregation, segregation_sweep
    from halfwink.service import ServiceProfile, service_profile
    from halfwink.studies import StudyRun, collected, run, run_part
    from halfwink.sweep_plan import StudyPlan, plan_study
    from halfwink.targets import reproduce
    from halfwink.verification import Verification, verify

#: Where each public name lives. They are imported when they are asked for, so that `capture` and
#: `list` do not wait for data frames and charts.
_HOMES = {
    "Advice": "advice",
    "CircuitAdvice": "fabric_advice",
    "DayAdvice": "day_advice",
    "Dask": "pools",
    "Fabric": "circuits",
    "HalfwinkError": "errors",
    "HostCalibration": "host_calibration",
    "Interrupted": "errors",
    "Job": "jobs",
    "LiveRouter": "live_router",
    "LocalExecutor": "executors",
    "Mutants": "mutation",
    "OsProfile": "profiles",
    "Pool": "pools",
    "PreheatSimulation": "preheat",
    "Results": "results",
    "RunError": "errors",
    "Sample": "sampling",
    "Schedule": "circuits",
    "Score": "score",
    "Segregation": "segregation",
    "RequestProfile": "request_profile",
    "ServiceProfile": "service",
    "StorageCalibration": "block_calibration",
    "StudyPlan": "sweep_plan",
    "StudyRun": "studies",
    "IdleGaps": "idle_gaps",
    "__version__": "_core",
    "Beside": "logs",
    "Recording": "recorder",
    "Replay": "logs",
    "advise": "advice",
    "advise_day": "day_advice",
    "beside": "logs",
    "calibrate_host": "host_calibration",
    "calibrate_storage": "block_calibration",
    "circuit_advice": "fabric_advice",
    "circuit_schedule": "circuits",
    "claims": "claim_verdicts",
    "collected": "studies",
    "compare": "comparison",
    "experiment": "catalogue",
    "experiments": "catalogue",
    "fabric": "circuits",
    "idle": "idle_gaps",
    "io_path": "io_paths",
    "machines": "catalogue",
    "mutants": "mutation",
    "open": "results",
    "os_profile": "profiles",
    "os_profiles": "profiles",
    "plan_study": "sweep_plan",
    "preheat_simulation": "preheat",
    "record": "recorder",
    "replay": "logs",
    "reproduce": "targets",
    "run": "studies",
    "run_part": "studies",
    "sample": "sampling",
    "scores": "score",
    "segregation_sweep": "segregation",
    "profile": "request_profile",
    "service_profile": "service",
    "stated_profile": "request_profile",
    "verify": "verification",
    "Verification": "verification",
    "techniques": "_core",
    "workloads": "catalogue",
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
