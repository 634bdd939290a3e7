"""The report in a real browser."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import need

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
    chromium = need("chromium")
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            report.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    dom = done.stdout
    charts = re.findall(r'<div id="chart\d+" class="vega-embed[^"]*">(.*?)</details>', dom, re.S)
    # Savings, energy, time, stalls, states; and the kernel, which some techniques watch.
    assert len(charts) == 6
    assert all("<canvas" in chart or "<svg" in chart for chart in charts)
    assert "Error" not in "".join(charts)
