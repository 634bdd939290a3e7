"""Reports of many runs: what a browser has to do for them at first, and what it finds later."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import probed, views

import halfwink as hw
from halfwink.report import write_report
from halfwink.report.page import FIRST_LINES, LINES_TOGETHER
from halfwink.report.page_data import CANVAS_ROWS, packed, renderer
from halfwink.results.results import Results

#: Values of the large report's sweep; of each there are a line of the baseline and three others.
VALUES = 300
LINES = 4 * VALUES


def swept(values: int) -> Results:
    """Runs of a pair of servers as if a watt had been swept: simulated once, told apart by what was
    set."""
    one = hw.compare("count@30", world="server", techniques=["hybrid", "hybrid-all", "power-nap"])
    copies = [f"big.idle_w={150 + n}" for n in range(values)]
    tables = {
        name: pl.concat(frame.with_columns(set=pl.lit(copy)) for copy in copies)
        for name, frame in one.tables.items()
    }
    return replace(one, tables=tables)


@pytest.fixture(scope="module")
def large() -> Results:
    return swept(VALUES)


@pytest.fixture(scope="module")
def pages(large: Results, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A report of one value, and one of many."""
    folder = tmp_path_factory.mktemp("large")
    for name, results in (("small", swept(1)), ("large", large)):
        write_report(folder / f"{name}.html", name, results)
    return folder / "small.html", folder / "large.html"


def test_a_line_more_takes_few_bytes(pages: tuple[Path, Path]):
    small, large = (page.stat().st_size for page in pages)
    assert (large - small) / (LINES - 4) < 900


def test_without_scripts_every_line_is_there_with_its_sources(pages: tuple[Path, Path]):
    text = pages[1].read_text()
    first = text.split('<table id="runs"')[1].split("</table>")[0]
    rest = text.split('<noscript id="runs-rest">')[1].split("</noscript>")[0]
    shown = first.count('<td class="t">')
    assert FIRST_LINES <= shown < 2 * FIRST_LINES
    assert shown + rest.count('<td class="t">') == LINES
    titles = re.findall(r'<tbody title="([^"]*)"', rest)
    assert len(titles) == rest.count("<tbody")
    assert all("modelled: energy of the simulated run on " in title for title in titles)
    # A line has its cells, whose end tags are left out.
    assert rest.count("<td") == LINES * first.count("<td") // shown - first.count("<td")


def test_a_long_verdict_is_folded_between_its_first_and_last_sentences(pages: tuple[Path, Path]):
    small, large = (
        page.read_text().split('id="verdict"')[1].split("</section>")[0] for page in pages
    )
    assert "<details>" not in small
    before, _, rest = large.partition("<details>")
    folded, _, after = rest.partition("</details>")
    assert before.count("<p>") < 10 < folded.count("<p>")
    assert after.count("<p>") == 1
    assert f"{folded.count('<p>')} more sentences" in folded


#: An observer that is told by hand what is near the window: a browser without one that looks at
#: it tells nothing.
OBSERVER = """<head><script>
const observers = [];
window.IntersectionObserver = class {
  constructor(told) { this.told = told; this.observed = new Set(); observers.push(this); }
  observe(part) { this.observed.add(part); }
  unobserve(part) { this.observed.delete(part); }
};
</script>"""
#: Counts what a page has before anything is scrolled to, and then scrolls to its last chart.
OPEN_PROBE = """
<script>
// A probe's page draws all charts once it is loaded.
addEventListener("DOMContentLoaded", async () => {
  const [observer] = observers;
  const numbers = () => [...drawings.keys()].map((chart) => charts.indexOf(chart));
  const found = {
    elements: document.querySelectorAll("main *").length,
    lines: document.querySelectorAll("#runs tbody tr:not(.group)").length,
    charts: charts.length,
    drawn: numbers(),
  };
  const target = charts.at(-1);
  observer.told([{isIntersecting: false, target: charts[1]}, {isIntersecting: true, target}]);
  found.scrolled = numbers();
  found.observed = [...observer.observed].map((chart) => charts.indexOf(chart));
  await drawings.get(charts[0]);
  found.first = charts[0].querySelector(".marks").tagName.toLowerCase();
  found.parts = charts[0].querySelectorAll("*").length;
  show(found);
});
</script>
"""


@pytest.mark.browser
def test_a_browser_opens_many_lines_as_it_opens_few(pages: tuple[Path, Path], tmp_path: Path):
    found: list[Any] = []
    for page in pages:
        observed = tmp_path / page.name
        observed.write_text(page.read_text().replace("<head>", OBSERVER, 1))
        found.append(probed(observed, OPEN_PROBE, tmp_path / page.stem))
    small, large = found
    assert small["lines"] == 4
    assert large["lines"] < 2 * FIRST_LINES
    assert large["elements"] < 3 * small["elements"]
    assert (small["first"], large["first"]) == ("svg", "canvas")
    assert large["parts"] < small["parts"]
    # The first chart is drawn at once, others when they are scrolled to.
    for page in found:
        last = page["charts"] - 1
        assert page["drawn"] == [0]
        assert page["scrolled"] == [0, last]
        assert page["observed"] == list(range(1, last))


#: Uses the tools of a long table.
TOOLS_PROBE = """
<script>
addEventListener("load", () => {
  const more = document.getElementById("runs-more");
  const [some, all] = ["some", "all"].map((name) => more.querySelector("." + name));
  const rows = () => [...document.querySelectorAll("#runs tbody tr:not(.group):not([hidden])")];
  const state = () => ({
    lines: rows().length,
    said: more.querySelector("[role=status]").textContent,
    buttons: [some, all].filter((button) => !button.hidden).map((button) => button.textContent),
  });
  const find = (words) => {
    const field = more.querySelector("input");
    field.value = words;
    field.dispatchEvent(new Event("input"));
    return state();
  };
  const found = {first: state()};
  some.click();
  found.some = state();
  document.querySelectorAll("#runs thead button")[1].click();
  found.found = find("=449 power-nap");
  found.none = find("no such line");
  found.cleared = find("");
  all.click();
  found.all = state();
  const own = (body) => [...body.rows].slice(1);
  const energies = (body) => own(body).map((row) => parseFloat(row.cells[1].textContent));
  const bodies = [...document.querySelectorAll("#runs tbody")];
  found.sorted = bodies.every((body) => energies(body).every((e, n, of) => !n || of[n - 1] <= e));
  const titled = (row) => [...row.cells].map((cell) => [cell.title, cell.className].join());
  found.titles = new Set(bodies.map((body) => JSON.stringify(own(body).map(titled)))).size;
  found.groups = new Set(bodies.map((body) => body.rows[0].textContent)).size;
  show(found);
});
</script>
"""


@pytest.mark.browser
def test_lines_that_are_not_shown_are_found_sorted_and_shown(
    pages: tuple[Path, Path], tmp_path: Path
):
    found = probed(pages[1], TOOLS_PROBE, tmp_path)
    both = ["show more", f"show all {LINES:,} lines"]
    first = {"lines": FIRST_LINES, "said": f"{FIRST_LINES} of {LINES:,} lines shown"}
    assert found["first"] == {**first, "buttons": both}
    assert found["some"]["lines"] == 520
    assert found["found"] == {"lines": 1, "said": "1 of 1 found lines shown", "buttons": []}
    assert found["none"]["lines"] == 0
    assert found["cleared"]["lines"] == 520
    said = f"{LINES:,} of {LINES:,} lines shown"
    assert found["all"] == {"lines": LINES, "said": said, "buttons": []}
    assert found["sorted"]
    # Lines that were added later have the sources of the first ones.
    assert found["titles"] == 1
    assert found["groups"] == VALUES


#: What paper gets of a page that has just been opened.
PRINT_PROBE = """
<script>
addEventListener("DOMContentLoaded", async () => {
  dispatchEvent(new Event("beforeprint"));
  // A browser prints after the tasks that are due, and waits for no timer.
  for (let turn = 0; turn < 1000; turn++) await null;
  show({
    lines: document.querySelectorAll("#runs tbody tr:not(.group)").length,
    undrawn: charts.filter((chart) => !chart.querySelector(".marks")).length,
    folded: document.querySelectorAll("main > details:not([open])").length,
  });
});
</script>
"""


@pytest.mark.browser
def test_paper_has_every_line_and_chart(pages: tuple[Path, Path], tmp_path: Path):
    found = probed(pages[1], PRINT_PROBE, tmp_path)
    assert found["lines"] == LINES
    assert (found["undrawn"], found["folded"]) == (0, 0)


@pytest.mark.browser
def test_a_browser_without_observers_draws_every_chart_at_once(
    pages: tuple[Path, Path], tmp_path: Path
):
    page = tmp_path / "old.html"
    without = "<head><script>delete window.IntersectionObserver;</script>"
    page.write_text(pages[0].read_text().replace("<head>", without, 1))
    probe = """
    <script>
    addEventListener("DOMContentLoaded", () => show([drawings.size, charts.length]));
    </script>
    """
    drawn, charts = probed(page, probe, tmp_path / "browser")
    assert drawn == charts > 2


@pytest.mark.browser
def test_a_page_with_long_tables_is_accessible_and_fits(large: Results, tmp_path: Path):
    page = tmp_path / "report.html"
    write_report(page, "large", large, changes=large.against(swept(60)))
    text = page.read_text()
    # Lines beside the other run's are long, too.
    assert text.count("<noscript") == 2
    table = text.split('<table id="changes"')[1].split("</table>")[0]
    assert table.count("<tr") == 1 + LINES_TOGETHER
    screens, _ = views(page, tmp_path / "browser")
    for view in screens:
        assert view.broken == []
        assert view.wider <= 0


def rows_of(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A data set as the page's script puts it together."""

    def column(held: Any) -> list[Any]:
        return held if isinstance(held, list) else [held["of"][n] for n in held["at"]]

    held = data["sets"][name]
    columns = {key: column(values) for key, values in held["own"].items()}
    for key in held.get("names", []):
        values = column(data["shared"][key])
        columns[key] = [values[row] for row in held["rows"]]
    return [{key: columns[key][n] for key in columns} for n in range(held["count"])]


def run(technique: str, **values: Any) -> dict[str, Any]:
    return {"workload": "w", "machine": "m", "set": "", "technique": technique} | values


def test_charts_of_the_same_runs_share_their_values():
    sets: dict[str, list[dict[str, Any]]] = {
        "a": [run("tap", x=1.5, y=None), run("menu", x=2.5, y=0)],
        "b": [run("menu", x=2.5, z="same"), run("teo", x=3.5, z="same")],
        # Another x of a run, runs that are there twice, data of no runs, and no columns.
        "c": [run("tap", x=9, z="other")],
        "d": [run("tap", part="core"), run("tap", part="memory")],
        "e": [{"zero": 0.0}],
        "f": [{}],
        "g": [],
    }
    specs: list[dict[str, Any]] = [
        {"mark": "point", "datasets": {name: rows}} for name, rows in sets.items()
    ]
    bare, data = packed(specs)
    data = json.loads(json.dumps(data))
    assert bare == [{"mark": "point", "datasets": [name]} for name in sets]
    assert {name: rows_of(data, name) for name in sets} == sets
    assert data["shared"]["x"] == [1.5, 2.5, 3.5]
    assert data["sets"]["c"]["own"] == {"x": [9]}
    assert data["sets"]["b"]["own"] == {}
    assert specs[0]["datasets"]["a"] == sets["a"]


@pytest.mark.parametrize(
    ("rows", "drawn"), [(1, "svg"), (CANVAS_ROWS, "svg"), (CANVAS_ROWS + 1, "canvas")]
)
def test_a_chart_of_many_marks_is_pixels(rows: int, drawn: str):
    data = [{"x": n} for n in range(rows)]
    assert renderer({"datasets": {"one": data[:1], "other": data[1:]}}) == drawn
