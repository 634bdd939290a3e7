"""Verdicts on the headline claims of the five works, computed from published values and ours.

from halfwink.targets import claims

for claim in claims("gottschlag"):
    print(claim["verdict"], claim["claim"], claim["said"])
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halfwink.errors import HalfwinkError
from halfwink.jobs import names
from halfwink.library import library, root
from halfwink.results.wording import number
from halfwink.runs.batch import Progress
from halfwink.runs.executors import Executor, Submits
from halfwink.targets.claim_files import (
    KINDS,
    UNCHANGED,
    Claim,
    Part,
    Target,
    compares,
    is_given,
    is_number,
    load,
    neutral,
)
from halfwink.targets.targets import Values, begins, compute

#: File of the mutants that turn claims that fail, beside those that kill targets.
KEPT = "targets/killed/claims.toml"
VERDICTS = ("holds", "holds in part", "fails", "not determined", "echo")
#: Verdicts on claims that fail, wholly or in part.
FAILING = ("fails", "holds in part")
#: Verdicts on targets that are met, whatever that is worth.
MET = ("match", "holds", "insensitive", "calibrated", "arithmetic", "input")
#: Outcomes of a kind: as published, otherwise, not known, and as published because it was given.
YES, NO, OPEN, ECHO = "yes", "no", "open", "echo"
#: Judges values of targets, as ``library().verdicts``.
Judge = Callable[[list[tuple[str, float | None]]], list[str]]


@dataclass(frozen=True)
class Measured:
    """Targets and one value for each, ours or a null's.

    Attributes:
        targets: targets by id.
        values: values by id; None where there is none.
        verdicts: verdicts on the values by id.
    """

    targets: Mapping[str, Target]
    values: Mapping[str, float | None]
    verdicts: Mapping[str, str]

    @classmethod
    def judged(
        cls, targets: Mapping[str, Target], values: Mapping[str, float | None], judge: Judge
    ) -> Measured:
        """Returns the values with their verdicts."""
        verdicts = judge(list(values.items()))
        return cls(targets, values, dict(zip(values, verdicts, strict=True)))

    def outcome(self, kind: str, parts: Sequence[Part]) -> str:
        """Returns the outcome of a kind: one part that is otherwise decides, then an open one."""
        found = {self._part(kind, part) for part in parts}
        return next(outcome for outcome in (NO, OPEN, YES, ECHO) if outcome in found)

    def failing(self, kinds: Mapping[str, Sequence[Part]]) -> list[str]:
        """Returns the targets that fail a kind each by itself."""
        parts = [(kind, part) for kind, those in kinds.items() for part in those]
        alone = [(kind, part) for kind, part in parts if part.how == "alone"]
        return [part.ids[0] for kind, part in alone if self._part(kind, part) == NO]

    def _part(self, kind: str, part: Part) -> str:
        targets = [self.targets[id] for id in part.ids]
        values = [self.values[id] for id in part.ids]
        known = [value for value in values if value is not None]
        is_judged = all(t["class"] != "hardware" and not t["contradicted"] for t in targets)
        if len(known) < len(values) or not is_judged:
            return OPEN
        if part.how == "alone":
            holds = self._alone(kind, targets[0], known[0])
        else:
            holds = compares(part.how, known)
        if not holds:
            return NO
        return ECHO if all(is_given(target) for target in targets) else YES

    def _alone(self, kind: str, target: Target, value: float) -> bool:
        if isinstance(target["published"], bool):
            return (value >= 0.5) == target["published"]
        if kind == "sign":
            return _side(target, value) > 0
        # No tolerance forgives a sign, if it shows in the digits that are printed.
        shown = round(value, _decimals(target["published"]))
        return _side(target, shown) >= 0 and self.verdicts[target["id"]] in MET


def _side(target: Target, value: float) -> float:
    """Returns more than 0 if a value and the published one lie on one side of no effect, less than
    0 if they lie on two."""
    if not is_number(target):
        return 0.0
    none = neutral(target)
    return (float(target["published"]) - none) * (value - none)


def _decimals(published: Any) -> int:
    """Returns the number of decimals that are printed."""
    text = str(published)
    return 0 if "e" in text or text.endswith(".0") else len(text.partition(".")[2])


def verdict(outcomes: Mapping[str, str]) -> str:
    """Returns the verdict on a claim from the outcome of each of its kinds.

    A kind that is open or an echo neither fails a claim nor lets it hold whole.
    """
    found = list(outcomes.values())
    if YES in found:
        return "holds" if set(found) == {YES} else "holds in part"
    if NO in found:
        return "fails"
    return "not determined" if OPEN in found else "echo"


def null_holds(claim: Claim, ours: Measured, outcomes: Mapping[str, str], judge: Judge) -> bool:
    """Returns whether a model without the mechanism meets every kind that is judged.

    Targets that the null does not name keep ours if it was given, and are open otherwise.
    """
    values: Values = {}
    for id in claim.ids:
        target, value = ours.targets[id], claim.null.values.get(id) if claim.null else None
        if value == UNCHANGED:
            values[id] = neutral(target)
        elif isinstance(value, str):
            values[id] = ours.values[value]
        elif value is None:
            values[id] = ours.values[id] if is_given(target) else None
        else:
            values[id] = value
    null = Measured.judged(ours.targets, values, judge)
    judged = [kind for kind, outcome in outcomes.items() if outcome in (YES, NO)]
    met = [null.outcome(kind, claim.kinds[kind]) in (YES, ECHO) for kind in judged]
    return bool(met) and all(met)


def turned_by(claim: Claim, ours: Measured, outcomes: Mapping[str, str]) -> list[str]:
    """Returns mutants that are known to turn a kind that holds.

    A mutant that kills a target turns a kind whose verdict is that target's: sizes, shapes, and
    claims in words. Kills say nothing about a sign or an order of numbers.
    """
    found: set[str] = set()
    for kind, parts in claim.kinds.items():
        for part in parts if outcomes[kind] == YES else ():
            target = ours.targets[part.ids[0]]
            is_own = kind in ("size", "shape") or not is_number(target)
            if part.how == "alone" and is_own:
                found.update(target["killed_by"])
    return sorted(found)


def judged(
    claims: Sequence[Claim],
    targets: Mapping[str, Target],
    values: Mapping[str, float | None],
    judge: Judge,
) -> list[dict[str, Any]]:
    """Judges claims: one dict per claim, as the JSON.

    Args:
        claims: which.
        targets: all targets that they read, by id.
        values: ours of each, by id.
        judge: judges values of targets.
    """
    ours = Measured.judged(targets, {id: values[id] for c in claims for id in c.read}, judge)
    return [_entry(claim, ours, judge) for claim in claims]


@dataclass(frozen=True)
class Turned:
    """Lists the mutants that turn a claim that fails, wholly or in part.

    Attributes:
        tried: number of mutants that were tried: all that concern its targets.
        better: verdict under each mutant that makes it better, by the mutant's name.
    """

    tried: int
    better: dict[str, str]


def with_turned(
    entries: Sequence[Mapping[str, Any]], turned: Mapping[str, Turned]
) -> list[dict[str, Any]]:
    """Adds to claims that fail, wholly or in part, what turns them.

    Args:
        entries: judged claims.
        turned: the mutants that turn each claim, by its id (`halfwink.targets.claim_mutants`).
    """
    what = {mutant["name"]: mutant["what"] for mutant in library().mutants()}
    found: list[dict[str, Any]] = []
    for entry in entries:
        known = turned.get(entry["id"]) if entry["verdict"] in FAILING else None
        # A change that was taken off the list explains nothing any more.
        better = {n: v for n, v in known.better.items() if n in what} if known else {}
        best = [name for name, verdict in better.items() if verdict == "holds"] or list(better)
        sentence = None
        if best:
            sentence = f"It {better[best[0]]} if {what[best[0]]}."
        elif known is not None:
            sentence = f"None of the {known.tried} changes that were tried turns it."
        found.append({**entry, "better_under": list(better), "turned": sentence})
    return found


def _entry(claim: Claim, ours: Measured, judge: Judge) -> dict[str, Any]:
    outcomes = {kind: ours.outcome(kind, parts) for kind, parts in claim.kinds.items()}
    null = None if claim.null is None else null_holds(claim, ours, outcomes, judge)
    figure = ours.targets[claim.figure]
    value = ours.values[claim.figure]
    if value is not None and isinstance(figure["published"], bool):
        value = value >= 0.5
    return {
        "id": claim.id,
        "claim": claim.text,
        "source": claim.source,
        "verdict": verdict(outcomes),
        **{kind: outcomes.get(kind) for kind in KINDS},
        "figure": claim.figure,
        "unit": figure["unit"],
        "published": figure["published"],
        "ours": value,
        "said": " ".join([_beside(figure, value), *_said(claim, ours, outcomes)]),
        "null": claim.null.text if claim.null else None,
        "null_holds": null,
        "turned_by": turned_by(claim, ours, outcomes),
        "targets": claim.ids,
    }


def _beside(target: Target, value: float | bool | None) -> str:
    """Returns the sentence that lays ours beside the printed value."""
    published, unit = target["published"], target["unit"]
    if isinstance(published, bool):
        here = "not determined" if value is None else str(bool(value)).lower()
        return f"{published} in print, {here} here: {target['quantity']}."
    behind = "" if unit in ("1", "text") else f" {unit}"
    printed = published if isinstance(published, str) else f"{number(published, 6)}{behind}"
    here = "not determined" if value is None else f"{number(float(value))}{behind}"
    if unit == "text" and value is not None:
        here = "the same" if value == 1 else "another"
    return f"Printed {printed}, here {here}: {target['quantity']}."


def _said(claim: Claim, ours: Measured, outcomes: Mapping[str, str]) -> list[str]:
    """Returns what else there is to say: who leads where another does, and the kinds of a part."""
    said: list[str] = []
    for part in claim.kinds.get("who", ()):
        values = [ours.values[id] for id in part.ids]
        known = [value for value in values if value is not None]
        if part.how == "alone" or len(known) < len(values) or compares(part.how, known):
            continue
        extreme, word = (max, "largest") if part.how == "most" else (min, "smallest")
        here = known.index(extreme(known))
        shown = _differences([str(ours.targets[id]["quantity"]) for id in part.ids])
        said.append(f"The {word} is {shown[0]} in print and {shown[here]} here.")
    failing = ours.failing(claim.kinds)
    if failing and claim.figure not in failing:
        # The figure alone would read as if nothing failed.
        target, value = ours.targets[failing[0]], ours.values[failing[0]]
        said.append(f"What fails: {_beside(target, value)}")
    if verdict(outcomes) == "holds in part":
        said.append(_by_kind(outcomes))
    return said


def _by_kind(outcomes: Mapping[str, str]) -> str:
    """Returns the sentence that says which kinds hold."""
    verbs = {
        YES: ("holds", "hold"),
        NO: ("fails", "fail"),
        OPEN: ("is not determined", "are not determined"),
        ECHO: ("is an echo", "are echoes"),
    }
    said: list[str] = []
    for outcome, (one, several) in verbs.items():
        kinds = [kind for kind, found in outcomes.items() if found == outcome]
        if kinds:
            said.append(f"{joined(kinds)} {one if len(kinds) == 1 else several}")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def joined(words: Sequence[str]) -> str:
    """Returns words as a sentence lists them."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _differences(texts: Sequence[str]) -> list[str]:
    """Returns the words in which texts differ, without those that all begin or end with."""
    words = [text.split() for text in texts]
    least = min(map(len, words))
    first = next((n for n in range(least) if len({w[n] for w in words}) > 1), 0)
    last = next((n for n in range(1, least + 1) if len({w[-n] for w in words}) > 1), 1)
    return [" ".join(w[first : len(w) - last + 1]).strip(",") for w in words]


def null_sentence(entry: Mapping[str, Any]) -> str:
    """Returns the sentence on a claim's null; empty without one."""
    if entry["null"] is None:
        return ""
    says = "says so too" if entry["null_holds"] else "does not say so"
    return f"A model without the mechanism {says}: {entry['null']}."


def summary(entries: Sequence[Mapping[str, Any]]) -> str:
    """Returns the line with the counts."""
    words = ("hold", "hold in part", "fail", "not determined", "echo")
    counts = [sum(entry["verdict"] == verdict for entry in entries) for verdict in VERDICTS]
    pairs = zip(counts, words, strict=True)
    said = f"{len(entries)} claims: {', '.join(f'{n} {word}' for n, word in pairs if n)}"
    good = [e for e in entries if e["verdict"] in ("holds", "holds in part")]
    same = sum(entry["null_holds"] is True for entry in good)
    if same:
        said += f"; a model without the mechanism meets {same} of those that hold as well"
    return said


def every_claim() -> list[Claim]:
    """Loads the claims of all works.

    Raises:
        ClaimError: a file of claims is wrong.
    """
    return load(root() / "targets" / "claims", library().targets())


def select(claims: Sequence[Claim], wanted: Sequence[str]) -> list[Claim]:
    """Returns the claims of the works or beginnings of ids named; all if none are.

    Raises:
        HalfwinkError: a name fits no claim.
    """
    for name in wanted:
        if not any(_is_named(claim, name) for claim in claims):
            works = ", ".join(dict.fromkeys(claim.work for claim in claims))
            raise HalfwinkError(
                f"no claim or work `{name}`; works: {works}; ids: `halfwink reproduce --claims`"
            )
    return [c for c in claims if not wanted or any(_is_named(c, name) for name in wanted)]


def _is_named(claim: Claim, name: str) -> bool:
    return claim.work == name or begins(claim.id, name)


def claims(
    wanted: str | Sequence[str] = (),
    *,
    fresh: bool = False,
    executor: Executor | Submits | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Computes the targets that carry the claims and judges each claim: one dict per claim.

    Args:
        wanted: works (``strong``) or beginnings of claims' ids; all if none.
        fresh: compute again what is already there.

    Raises:
        ClaimError: a file of claims is wrong.
        HalfwinkError: a name is unknown.
        RunError: a study failed, or a target's SQL does.
    """
    chosen = select(every_claim(), names(wanted))
    read = {id for claim in chosen for id in claim.read}
    targets = {t["id"]: t for t in library().targets() if t["id"] in read}
    values = compute(list(targets.values()), fresh=fresh, executor=executor, progress=progress)
    return with_turned(judged(chosen, targets, values, library().verdicts), kept_turned())


def kept_turned() -> dict[str, Turned]:
    """Returns what is kept of what turns claims that fail."""
    turned = tomllib.loads((root() / KEPT).read_text())["turned"]
    return {id: Turned(entry["tried"], entry["better"]) for id, entry in turned.items()}
