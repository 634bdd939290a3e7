"""Claims of the works: their files, verdicts computed from targets, and what shows them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink
from rich.console import Console

from halfwink.cli import claims as cli_claims
from halfwink.cli import console
from halfwink.library import library, root
from halfwink.targets import claim_mutants
from halfwink.targets import claim_verdicts as verdicts
from halfwink.targets.claim_files import KINDS, ClaimError, load


def target(name: str, published: Any = 20.0, **changes: Any) -> dict[str, Any]:
    """A target of a work `tap` that a mutant `no-gates` kills."""
    made = {
        "id": f"tap/{name}",
        "quantity": f"saving of {name}",
        "unit": "claim" if isinstance(published, bool) else "%",
        "neutral": 1.0 if changes.get("unit") == "x" else 0.0,
        "published": published,
        "class": "quantitative",
        "contradicted": False,
        "compute": {"calibrated": changes.pop("calibrated", False)},
        "killed_by": ["no-gates"],
    }
    return made | changes


#: Predictions but for `fitted`.
TARGETS = [
    target("mcf"),
    target("lbm", 10.0),
    target("gcc", 5.0),
    target("fitted", 8.0, calibrated=True),
    target("taken", 3.0, **{"class": "input"}),
    target("faster", 1.245, unit="x"),
    target("knee", 4.0, unit="cores"),
    target("falls", True),
    target("never", False),
    target("board", 7.0, **{"class": "hardware"}),
    target("odd", 7.0, contradicted=True),
    target("nothing", 0.0),
    target("kernel", "Linux", unit="text"),
]
AS_PRINTED = {
    t["id"]: 1.0 if isinstance(t["published"], str) else float(t["published"]) for t in TARGETS
}
CLAIM = '[[claim]]\nid = "a"\nclaim = "It saves."\nsource = "Table 1"\nfigure = "mcf"\n'


def judge(values: list[tuple[str, float | None]]) -> list[str]:
    """Judges numbers within 25 % of print, and those of `faster` whatever they are."""
    by_id = {t["id"]: t for t in TARGETS}
    found: list[str] = []
    for id, value in values:
        published = by_id[id]["published"]
        if value is None:
            found.append("undetermined")
        elif isinstance(published, str):
            found.append("match" if value == 1 else "miss")
        else:
            near = abs(value - published) <= 0.25 * abs(published) or id == "tap/faster"
            found.append("match" if near else "miss")
    return found


def claims_of(folder: Path, text: str, *, head: str = 'schema = 1\nwork = "tap"\n') -> list[Any]:
    (folder / "tap.toml").write_text(head + text)
    return load(folder, TARGETS)


def judged(folder: Path, kinds: str, **ours: float | None) -> dict[str, Any]:
    """A claim of these kinds where ours are as printed but for some."""
    values = AS_PRINTED | {f"tap/{name}": value for name, value in ours.items()}
    claims = claims_of(folder, CLAIM + kinds)
    return verdicts.judged(claims, {t["id"]: t for t in TARGETS}, values, judge)[0]


#: Kinds, ours that differ from print, and what is said of the claim.
EXPECTED: list[tuple[str, dict[str, float | None], str]] = [
    ('sign = ["mcf"]', {}, "holds"),
    ('sign = ["mcf"]', {"mcf": 0.01}, "holds"),
    ('sign = ["mcf"]', {"mcf": 0.0}, "fails"),
    ('sign = ["mcf"]', {"mcf": -20.0}, "fails"),
    ('sign = ["faster"]', {"faster": 1.03}, "holds"),
    ('sign = ["faster"]', {"faster": 0.98}, "fails"),
    ('sign = ["falls"]', {"falls": 0.0}, "fails"),
    ('sign = ["never"]', {"never": 1.0}, "fails"),
    ('order = ["gcc < lbm < mcf"]', {}, "holds"),
    ('order = ["gcc < lbm < mcf"]', {"lbm": 19.0, "gcc": -4.0}, "holds"),
    ('order = ["gcc < lbm < mcf"]', {"lbm": 21.0}, "fails"),
    ('order = ["gcc < lbm < mcf"]', {"lbm": 20.0}, "fails"),
    ('order = ["falls"]', {"falls": 0.0}, "fails"),
    ('size = ["mcf", "lbm"]', {"mcf": 17.0}, "holds"),
    ('size = ["mcf", "lbm"]', {"mcf": 12.0}, "fails"),
    # A tolerance on 1 + gain would take a loss for a gain.
    ('size = ["faster"]', {"faster": 1.03}, "holds"),
    ('size = ["faster"]', {"faster": 0.98}, "fails"),
    ('size = ["faster"]', {"faster": 0.9999}, "holds"),
    ('who = ["mcf > lbm, gcc"]', {"mcf": 11.0}, "holds"),
    ('who = ["mcf > lbm, gcc"]', {"gcc": 30.0}, "fails"),
    ('who = ["gcc < lbm, mcf"]', {"gcc": 12.0}, "fails"),
    ('who = ["kernel"]', {}, "holds"),
    ('who = ["kernel"]', {"kernel": 0.0}, "fails"),
    ('shape = ["knee"]', {"knee": 5.0}, "holds"),
    ('shape = ["knee"]', {"knee": 6.0}, "fails"),
    ('sign = ["mcf"]\nsize = ["mcf"]', {"mcf": 5.0}, "holds in part"),
    ('sign = ["mcf"]\nsize = ["lbm"]', {"lbm": None}, "holds in part"),
    ('sign = ["mcf"]\nsize = ["fitted"]', {}, "holds in part"),
    ('sign = ["mcf"]\nsize = ["mcf"]', {"mcf": -5.0}, "fails"),
    ('size = ["mcf"]', {"mcf": None}, "not determined"),
    ('size = ["board"]', {}, "not determined"),
    ('size = ["odd"]', {}, "not determined"),
    ('size = ["fitted", "taken"]', {}, "echo"),
    ('order = ["taken < fitted"]', {}, "echo"),
    ('size = ["fitted"]', {"fitted": 20.0}, "fails"),
    ('size = ["fitted", "mcf"]', {}, "holds"),
    ('order = ["fitted < mcf"]', {}, "holds"),
]


@pytest.mark.parametrize(("kinds", "ours", "expected"), EXPECTED)
def test_verdict_is_computed_from_targets(
    tmp_path: Path, kinds: str, ours: dict[str, float | None], expected: str
) -> None:
    assert judged(tmp_path, kinds, **ours)["verdict"] == expected


def test_every_verdict_and_kind_has_a_case() -> None:
    assert {expected for _, _, expected in EXPECTED} == set(verdicts.VERDICTS)
    used = {line.split(" = ")[0] for kinds, _, _ in EXPECTED for line in kinds.split("\n")}
    assert used == set(KINDS)


def test_part_says_which_kinds_hold(tmp_path: Path) -> None:
    kinds = 'sign = ["mcf"]\norder = ["gcc < mcf"]\nsize = ["mcf"]\nshape = ["fitted"]'
    found = judged(tmp_path, kinds, mcf=6.0)
    assert [found[kind] for kind in KINDS] == ["yes", "yes", "no", None, "echo"]
    assert found["said"] == (
        "Printed 20 %, here 6 %: saving of mcf. Sign and order hold; size fails; shape is an echo."
    )


def test_sentence_lays_ours_beside_print(tmp_path: Path) -> None:
    def said(figure: str, **ours: float | None) -> str:
        text = CLAIM.replace('"mcf"', f'"{figure}"') + 'sign = ["mcf"]'
        values = AS_PRINTED | {f"tap/{name}": value for name, value in ours.items()}
        by_id = {t["id"]: t for t in TARGETS}
        return verdicts.judged(claims_of(tmp_path, text), by_id, values, judge)[0]["said"]

    assert said("faster", faster=1.0312) == "Printed 1.245 x, here 1.03 x: saving of faster."
    assert said("lbm", lbm=-123456.0) == "Printed 10 %, here -123,456 %: saving of lbm."
    assert said("lbm", lbm=4321.0) == "Printed 10 %, here 4,321 %: saving of lbm."
    assert said("lbm", lbm=None) == "Printed 10 %, here not determined: saving of lbm."
    assert said("falls", falls=0.0) == "True in print, false here: saving of falls."
    assert said("never") == "False in print, false here: saving of never."
    assert said("falls", falls=None) == "True in print, not determined here: saving of falls."
    assert said("kernel", kernel=0.0) == "Printed Linux, here another: saving of kernel."


def test_sentence_names_who_leads_instead(tmp_path: Path) -> None:
    found = judged(tmp_path, 'who = ["mcf > lbm, gcc"]', gcc=30.0)
    assert "The largest is mcf in print and gcc here." in found["said"]
    assert "The largest" not in judged(tmp_path, 'who = ["mcf > lbm, gcc"]')["said"]


NULL = '\n[claim.null]\ntext = "nothing is gated"\n[claim.null.values]\n'
#: Kinds, values of the null, ours that differ, and whether the null would hold.
NULLS: list[tuple[str, str, dict[str, float | None], bool]] = [
    ('sign = ["mcf"]', 'mcf = "unchanged"', {}, False),
    ('size = ["mcf"]', "mcf = 21", {}, True),
    ('size = ["faster"]', 'faster = "unchanged"', {}, True),
    ('sign = ["faster"]', 'faster = "unchanged"', {}, False),
    ('size = ["lbm"]', 'lbm = "fitted"', {}, True),
    ('size = ["mcf"]', 'mcf = "fitted"', {}, False),
    ('shape = ["falls"]', "falls = true", {}, True),
    ('shape = ["falls"]', "falls = false", {}, False),
    # A fitted value is the null's too; a prediction that it does not name is not.
    ('order = ["taken < lbm"]', "lbm = 9", {}, True),
    ('order = ["gcc < lbm"]', "lbm = 9", {}, False),
    # The null meets a part of what is judged.
    ('sign = ["mcf"]\nsize = ["lbm"]', 'mcf = "unchanged"\nlbm = 10', {}, False),
    # It would meet what we miss.
    ('size = ["mcf"]', "mcf = 21", {"mcf": 2.0}, True),
    # An echo of ours is not judged.
    ('sign = ["mcf"]\nsize = ["fitted"]', "mcf = 1\nfitted = 99", {}, True),
]


@pytest.mark.parametrize(("kinds", "values", "ours", "expected"), NULLS)
def test_null_is_judged_as_ours_is(
    tmp_path: Path, kinds: str, values: str, ours: dict[str, float | None], expected: bool
) -> None:
    found = judged(tmp_path, kinds + NULL + values, **ours)
    assert found["null_holds"] is expected
    says = "says so too" if expected else "does not say so"
    assert verdicts.null_sentence(found) == (
        f"A model without the mechanism {says}: nothing is gated."
    )


def test_null_changes_no_verdict_and_is_optional(tmp_path: Path) -> None:
    assert judged(tmp_path, 'size = ["mcf"]' + NULL + "mcf = 21")["verdict"] == "holds"
    found = judged(tmp_path, 'size = ["mcf"]')
    assert found["null"] is None
    assert found["null_holds"] is None
    assert verdicts.null_sentence(found) == ""


def test_a_claim_that_fails_says_what_turns_it() -> None:
    entries = [
        {"id": "mogul/a", "verdict": "fails"},
        {"id": "mogul/b", "verdict": "holds in part"},
        {"id": "mogul/c", "verdict": "fails"},
        {"id": "mogul/d", "verdict": "holds"},
    ]
    some = verdicts.Turned(3, {"gone": "holds", "free-switches": "holds in part"})
    turned = {
        "mogul/a": some,
        "mogul/b": verdicts.Turned(2, {}),
        "mogul/d": some,
    }
    found = verdicts.with_turned(entries, turned)
    free = next(m["what"] for m in library().mutants() if m["name"] == "free-switches")
    assert [entry["turned"] for entry in found] == [
        f"It holds in part if {free}.",
        "None of the 2 changes that were tried turns it.",
        None,
        None,
    ]
    assert found[0]["better_under"] == ["free-switches"]


def test_claims_that_fail_are_played_under_every_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one of them all is as printed; under all others nothing changes."""
    of_area = [m["name"] for m in library().mutants() if "offload" in m["areas"]]
    with (root() / "targets/ours.csv").open() as file:
        ours = {r["id"]: float(r["ours"]) if r["ours"] else None for r in csv.DictReader(file)}

    def compute(
        targets: list[dict[str, Any]], *, mutant: str | None, **_: object
    ) -> dict[str, float | None]:
        if mutant != of_area[3]:
            return {target["id"]: ours[target["id"]] for target in targets}
        return {target["id"]: float(target["published"]) for target in targets}

    monkeypatch.setattr(claim_mutants, "compute", compute)
    found = claim_mutants.turn("mogul/re-aim-rates")
    assert list(found) == ["mogul/re-aim-rates"]
    assert found["mogul/re-aim-rates"].better == {of_area[3]: "holds"}
    assert found["mogul/re-aim-rates"].tried == len(of_area)


def test_every_claim_that_fails_was_played_under_mutants() -> None:
    """`halfwink reproduce --claims --mutants --record` makes what is missing."""
    known = verdicts.kept_turned()
    assert set(known) <= {claim.id for claim in verdicts.every_claim()}
    fail = {c["id"] for c in kept() if c["verdict"] in verdicts.FAILING}
    assert fail <= set(known)
    names = {mutant["name"] for mutant in library().mutants()}
    assert {name for turned in known.values() for name in turned.better} <= names


def test_mutants_turn_what_they_kill(tmp_path: Path) -> None:
    assert judged(tmp_path, 'size = ["mcf"]')["turned_by"] == ["no-gates"]
    assert judged(tmp_path, 'sign = ["falls"]')["turned_by"] == ["no-gates"]
    # A killed number may keep its sign, its place and its lead.
    for kinds in ('sign = ["mcf"]', 'order = ["lbm < mcf"]', 'who = ["mcf > lbm, gcc"]'):
        assert judged(tmp_path, kinds)["turned_by"] == []
    assert judged(tmp_path, 'size = ["mcf"]', mcf=1.0)["turned_by"] == []


def test_summary_counts_verdicts_and_nulls(tmp_path: Path) -> None:
    good = judged(tmp_path, 'size = ["mcf"]' + NULL + "mcf = 21")
    bad = judged(tmp_path, 'size = ["mcf"]' + NULL + "mcf = 21", mcf=1.0)
    echo = judged(tmp_path, 'size = ["fitted"]')
    assert verdicts.summary([bad, echo]) == "2 claims: 1 fail, 1 echo"
    assert verdicts.summary([good, good, bad]) == (
        "3 claims: 2 hold, 1 fail; a model without the mechanism meets 2 of those that hold as well"
    )


#: What is wrong in a file, and the error's place, finding and expectation.
WRONG: list[tuple[str, str, str, str]] = [
    ('sign = ["mcff"]', "claim `tap/a`, sign", "`tap/mcff`", "`tap/mcf`"),
    ('signs = ["mcf"]', "claim `tap/a`", "the key `signs`", "one of id, claim"),
    ("", "claim `tap/a`", "no kind", "one or more of sign, order"),
    ("sign = []", "claim `tap/a`, sign", "[]", "a list with entries"),
    ('sign = "mcf"', "claim `tap/a`, sign", "'mcf'", "a list with entries"),
    ("sign = [3]", "claim `tap/a`, sign", "3", "a text"),
    ('size = ["mcf", "mcf"]', "claim `tap/a`, size", "`tap/mcf` twice", "each target once"),
    ('sign = ["nothing"]', "claim `tap/a`, sign", "printed as no effect", "a value with a sign"),
    ('sign = ["kernel"]', "claim `tap/a`, sign", "the text `tap/kernel`", "a number or a claim"),
    ('sign = ["gcc < mcf"]', "claim `tap/a`, sign", "`gcc < mcf`", "a target"),
    ('order = ["mcf > gcc"]', "claim `tap/a`, order", "`mcf > gcc`", "`A < B < C`"),
    ('order = ["mcf"]', "claim `tap/a`, order", "the number `tap/mcf` alone", "a comparison"),
    ('order = ["mcf < gcc"]', "claim `tap/a`, order", "print orders otherwise", "printed"),
    ('order = ["gcc < gcc"]', "claim `tap/a`, order", "a target twice", "each target once"),
    ('order = ["knee < mcf"]', "claim `tap/a`, order", "units cores, %", "one unit"),
    ('order = ["falls < mcf"]', "claim `tap/a`, order", "`tap/falls`, which is no", "numbers"),
    ('who = ["lbm > mcf, gcc"]', "claim `tap/a`, who", "print orders otherwise", "printed"),
    ('sign = ["mcf"]' + NULL, "claim `tap/a`, null, values", "{}", "a value for a target"),
    ('sign = ["mcf"]' + NULL + "lbm = 1", "null, values", "`tap/lbm`", "carries the claim"),
    ('sign = ["mcf"]' + NULL + 'mcf = "gcc"', "null, mcf", "a prediction", "calibrated"),
    ('sign = ["mcf"]' + NULL + "mcf = []", "null, mcf", "[]", "`unchanged` or a target"),
    ('sign = ["mcf"]\nnull = 0', "claim `tap/a`, null", "0", "a table with text and values"),
    ('sign = ["mcf"]\n' + CLAIM + 'sign = ["mcf"]', "claim `tap/a`", "the id twice", "once"),
    ("sign = [", "the file", "no TOML", "TOML"),
]


@pytest.mark.parametrize(("kinds", "where", "found", "expected"), WRONG)
def test_wrong_claim_is_refused(
    tmp_path: Path, kinds: str, where: str, found: str, expected: str
) -> None:
    with pytest.raises(ClaimError) as error:
        claims_of(tmp_path, CLAIM + kinds)
    assert error.value.path == tmp_path / "tap.toml"
    assert where in error.value.where
    assert found in error.value.found
    assert expected in error.value.expected
    assert str(error.value).startswith(f"{tmp_path}/tap.toml: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("head", "text", "where"),
    [
        ('schema = 2\nwork = "tap"\n', CLAIM, "schema"),
        ('work = "tap"\n', CLAIM, "schema"),
        ('schema = 1\nwork = "other"\n', CLAIM, "work"),
        ('schema = 1\nwork = "tap"\n', "", "claim"),
        ('schema = 1\nwork = "tap"\nclaims = 3\n', CLAIM, "the file"),
        ('schema = 1\nwork = "tap"\n', CLAIM.replace('id = "a"', 'id = ""'), "claim 1, id"),
        ('schema = 1\nwork = "tap"\n', CLAIM.replace("It saves.", " "), "claim `tap/a`, claim"),
        ('schema = 1\nwork = "tap"\n', CLAIM.replace("source", "#"), "claim `tap/a`, source"),
        (
            'schema = 1\nwork = "tap"\n',
            CLAIM.replace('"mcf"', '"no"') + 'sign = ["mcf"]',
            "claim `tap/a`, figure",
        ),
    ],
)
def test_wrong_file_is_refused(tmp_path: Path, head: str, text: str, where: str) -> None:
    with pytest.raises(ClaimError) as error:
        claims_of(tmp_path, text, head=head)
    assert error.value.where == where


def kept() -> list[dict[str, Any]]:
    """The claims of all works, judged from the values that are kept."""
    with (root() / "targets/ours.csv").open() as file:
        ours = {r["id"]: float(r["ours"]) if r["ours"] else None for r in csv.DictReader(file)}
    targets = {t["id"]: t for t in library().targets()}
    judged = verdicts.judged(verdicts.every_claim(), targets, ours, library().verdicts)
    return verdicts.with_turned(judged, verdicts.kept_turned())


def test_every_claim_of_the_works_is_loaded() -> None:
    """Each names targets that exist and are ordered so in print, or the loader would refuse it."""
    claims = verdicts.every_claim()
    areas = {t["id"]: t["area"] for t in library().targets()}
    works = {name.split("/")[0] for name in areas}
    files = {path.stem for path in (root() / "targets/claims").glob("*.toml")}
    assert {claim.work for claim in claims} == files == works
    # A chapter has ten to fifteen; Mogul 2007 is a paper, with a few on what its calls cost.
    by_chapter = Counter((claim.work, areas[claim.figure]) for claim in claims)
    assert by_chapter.pop(("mogul", "switching"), 0) + by_chapter[("mogul", "offload")] <= 15
    for chapter, count in by_chapter.items():
        assert 10 <= count <= 15, chapter


def test_a_claim_whose_figure_is_met_says_what_fails() -> None:
    """The figure beside its printed value would read as if nothing did."""
    claim = next(c for c in kept() if c["id"] == "niccolini/sleep-and-delay")
    figure, _, rest = claim["said"].partition(" What fails: ")
    assert claim["size"] == verdicts.NO
    assert figure.startswith("Printed 100 us, here ")
    assert rest.startswith("Printed 60 us, here ")


def test_claims_are_shown_with_verdict_sentence_and_counts(halfwink: Halfwink) -> None:
    shown = halfwink("reproduce", "--claims", "mogul/re-aim").out
    lines = [line.rstrip() for line in shown.splitlines()]
    claim = next(n for n, line in enumerate(lines) if "re-aim-7 alltests runs faster" in line)
    assert lines[claim].startswith("fails ")
    assert lines[claim + 1].strip().startswith("Printed 1.129 x, here 0.99")
    assert lines[claim + 2].strip().startswith("A model without the mechanism does not say so: ")
    assert lines[-1] == "3 claims: 1 hold in part, 2 fail"


def test_claims_fit_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Console(width=80, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(console, "out", terminal)
    monkeypatch.setattr(cli_claims, "stdout", terminal)
    entries = kept()
    cli_claims.show_claims(entries, json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(re.sub(r"^(holds in part|not determined|\S*)", "", line) for line in lines)
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    for entry in entries:
        assert entry["claim"] in text
        assert entry["said"].split(": ")[0] in text
    assert lines[-1] in verdicts.summary(entries)


def test_claims_are_a_document(halfwink: Halfwink) -> None:
    found = halfwink("reproduce", "--claims", "mogul/compile", "--json").json()
    assert found["command"] == "reproduce --claims"
    table = found["tables"]["claims"]
    (claim,) = table["rows"]
    assert claim["id"] == "mogul/compile-loses"
    assert claim["published"] == 1.046
    assert (claim["sign"], claim["order"], claim["who"]) == ("yes", "yes", None)
    assert [column["name"] for column in table["columns"]] == list(claim)
    assert all(column["about"] for column in table["columns"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nosuch"], "no claim or work `nosuch`; works: gottschlag, mogul"),
        (["gating"], "no claim or work `gating`"),
        (["mogul/nosuch"], "no claim or work `mogul/nosuch`"),
        (["--scores"], "--claims goes without --check and --scores"),
        (["--check"], "--claims goes without"),
        (["--mutants", "--mutant", "free-switches"], "--mutant goes without --claims"),
    ],
)
def test_claims_refuse_what_they_cannot_show(
    halfwink: Halfwink, words: list[str], complaint: str
) -> None:
    assert complaint in halfwink("reproduce", "--claims", *words).complaint


def test_works_and_beginnings_of_ids_select_claims() -> None:
    claims = verdicts.every_claim()
    assert verdicts.select(claims, []) == claims
    chosen = verdicts.select(claims, ["strong", "mogul/re-aim"])
    assert {claim.work for claim in chosen} == {"strong", "mogul"}
    assert sum(claim.work == "mogul" for claim in chosen) == 3
