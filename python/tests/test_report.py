"""The report in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import browse, probed

from halfwink import compare
from halfwink.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = compare(["nginx", "chase"], instructions=200_000)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, "a <title> & more", results)
    return path


def test_the_report_is_one_file_that_fetches_nothing(report: Path):
    text = report.read_text()
    assert "<title>a &lt;title&gt; &amp; more - halfwink</title>" in text
    page = re.sub(r"<script.*?</script>", "<script></script>", text, flags=re.DOTALL)
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    # What is left are names of specifications inside the scripts.
    assert "fetch(" not in text.split("const specs")[1]


def test_every_figure_says_modelled_or_measured(report: Path):
    text = report.read_text()
    assert "Nothing was metered" in text
    specs = text.split("const specs")[1]
    titles = re.findall(r'"title": "([^"]*\((?:%|ns|us)\)[^"]*)"', specs)
    assert titles
    assert all("modelled" in title or "share of stalled time" in title for title in titles)


@pytest.mark.browser
def test_a_browser_draws_every_chart(report: Path, tmp_path: Path):
    dom = browse(report, tmp_path)
    charts = re.findall(
        r'<div class="chart[^"]*vega-embed[^"]*" id="chart\d+">(.*?)</details>', dom, re.S
    )
    # Energy against latency is missing: nothing waited. Savings, energy, time, stalls, states; and
    # the kernel, which some techniques watch.
    assert len(charts) == 6
    assert all("<svg" in chart for chart in charts)
    assert all('role="img" aria-label="' in chart for chart in charts)
    assert "Error" not in "".join(charts)


#: Written into the page: what is wider than it should be, and what sorting by a heading gives.
PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
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
}, 2000));
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
