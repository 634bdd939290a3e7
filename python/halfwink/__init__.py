"""halfwink: a laboratory for low-latency energy saving in servers.

import halfwink as hw

res = hw.compare("nginx", techniques=["tap", "mapg-counter"], machine="ev6-16")
res.table()  # polars DataFrame
res.chart()  # altair chart
hw.run("studies/gating.toml")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfwink._core import __version__, techniques
    from halfwink.comparison import compare
    from halfwink.errors import HalfwinkError, Interrupted, RunError
    from halfwink.forwarding import LiveRouter
    from halfwink.hybrid import (
        HybridExperiments,
        HybridRun,
        hybrid_experiments,
        hybrid_server,
        hybrid_year,
    )
    from halfwink.profiles import OsProfile, os_profile, os_profiles
    from halfwink.results import Results
    from halfwink.router import RouterExperiments, RouterRun, router_experiments, software_router
    from halfwink.service import ServiceProfile, service_profile
    from halfwink.studies import StudyRun, run
    from halfwink.switching import Switching, core_switching
    from halfwink.targets import reproduce

#: Where each public name lives. They are imported when they are asked for, so that `capture` and
#: `list` do not wait for data frames and charts.
_HOMES = {
    "HalfwinkError": "errors",
    "HybridExperiments": "hybrid",
    "HybridRun": "hybrid",
    "Interrupted": "errors",
    "LiveRouter": "forwarding",
    "OsProfile": "profiles",
    "Results": "results",
    "RouterExperiments": "router",
    "RouterRun": "router",
    "RunError": "errors",
    "ServiceProfile": "service",
    "StudyRun": "studies",
    "Switching": "switching",
    "__version__": "_core",
    "compare": "comparison",
    "core_switching": "switching",
    "hybrid_experiments": "hybrid",
    "hybrid_server": "hybrid",
    "hybrid_year": "hybrid",
    "os_profile": "profiles",
    "os_profiles": "profiles",
    "reproduce": "targets",
    "router_experiments": "router",
    "run": "studies",
    "service_profile": "service",
    "software_router": "router",
    "techniques": "_core",
}

__all__ = [
    "HalfwinkError",
    "HybridExperiments",
    "HybridRun",
    "Interrupted",
    "LiveRouter",
    "OsProfile",
    "Results",
    "RouterExperiments",
    "RouterRun",
    "RunError",
    "ServiceProfile",
    "StudyRun",
    "Switching",
    "__version__",
    "compare",
    "core_switching",
    "hybrid_experiments",
    "hybrid_server",
    "hybrid_year",
    "os_profile",
    "os_profiles",
    "reproduce",
    "router_experiments",
    "run",
    "service_profile",
    "software_router",
    "techniques",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'halfwink' has no attribute '{name}'")
    return getattr(import_module(f"halfwink.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
