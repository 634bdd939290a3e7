"""Pages in headless Chromium."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from conftest import need

#: Chromium's windows are never narrower: a narrower page is shown inside another one.
LEAST_WIDTH = 500
#: What a probe calls with what it has found.
SHOW = """
<script>
function show(found) {
  if (parent !== window) { parent.postMessage(found, "*"); return; }
  document.body.innerHTML = "<pre id=found></pre>";
  document.getElementById("found").textContent = JSON.stringify(found);
}
</script>
"""
#: What axe-core holds against a page: the rule, and where.
AXE = """
<script>
addEventListener("load", () => setTimeout(() => axe.run().then((result) => show(
  result.violations.flatMap((rule) => rule.nodes.map((node) => [rule.id, node.target.join(" ")]))
), (error) => show([["axe", String(error)]])), 2000));
</script>
"""


def browse(page: Path, folder: Path, width: int = 1280, *, dark: bool = False) -> str:
    """The page's document, once it has been drawn."""
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    words += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    words += [f"--user-data-dir={folder}", f"--window-size={width},1000"]
    words += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run(
        [need("chromium"), *words, "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def probed(page: Path, script: str, folder: Path, width: int = 1280, *, dark: bool = False) -> Any:
    """What a script inside a page calls `show` with."""
    copy = page.with_name(f"probed-{page.name}")
    # The last one: a script has its own.
    before, end, after = page.read_text().rpartition("</body>")
    copy.write_text(before + SHOW + script + end + after)
    shown = copy
    if width < LEAST_WIDTH:
        shown = page.with_name(f"around-{page.name}")
        frame = f'<iframe src="{copy.as_uri()}" width="{width}" height="900" style="border: 0">'
        listen = '<script>addEventListener("message", (event) => show(event.data))</script>'
        scheme = '<meta name="color-scheme" content="light dark">'
        shown.write_text(f"<!doctype html>{scheme}<body>{SHOW}{listen}{frame}</iframe></body>")
    dom = browse(shown, folder, width, dark=dark)
    copy.unlink()
    told = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    assert told is not None, dom[-2000:]
    return json.loads(html.unescape(told[1]))


def breaches(page: Path, folder: Path, width: int = 1280, *, dark: bool = False) -> list[list[str]]:
    """Rules of accessibility that a page breaks, each with where, by axe-core."""
    axe = Path(need("axe")).with_name("axe.min.js").read_text()
    return probed(page, f"<script>{axe}</script>{AXE}", folder, width, dark=dark)
