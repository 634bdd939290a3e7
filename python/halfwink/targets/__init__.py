"""Published numbers, figures and claims beside ours."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.targets.claim_verdicts import claims
    from halfwink.targets.mutation import Mutants, mutants
    from halfwink.targets.score import Score, scores

__all__ = [
    "Mutants",
    "Score",
    "claims",
    "mutants",
    "scores",
]
#: Module of each name.
_HOMES = {
    "Mutants": "targets.mutation",
    "Score": "targets.score",
    "claims": "targets.claim_verdicts",
    "mutants": "targets.mutation",
    "scores": "targets.score",
}
__getattr__ = lazily(__name__, _HOMES)
