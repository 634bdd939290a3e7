"""From charts and tables to one self-contained HTML file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import vl_convert as vlc
from jinja2 import Environment, PackageLoader, select_autoescape

from halfwink import _core
from halfwink.jobs import write_whole
from halfwink.library import build_id, library
from halfwink.report import charts

if TYPE_CHECKING:
    import altair as alt

    from halfwink.results import Results


@dataclass(frozen=True)
class Section:
    """A heading, a sentence on how to read it, and a chart."""

    title: str
    text: str
    chart: alt.TopLevelMixin


@lru_cache(maxsize=1)
def _vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the package: no network."""
    return vlc.javascript_bundle()  # pyright: ignore[reportCallIssue]


def write_report(
    path: Path,
    title: str,
    results: Results,
    *,
    extra: Sequence[Section] = (),
    provenance: Sequence[tuple[str, str]] = (),
) -> None:
    """Draws the report of a comparison; raises OSError if it cannot be written."""
    sections = [*extra, *_sections(results)]
    environment = Environment(
        loader=PackageLoader("halfwink.report"), autoescape=select_autoescape(["html", "j2"])
    )
    html = environment.get_template("report.html.j2").render(
        title=title,
        version=_core.__version__,
        build=build_id(),
        bundle=_vega_bundle(),
        rows=_rows(results),
        sections=[
            {"title": s.title, "text": s.text, "spec": _embedded(s.chart.to_dict())}
            for s in sections
        ],
        ledger=_ledger(results),
        workloads=_workloads(results),
        machines=_machines(results),
        provenance=provenance,
        baseline=results.baseline,
    )
    write_whole(path, html)


def _embedded(spec: dict[str, Any]) -> str:
    # Inside a script element, `</` would end it.
    return json.dumps(spec).replace("</", "<\\/")


def _sections(results: Results) -> list[Section]:
    break_even = _break_even_ns(results)
    dashed = (
        f" The dashed line is the shortest stall that pays for gating ({break_even:.1f} ns)."
        if break_even is not None
        else ""
    )
    kernel = (
        []
        if results.calls.is_empty()
        else [
            Section(
                "Where kernel code runs",
                "Time in which the kernel ran, by what it was entered for, with techniques that "
                "watch it; moving between cores is not part of it.",
                charts.kernel_time(results),
            )
        ]
    )
    return [
        Section(
            "Saved against slowed down",
            "Core energy (core, first and second caches) and run time, or mean latency where "
            "requests arrive on their own schedule, relative to the same work with every core "
            "always on. Up and to the left is better.",
            charts.savings(results),
        ),
        Section(
            "Where the energy goes",
            "All of the chip and its memory, relative to the baseline of the same workload.",
            charts.energy_stack(results),
        ),
        Section(
            "Why time passes",
            "Cycles per instruction of the baseline, by what the oldest instruction waited for, "
            "for user and kernel code apart; both are per instruction of the whole workload.",
            charts.cpi_stack(results),
        ),
        Section(
            "How long cores stall",
            "Stalls on the shared cache and memory in the baseline, by their share of all stalled "
            "time." + dashed,
            charts.stall_histogram(results, break_even),
        ),
        Section(
            "What cores do all day",
            "Share of the run in each power state.",
            charts.residency(results),
        ),
        *kernel,
    ]


def _break_even_ns(results: Results) -> float | None:
    machines = results.runs.select("machine", "set").unique()
    if machines.height != 1 or machines["set"][0]:
        return None
    facts = library().machine(machines["machine"][0], [])["facts"]
    return sum(
        facts[name] for name in ("gating.break_even_ns", "gating.wake_up_ns", "gating.restore_ns")
    )


def _number(value: Any, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _energy(joules: float) -> str:
    for limit, factor, unit in ((1e-6, 1e9, "nJ"), (1e-3, 1e6, "µJ"), (1.0, 1e3, "mJ")):
        if joules < limit:
            return f"{joules * factor:.3g} {unit}"
    return f"{joules:.3g} J"


def _rows(results: Results) -> list[dict[str, str]]:
    return [
        {
            "workload": row["workload"],
            "machine": row["machine"],
            "set": row["set"],
            "technique": row["technique"],
            "energy": f"{_energy(row['energy_j_per_unit'])} / {row['unit_of_work']}",
            "core_saving": _number(row["core_energy_saving_pct"]),
            "saving": _number(row["energy_saving_pct"]),
            "slowdown": _number(row["slowdown_pct"]),
            "mean": _number(row["latency_mean_us"], 1),
            "p99": _number(row["latency_p99_us"], 1),
            "gated": _number(100 * row["gated_share"], 1),
        }
        for row in results.runs.iter_rows(named=True)
    ]


def _ledger(results: Results) -> list[dict[str, str]]:
    rows = (
        results.ledger.with_columns(
            pl.col("component")
            .str.replace(r"^core\d+$", "cores")
            .str.replace(r"^os\d+$", "OS cores")
            .alias("component")
        )
        .group_by("workload", "technique", "component", "state", "mode", "cause")
        .agg(pl.col("time_s").sum(), pl.col("energy_j").sum())
        .sort("workload", "technique", "component", "state", "mode", "cause")
    )
    return [
        {
            **{k: row[k] for k in ("workload", "technique", "component", "state", "mode", "cause")},
            "time": f"{1e6 * row['time_s']:.2f}",
            "energy": f"{1e6 * row['energy_j']:.3f}",
        }
        for row in rows.iter_rows(named=True)
    ]


def _workloads(results: Results) -> list[dict[str, str]]:
    known = {w["name"]: w for w in library().workloads()}
    out: list[dict[str, str]] = []
    for name in results.runs["workload"].unique(maintain_order=True):
        parts = [piece.split("*")[0] for piece in name.split("+")]
        for part in parts:
            info = known.get(part) or known.get(part.split(":")[0])
            if info is None:
                out.append({"name": part, "what": "a trace file", "where": ""})
            elif info["kind"] == "synthetic":
                out.append({"name": part, "what": info["description"], "where": "synthetic"})
            else:
                header = info["header"]
                tools = ", ".join(f"{k} {v}" for k, v in header["tools"].items())
                where = f"recorded: kernel {header.get('kernel', '')}; {tools}"
                out.append({"name": part, "what": info["description"], "where": where})
    return out


def _machines(results: Results) -> list[dict[str, str]]:
    names = results.runs["machine"].unique(maintain_order=True)
    return [{"name": name, "text": library().machine(name, [])["text"]} for name in names]
