"""halfwink: a laboratory for low-latency energy saving in servers.

import halfwink as hw
res = hw.compare("nginx", techniques=["tap", "mapg-counter"], machine="ev6-16")
res.table()          # polars DataFrame
res.chart()          # altair chart
hw.run("studies/gating-ev6.toml")
"""

from halfwink._core import __version__, techniques
from halfwink.comparison import compare
from halfwink.errors import HalfwinkError, Interrupted, RunError
from halfwink.results import Results
from halfwink.studies import StudyRun, run
from halfwink.targets import reproduce

__all__ = [
    "HalfwinkError",
    "Interrupted",
    "Results",
    "RunError",
    "StudyRun",
    "__version__",
    "compare",
    "reproduce",
    "run",
    "techniques",
]
