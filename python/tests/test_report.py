"""The report in a real browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from browser import probed

from halfwink import compare
from halfwink.report import write_report
from halfwink.report.charts import technique_scale
from halfwink.report.ledger import ledger
from halfwink.results.summary import energy, summarize


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = compare(["nginx", "chase"], techniques="all", instructions=200_000)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, "a <title> & more", results)
    return path


def test_the_report_is_one_file_that_fetches_nothing(report: Path):
    text = report.read_text()
    assert "<title>a &lt;title&gt; &amp; more - halfwink</title>" in text
    page = re.sub(r"<script.*?</script>", "<script></script>", text, flags=re.DOTALL)
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    # What is left are names of specifications inside the scripts.
    assert "fetch(" not in text.rpartition('<script type="application/json" id="data">')[2]


def test_each_section_has_an_id_and_a_link_to_itself(report: Path):
    page = re.sub(r"<script.*?</script>", "", report.read_text(), flags=re.DOTALL)
    ids = re.findall(r'<h2 id="([^"]+)"><a href="#([^"]+)">', page)
    assert len(ids) == page.count("<h2") > 8
    assert all(own == link for own, link in ids)
    everything = re.findall(r'\bid="([^"]+)"', page)
    assert len(everything) == len(set(everything))
    assert {"verdict", "saved-against-slowed-down", "the-ledger", "methods"} <= set(everything)


def test_every_figure_says_modelled_or_measured(report: Path):
    text = report.read_text()
    assert "Nothing was metered" in text
    specs = "".join(re.findall(r'id="chart\d+-spec">(.*?)</script>', text))
    titles = re.findall(r'"title":"([^"]*\((?:%|ns|us)\)[^"]*)"', specs)
    assert titles
    assert all("modelled" in title or "share of stalled time" in title for title in titles)


#: Waits for every chart, and shows their elements.
CHARTS_PROBE = "<script>ready.then(() => show(charts.map((chart) => chart.outerHTML)));</script>"


@pytest.mark.browser
def test_a_browser_draws_every_chart(report: Path, tmp_path: Path):
    drawn = probed(report, CHARTS_PROBE, tmp_path)
    # Energy against latency is missing: nothing waited. Savings, energy, time, stalls, states; and
    # the kernel, which some techniques watch.
    assert len(drawn) == 6
    assert all("vega-embed" in chart for chart in drawn)
    assert all("<svg" in chart for chart in drawn)
    assert all('role="img" aria-label="' in chart for chart in drawn)
    assert "Error" not in "".join(drawn)


#: Written into the page: what is wider than it should be, and what sorting by a heading gives.
PROBE = """
<script>
ready.then(() => {
  const table = document.getElementById("table");
  const found = {
    inner: innerWidth,
    page: document.documentElement.scrollWidth - innerWidth,
    table: table.scrollWidth - table.clientWidth,
  };
  const heading = [...document.querySelectorAll("#runs thead button")]
    .find((button) => button.textContent.trim() === "energy/unit");
  for (const order of ["up", "down"]) {
    heading.click();
    const body = document.querySelector("#runs tbody");
    found[order] = [...body.rows].slice(1).map((row) => row.cells[0].textContent.trim());
  }
  show(found);
});
</script>
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_page_fits_its_window_and_headings_sort(width: int, report: Path, tmp_path: Path):
    found = probed(report, PROBE, tmp_path, width)
    assert found["inner"] == width
    assert found["page"] <= 0
    # A telephone's table is pushed sideways under its first column; all others show it whole.
    assert width < 700 or found["table"] <= 0
    assert found["up"] != found["down"]
    assert found["up"] == found["down"][::-1] or len(set(found["up"])) == len(found["up"])


#: Goes through the table as a keyboard does: one stop for Tab, then arrow keys.
KEYS_PROBE = """
<script>
ready.then(() => {
  const stops = () => document.querySelectorAll("#runs td[tabindex='0']").length;
  const said = () => document.getElementById("source").textContent;
  const found = {stops: [stops()], said: []};
  document.querySelector("#runs td[tabindex='0']").focus();
  for (const key of ["", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp"]) {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    found.said.push(said());
  }
  found.stops.push(stops());
  show(found);
});
</script>
"""


@pytest.mark.browser
def test_a_keyboard_reaches_the_source_of_each_number(report: Path, tmp_path: Path):
    found = probed(report, KEYS_PROBE, tmp_path, 1280)
    assert found["stops"] == [1, 1]
    first, right, below, left, *tops = found["said"]
    assert first == (
        "always-on, energy/unit: modelled: energy of the simulated run on ev6-4; its watts are "
        "published"
    )
    assert right.startswith("always-on, core saved %: modelled: ")
    assert below.partition(",")[0] == left.partition(",")[0] != "always-on"
    assert below.split(": ")[0].endswith(", core saved %")
    assert tops == [first, first]


def test_every_number_of_the_table_has_its_source(report: Path):
    table = report.read_text().split('<table id="runs"')[1].split("</table>")[0]
    bare = re.findall(r"<td(?! class=\"t\")(?![^>]*title=)[^>]*>([^<]*)", table)
    assert not [cell for cell in bare if re.search(r"\d", cell)]
    titles = set(re.findall(r'title="(\w+): ', table))
    assert titles == {"modelled", "measured"}


def test_every_number_of_the_ledger_has_its_source(report: Path):
    text = report.read_text().split('id="the-ledger"')[1].split('id="methods"')[0]
    cells = re.findall(r"<td(?! class=\"t\")([^>]*)>([^<]*)", text)
    assert len(cells) > 100
    assert not [cell for said, cell in cells if not re.match(r' title="modelled: \w', said)]
    summaries = re.findall(r"<summary([^>]*)>", text)
    assert all(said.startswith(' title="modelled: energy of ') for said in summaries)


def test_where_watts_are_assumed_energies_are_and_times_are_modelled():
    results = compare("nginx", techniques="tap", machine="zen4", instructions=50_000)
    summary = summarize(results)
    for line in summary.lines:
        sources = dict(zip(summary.headings, line.sources, strict=True))
        assert sources["energy, % of baseline"].startswith("assumed: ")
        assert sources["energy, % of baseline"].endswith("on zen4; its watts are assumed")
        assert sources["all saved %"].startswith("assumed: ")
        assert sources["slowdown %"] == "modelled: from the simulated run"
        assert sources["needs"] == ""


def test_the_ledger_is_opened_level_by_level_and_sums_to_the_runs(report: Path):
    results = compare(["nginx", "chase"], techniques="tap", instructions=200_000)
    for run, row in zip(ledger(results), results.runs.iter_rows(named=True), strict=True):
        assert run["title"] == f"{row['technique']}: {row['workload']} on {row['machine']}"
        assert run["energy"] == energy(row["energy_j"])
        assert {"cores", "l3", "memory"} <= {part["name"] for part in run["parts"]}
        shares = [float(part["share"]) for part in run["parts"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(100, abs=0.3)
        for part in run["parts"]:
            inner = [float(why["share"]) for why in part["rows"]]
            assert inner == sorted(inner, reverse=True)
            assert sum(inner) == pytest.approx(float(part["share"]), abs=0.05 * len(inner) + 0.1)
    text = report.read_text()
    assert text.count('<details class="part">') > 10
    assert "Saved and slowed down are relative to always-on on the same work" in text


def test_the_report_says_how_to_get_the_same_again(tmp_path: Path, halfwink):
    halfwink("compare", "alu", "-t", "tap", "-i", "10000", "-o", "out")
    page = html.unescape((tmp_path / "out/report.html").read_text())
    assert (tmp_path / "out/study.toml").read_text().strip() in page
    again = halfwink("run", "out/study.toml", "-o", "again", "--json").rows("runs")
    assert [run["technique"] for run in again] == ["always-on", "tap"]


def test_a_technique_has_one_colour_and_no_two_share_one():
    techniques = [
        "idle-gate",
        "idle-menu",
        "mapg-counter",
        "fupg",
        "dvfs-mean",
        "idle-adaptive",
        "clock-gate",
    ]
    results = compare("chase", techniques=techniques, instructions=20_000)
    charts = [technique_scale(results), technique_scale(results, baseline=False)]
    whole, others = (
        dict(zip(c.to_dict()["domain"], c.to_dict()["range"], strict=True)) for c in charts
    )
    assert len(set(whole.values())) == len(whole) == 8
    assert others == {name: c for name, c in whole.items() if name != "always-on"}
