"""What the targets add up to: targets/ours.csv, and the tables and lines that are told from it.

.venv/bin/python tools/target_tables.py --compute  compute all targets, then write (`make scores`)
.venv/bin/python tools/target_tables.py            write from targets/ours.csv (`make tables`)
.venv/bin/python tools/target_tables.py --costs    measure time and disk of each source first
.venv/bin/python tools/target_tables.py --check    fail where a table is not told from it
"""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import halfwink as hw
from halfwink.library import library
from halfwink.report.gallery_chart import OURS as KINDS
from halfwink.report.gallery_chart import is_number, kind_of
from halfwink.targets import claim_verdicts, score
from halfwink.targets.published_figures import PAGES, Cost, Figure, costs, load
from halfwink.targets.targets import compute, judged_nulls, kept_values, sources

ROOT = Path(__file__).parents[1]
OURS = ROOT / "targets" / "ours.csv"
#: Digits of ours that are kept: runs repeat bit for bit, hosts' libraries of mathematics do not.
DIGITS = 9
BEGIN, END = "<!-- scores: written by `make tables` -->", "<!-- end of scores -->"
#: The page of claims, and that of figures for evaluation committees.
CLAIMS, ARTIFACT = "docs/claims.md", "ARTIFACT.md"
#: Time and disk of each source of targets.
COSTS = ROOT / "targets" / "costs.csv"
#: Files that show all scores, or those of some rows, or the line.
TABLES: dict[str, tuple[str, ...]] = {
    "targets/README.md": (),
    "docs/reproduction.md": (),
    "docs/techniques/core-switching.md": ("strong switching", "mogul switching", "mogul offload"),
    "docs/techniques/gating.md": ("strong gating",),
    "docs/techniques/hybrid.md": ("niccolini hybrid",),
    "docs/techniques/offload.md": ("nellans offload",),
    "docs/techniques/os-profile.md": ("nellans segregation",),
    "docs/techniques/router.md": ("niccolini router",),
    "docs/techniques/storage.md": ("nellans storage",),
}
LINES = ("README.md",)
#: What the rows are about.
TITLES = {
    "strong gating": "Strong 2013, power gating",
    "strong switching": "Strong 2013, core switching",
    "strong circuits": "Strong 2013, circuits",
    "niccolini hybrid": "Niccolini 2012, hybrid servers",
    "niccolini router": "Niccolini 2012, router",
    "mogul switching": "Mogul 2007, core switching",
    "mogul offload": "Mogul 2007, OS cores",
    "nellans offload": "Nellans 2014, offload",
    "nellans segregation": "Nellans 2014, segregation",
    "nellans storage": "Nellans 2014, storage",
    "gottschlag preheat": "Gottschlag 2016, preheating",
    "all": "all",
}


def write_ours() -> None:
    """Computes every target and keeps ours."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "ours"])
    for entry in hw.reproduce():
        ours = entry["ours"]
        text = "" if ours is None else f"{float(ours):.{DIGITS}g}"
        writer.writerow([entry["id"], text])
    OURS.write_text(out.getvalue())


def entries() -> list[dict[str, Any]]:
    """Every target as `hw.reproduce` gives it, with ours from the file."""
    try:
        known = kept_values()
    except hw.HalfwinkError as error:
        sys.exit(str(error))
    targets = library().targets()
    verdicts, nulls = (
        library().verdicts([(t["id"], known[t["id"]]) for t in targets]),
        judged_nulls(),
    )
    return [
        {**t, "ours": known[t["id"]], "verdict": verdict, "null": nulls.get(t["id"])}
        for t, verdict in zip(targets, verdicts, strict=True)
    ]


def write_costs() -> None:
    """Computes the targets of each source from nothing, and keeps seconds and bytes: the shorter of
    two times, as other work on the machine only lengthens them.
    """
    by_source: dict[str, list[dict[str, Any]]] = {}
    for target in library().targets():
        for source in sources(target["compute"]) if target["compute"] else ():
            by_source.setdefault(source, []).append(target)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["source", "seconds", "bytes"])
    for source, those in sorted(by_source.items()):
        alone = [t for t in those if len(sources(t["compute"])) == 1]
        seconds, size = min(_cost(alone or those) for _ in range(2))
        writer.writerow([source, f"{seconds:.1f}", size])
    COSTS.write_text(out.getvalue())


def _cost(targets: list[dict[str, Any]]) -> tuple[float, int]:
    """Returns the seconds and bytes that targets take from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        begin = time.monotonic()
        compute(targets)
        seconds = time.monotonic() - begin
        return seconds, sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


def artifact_tables(entries: list[dict[str, Any]]) -> str:
    """A table of figures for each work: command, time, disk, and what to expect."""
    works = load(ROOT / "targets" / "figures", library().targets())
    prices = costs(COSTS, works, library().targets())
    by_id = {entry["id"]: entry for entry in entries}
    parts: list[str] = []
    for work in works:
        rows = ["| figure | command | from nothing | expect |", "|---" * 4 + "|"]
        for figure in work.figures:
            own = [by_id[id] for id in figure.targets]
            rows.append(f"| {' | '.join(artifact_cells(figure, own, prices))} |")
        parts += [f"### {work.title}", "\n".join(rows)]
    return "\n\n".join(parts)


def artifact_cells(figure: Figure, own: list[dict[str, Any]], prices: dict[str, Cost]) -> list[str]:
    """A figure as a row."""
    numbers = sum(is_number(entry["published"]) for entry in own)
    command = f"halfwink reproduce {figure.id} --fresh"
    command += f" --plot {figure.anchor}.svg" if numbers else ""
    counts = {kind: sum(kind_of(entry) == kind for entry in own) for kind in KINDS}
    said = ", ".join(f"{n} {k.removeprefix('ours, ')}" for k, n in counts.items() if n)
    shown = [f"{n} {what}" for n, what in ((numbers, "marks"), (len(own) - numbers, "statements"))]
    shown = [text.removesuffix("s") if text.startswith("1 ") else text for text in shown]
    what = " and ".join(text for text in shown if not text.startswith("0 "))
    price = prices[figure.id].said if figure.id in prices else "not measured"
    return [f"{figure.label}: {figure.title}", f"`{command}`", price, f"{what}: {said}"]


def table(scores: list[score.Score], rows: tuple[str, ...]) -> str:
    """A row for each work and area, or for these, without columns that none of them fills."""
    found = [score.cells(s) for s in scores if not rows or s.name in rows]
    shown = [n for n in range(len(score.HEADINGS)) if any(row[n] != "-" for row in found)]
    lines = [f"| {' | '.join(score.HEADINGS[n] for n in shown)} |", "|---" * len(shown) + "|"]
    for row in found:
        lines.append(f"| {' | '.join([TITLES[row[0]], *(row[n] for n in shown[1:])])} |")
    return "\n".join(lines)


def line(total: score.Score) -> str:
    """What a reader of README may trust."""
    apart = [f"{count} {name}" for name, count in total.apart.items() if count]
    missed = total.judged - total.null_good
    return (
        f"Of {total.judged:,} published values and statements that are predicted from runs, a "
        f"model without the mechanism (the *null*) meets {total.null_good} as well. Of the "
        f"{missed} that it misses, **{total.beyond} are met here ({total.skill_pct:.0f} %)**; of "
        f"those that it meets, {total.null_good + total.beyond - total.good} are missed here. The "
        f"median error of a predicted number is {total.error_ratio:.2f} of the null's. With each "
        f"value counted once, {total.facts_good} of {total.facts} are met; undoing the published "
        f"techniques breaks {total.mutation_score_pct:.0f} % of what is met. Apart, and never "
        f"counted: {', '.join(apart)}."
    )


def claims(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every claim, judged from these targets."""
    by_id = {entry["id"]: entry for entry in entries}
    ours = {entry["id"]: entry["ours"] for entry in entries}
    judged = claim_verdicts.judged(claim_verdicts.every_claim(), by_id, ours, library().verdicts)
    return claim_verdicts.with_turned(judged, claim_verdicts.kept_turned())


def claim_tables(found: list[dict[str, Any]]) -> str:
    """The counts, and a table for each work."""
    parts = [f"All works: {claim_verdicts.summary(found)}."]
    for work, title in PAGES.items():
        those = [claim for claim in found if claim["id"].startswith(f"{work}/")]
        rows = [
            "| claim | stands in | verdict | printed beside ours | turned by |",
            "|---" * 5 + "|",
        ]
        rows += [f"| {' | '.join(claim_cells(claim))} |" for claim in those]
        parts += [f"## {title}", f"{claim_verdicts.summary(those)}.", "\n".join(rows)]
    return "\n\n".join(parts)


def claim_cells(claim: dict[str, Any]) -> list[str]:
    """A claim as a row."""
    null = claim_verdicts.null_sentence(claim)
    turned = [f"`{name}`" for name in claim["turned_by"] or claim["better_under"]]
    more = len(turned) - 3
    if more > 0:
        turned = [*turned[:3], f"{more} more"]
    said = " ".join(filter(None, [claim["said"], null, claim["turned"]]))
    return [claim["claim"], claim["source"], claim["verdict"], said, ", ".join(turned) or "-"]


def claim_line(found: list[dict[str, Any]]) -> str:
    """Returns the line on claims for README."""
    return (
        f"The main statements of these works: {claim_verdicts.summary(found)} "
        f"([claim by claim](docs/claims.md), or `halfwink reproduce --claims`)."
    )


def replaced(text: str, body: str) -> str:
    """The text with what stands between the marks replaced."""
    head, found, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not found or not end:
        sys.exit(f"expected {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{body}\n\n{END}{tail}"


def main() -> int:
    """Writes, or checks."""
    if "--compute" in sys.argv:
        write_ours()
    if "--costs" in sys.argv:
        write_costs()
    found = entries()
    scores, judged = score.scores(found), claims(found)
    bodies = {name: table(scores, rows) for name, rows in TABLES.items()}
    bodies |= {name: f"{claim_line(judged)}\n\n{line(scores[-1])}" for name in LINES}
    bodies[CLAIMS] = claim_tables(judged)
    bodies[ARTIFACT] = artifact_tables(found)
    wrong: list[str] = []
    for name, body in bodies.items():
        path = ROOT / name
        text = path.read_text()
        wanted = replaced(text, body)
        if wanted != text:
            wrong.append(name)
            if "--check" not in sys.argv:
                path.write_text(wanted)
    if "--check" in sys.argv and wrong:
        print(f"run `make tables`: {', '.join(wrong)} are not told from {OURS.name}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
