"""Report of charts and tables as one self-contained HTML file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl
import vl_convert as vlc
from jinja2 import Environment, PackageLoader, select_autoescape

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.files import Place, write_whole
from halfwink.jobs import Job
from halfwink.library import build_id, cache_dir, library, workloads
from halfwink.report import charts, core_charts
from halfwink.report.ledger import ledger
from halfwink.report.load_chart import along_load, is_along_load
from halfwink.report.methods import methods
from halfwink.report.page_data import packed, renderer
from halfwink.report.tradeoff_chart import far_out, tradeoff
from halfwink.results.relate import IDENTITY, KEYS, described
from halfwink.results.saw_tooth import PEAKS
from halfwink.results.summary import Summary, summarize

if TYPE_CHECKING:
    from halfwink.results.against import Changes
    from halfwink.results.results import Results


#: Lines of a table up to which a page shows all at once: laying out thousands takes seconds.
LONG_TABLE = 200
#: Lines of a longer one that are shown at first.
FIRST_LINES = 20
#: Sentences of a verdict up to which all are shown, and how many of a longer one are at first.
LONG_VERDICT, FIRST_SENTENCES = 16, 6
#: Lines of a table without groups that are shown and sorted together.
LINES_TOGETHER = 20


@dataclass(frozen=True)
class Section:
    """A heading, a sentence on how to read it, and a chart."""

    title: str
    text: str
    chart: alt.TopLevelMixin


@lru_cache(maxsize=1)
def _vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the package: no network.

    It takes two seconds of a CPU to make, so the next report finds it in the cache.
    """
    kept = cache_dir() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text()
    made: str = vlc.javascript_bundle()  # pyright: ignore[reportCallIssue]
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, made)
    return made


def write_report(
    path: Place,
    title: str,
    results: Results,
    *,
    extra: Sequence[Section] = (),
    provenance: Sequence[tuple[str, str]] = (),
    study: str = "",
    changes: Changes | None = None,
) -> None:
    """Draws the report of runs of any world: what they have tables for, how to get them again from
    the text of their ``study``, and their ``changes`` against another run.

    Raises:
        OSError: the report cannot be written.
    """
    alt.data_transformers.disable_max_rows()
    sections = [*extra, *_sections(results)]
    drawn = [section.chart.to_dict() for section in sections]
    specs, data = packed(drawn)
    summary = summarize(results)
    environment = Environment(
        loader=PackageLoader("halfwink.report"), autoescape=select_autoescape(["html", "j2"])
    )
    environment.filters["slug"] = _slug
    html = environment.get_template("report.html.j2").render(
        title=title,
        version=_core.__version__,
        build=build_id(),
        bundle=_vega_bundle(),
        verdict=_folded(results.verdict().sentences),
        summary=summary,
        runs=_runs_table(summary),
        spare=summary.spared,
        sections=[
            {
                "title": section.title,
                "text": section.text,
                "spec": _embedded(spec),
                "renderer": renderer(whole),
            }
            for section, spec, whole in zip(sections, specs, drawn, strict=True)
        ],
        data=_embedded(data),
        ledger=ledger(results),
        methods=methods(results),
        study=study,
        changes=changes,
        changed=_changes_table(changes) if changes is not None else None,
        techniques=described(results.runs["technique"], results.world),
        workloads=_workloads(results),
        machines=_machines(results),
        provenance=provenance,
    )
    write_whole(path, html)


def _slug(title: str) -> str:
    """Returns the id of a section, from its heading."""
    return "-".join(re.findall(r"\w+", title.lower()))


def _folded(sentences: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the sentences of a verdict that stand first, folded away, and last."""
    if len(sentences) <= LONG_VERDICT:
        return {"first": sentences, "folded": (), "last": ()}
    # The last one says what the numbers are from.
    first, rest = sentences[:FIRST_SENTENCES], sentences[FIRST_SENTENCES:]
    return {"first": first, "folded": rest[:-1], "last": rest[-1:]}


def _runs_table(summary: Summary) -> dict[str, Any]:
    """The lines of each workload on each machine, under what tells it from others."""
    groups: list[dict[str, Any]] = []
    for line in summary.lines:
        if line.is_first:
            groups.append({"title": " on ".join(line.whose[:2]), "lines": []})
        cells = [(cell, line.sources[at]) for at, cell in enumerate(line.cells)]
        kind = "base" if line.is_baseline else "unranked" if line.is_unranked else ""
        groups[-1]["lines"].append({"heads": [line.whose[2]], "cells": cells, "kind": kind})
    return _long_table(groups, summary.headings) | {"spare": summary.spared}


def _changes_table(changes: Changes) -> dict[str, Any]:
    """The values of both runs side by side."""
    headings, rows = changes.lines()
    sources = changes.line_sources() or [[""] * len(headings)] * len(rows)
    lines = [
        {"heads": row[:2], "cells": list(zip(row[2:], origins[2:], strict=True)), "kind": ""}
        for row, origins in zip(rows, sources, strict=True)
    ]
    together = range(0, len(lines), LINES_TOGETHER)
    groups = [{"title": "", "lines": lines[at : at + LINES_TOGETHER]} for at in together]
    return _long_table(groups, headings[2:]) | {"heads": headings[:2]}


def _long_table(groups: list[dict[str, Any]], headings: Sequence[str]) -> dict[str, Any]:
    """Parts a table in what the page shows at first and the ``rest``, which it adds on demand.

    Lines of the rest have ``pattern``, the place of their cells' origins in ``patterns``; the
    groups have these in words, for readers without scripts.
    """
    count = sum(len(group["lines"]) for group in groups)
    most = count if count <= LONG_TABLE else FIRST_LINES
    shown, first = 0, 0
    while first < len(groups) and shown < most:
        shown += len(groups[first]["lines"])
        first += 1
    patterns: dict[tuple[str, ...], int] = {}
    for group in groups[first:]:
        told: dict[str, dict[str, None]] = {}
        for line in group["lines"]:
            origins = tuple(origin for _, origin in line["cells"])
            line["pattern"] = patterns.setdefault(origins, len(patterns))
            for heading, origin in zip(headings, origins, strict=True):
                if origin:
                    told.setdefault(origin, {})[heading] = None
        group["origins"] = "; ".join(f"{', '.join(named)}: {o}" for o, named in told.items())
    return {
        "headings": headings,
        "spare": (),
        "first": groups[:first],
        "rest": groups[first:],
        "shown": shown,
        "count": count,
        "patterns": _embedded([*patterns]),
    }


def _embedded(data: Any) -> str:
    # Inside a script element, `</` would end it, and `<!--<script>` keep it open.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _sections(results: Results) -> list[Section]:
    """Returns the sections that can be drawn of these results, by their tables and columns."""
    runs = results.runs
    others = runs.filter(pl.col("technique") != results.baseline)
    sections: list[Section] = []
    if results.has(PEAKS):
        sections.append(
            Section(
                "Throughput by the CPUs that issue",
                "I/Os a second of each technique. Dotted: a socket is full, and one CPU more is "
                "of a further one.",
                charts.by_issuers(results),
            )
        )
    if is_along_load(results):
        sections.append(
            Section(
                "Energy against latency, along the load",
                "One line for each composition, from the least load to the most: what a request "
                "costs and how late one in a hundred is. Filled points: no other composition at "
                "that load takes less energy and answers as soon. A load that the server cannot "
                "carry is not drawn. Requests come at their own times (an open load).",
                along_load(results),
            )
        )
    elif runs["latency_p99_us"].count() > 0:
        sections.append(
            Section(
                "Energy against latency",
                "What a unit of work costs and how long it takes, waiting included. Down and to "
                "the left is better." + far_out(results),
                tradeoff(results),
            )
        )
    if not others.is_empty():
        sections.append(
            Section(
                "Saved against slowed down",
                "Energy (where cores are told apart: of a core with its first and second caches) "
                "and run time, or mean latency where work arrives on its own schedule, relative to "
                f"the same work under {results.baseline}. Up and to the left is better.",
                charts.savings(results),
            )
        )
    sections.append(
        Section(
            "Where the energy goes",
            "Everything that is modelled, relative to the baseline of the same work."
            + _cut(results),
            charts.energy_stack(results),
        )
    )
    if charts.has_slots(results):
        sections.append(
            Section(
                "Over time",
                "Power and latency in each span of time.",
                charts.slots(results),
            )
        )
    return sections + _core_sections(results)


def _core_sections(results: Results) -> list[Section]:
    """Returns the sections of worlds whose cores are simulated instruction by instruction."""
    sections: list[Section] = []
    if "ipc" in results.runs.columns:
        sections.append(
            Section(
                "Why time passes",
                "Cycles per instruction of the baseline, by what the oldest instruction waited "
                "for, for user and kernel code apart; both are per instruction of the whole "
                "workload.",
                core_charts.cpi_stack(results),
            )
        )
    if results.has("histograms"):
        break_even = _break_even_ns(results)
        dashed = (
            f" The dashed line is the shortest stall that pays for gating ({break_even:.1f} ns)."
            if break_even is not None
            else ""
        )
        sections.append(
            Section(
                "How long cores stall",
                "Stalls on the shared cache and memory in the baseline, by their share of all "
                "stalled time." + dashed,
                core_charts.stall_histogram(results, break_even),
            )
        )
    if "gated_share" in results.runs.columns:
        sections.append(
            Section(
                "What cores do all day",
                "Share of the run in each power state.",
                core_charts.residency(results),
            )
        )
    if results.has("calls"):
        sections.append(
            Section(
                "Where kernel code runs",
                "Time in which the kernel ran, by what it was entered for, with techniques that "
                "watch it; moving between cores is not part of it.",
                core_charts.kernel_time(results),
            )
        )
    return sections


def _cut(results: Results) -> str:
    """Describes what charts with a panel for each value of a sweep leave out."""
    count = results.runs.select(KEYS).n_unique()
    shown = charts.PANELS
    return f" Of {count:,} settings the first {shown} are drawn." if count > shown else ""


def _break_even_ns(results: Results) -> float | None:
    machines = results.runs.select("machine", "set").unique()
    if machines.height != 1 or machines["set"][0]:
        return None
    facts = library().machine(machines["machine"][0], [])["facts"]
    return sum(
        facts[name] for name in ("gating.break_even_ns", "gating.wake_up_ns", "gating.restore_ns")
    )


def _workloads(results: Results) -> list[dict[str, str]]:
    known = {w["name"]: w for w in workloads(results.world)}
    out: list[dict[str, str]] = []
    for name in results.runs["workload"].unique(maintain_order=True):
        # Copies and mixes (`a*2+b`), settings (`chase:mb=64`), loads (`count@30`).
        for part in (piece.split("*")[0] for piece in name.split("+")):
            info = known.get(part) or known.get(re.split("[:@]", part)[0])
            what = info["title"] if info else "a file"
            out.append({"name": part, "what": what, "where": _recorded(info or {})})
    return out


def _recorded(info: dict[str, Any]) -> str:
    """Describes the origin of a workload, if it was recorded."""
    header = info.get("header")
    if header is None:
        return str(info.get("kind", ""))
    tools = ", ".join(f"{k} {v}" for k, v in header["tools"].items())
    return f"recorded: kernel {header.get('kernel', '')}; {tools}"


def _machines(results: Results) -> list[dict[str, str]]:
    """Descriptions as they were used in the first run on each machine."""
    out: list[dict[str, str]] = []
    for row in results.runs.unique("machine", maintain_order=True).iter_rows(named=True):
        world, (workload, machine, said, technique) = results.world, (row[n] for n in IDENTITY)
        values = tuple(tuple(item.partition("=")[::2]) for item in said.split())
        try:
            text = Job(world, workload, machine, technique, values).prepare().machine_text()
        except HalfwinkError as error:
            text = str(error)  # A file that is no longer there.
        out.append({"name": machine, "text": text})
    return out
