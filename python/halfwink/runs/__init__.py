"""Runs of jobs: comparisons, studies and sweeps, on this machine and on others."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.runs.logs import Beside, Replay, beside
    from halfwink.runs.sampling import Sample
    from halfwink.runs.sweep_plan import StudyPlan
    from halfwink.runs.tuning import Tuned

__all__ = [
    "Beside",
    "Replay",
    "Sample",
    "StudyPlan",
    "Tuned",
    "beside",
]
#: Module of each name.
_HOMES = {
    "Beside": "runs.logs",
    "Replay": "runs.logs",
    "Sample": "runs.sampling",
    "StudyPlan": "runs.sweep_plan",
    "Tuned": "runs.tuning",
    "beside": "runs.logs",
}
__getattr__ = lazily(__name__, _HOMES)
