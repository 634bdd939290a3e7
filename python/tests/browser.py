"""Pages in headless Chromium."""

from __future__ import annotations

import html
import json
import re
import subprocess
from dataclasses import dataclass
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
#: What a probe waits for: the page, and the charts of those that have some.
READY = """
<script>
const ready = new Promise((done) => addEventListener("load", done))
  .then(() => (typeof drawn === "undefined" ? null : drawn));
</script>
"""
#: What a page shows with all of it unfolded, and what axe-core holds against it: the rule, and
#: where.
AXE = """
<script>
ready.then(() => {
  document.querySelectorAll("details").forEach((d) => { d.open = !d.closest(".chart"); });
  // Where all is well takes longest to say.
  return axe.run({resultTypes: ["violations"]});
}).then((result) => {
  const root = document.documentElement;
  const own = (part) => [...part.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const parts = [...document.querySelectorAll("main *")].filter((part) => !part.closest(".chart"));
  show({
    width: root.clientWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    passed: result.passes.length,
    charts: document.querySelectorAll(".chart svg.marks").length,
    wider: root.scrollWidth - root.clientWidth,
    hidden: parts.filter((p) => own(p) && !p.checkVisibility()).map((p) => p.textContent.trim()),
    clipped: parts.filter((p) => p.scrollWidth > p.clientWidth && p.clientWidth > 0
      && getComputedStyle(p).overflowX !== "visible").map((p) => p.ariaLabel || p.tagName),
    broken: result.violations.flatMap((r) => r.nodes.map((n) => [r.id, n.target.join(" ")])),
  });
}).catch((error) => show({failed: String(error)}));
</script>
"""
#: How a page is looked at: the width in pixels inside a window, and whether it is dark.
VIEWS = ((1280, False), (1280, True), (390, False), (390, True))
#: A sheet of A4 without what Chromium leaves free around it (210 mm less twice 0.4 inches).
PAPER = 717
#: Height of a view.
TALL = 900


def browse(
    page: Path, folder: Path, width: int = 1280, *, dark: bool = False, query: str = ""
) -> str:
    """The page's document, once it has been drawn; `query` ends its address."""
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    words += [
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    words += [f"--user-data-dir={folder}", f"--window-size={width},1000"]
    words += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run(
        [
            need("chromium"),
            *words,
            "--virtual-time-budget=20000",
            "--dump-dom",
            page.as_uri() + query,
        ],
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
    copy.write_text(before + SHOW + READY + script + end + after)
    shown = copy
    if width < LEAST_WIDTH:
        shown = page.with_name(f"around-{page.name}")
        frame = f'<iframe src="{copy.as_uri()}" width="{width}" height="900" style="border: 0">'
        listen = '<script>addEventListener("message", (event) => show(event.data))</script>'
        scheme = '<meta name="color-scheme" content="light dark">'
        shown.write_text(f"<!doctype html>{scheme}<body>{SHOW}{listen}{frame}</iframe></body>")
    dom = browse(shown, folder, width, dark=dark)
    copy.unlink()
    return _told(dom)


@dataclass(frozen=True)
class View:
    """A page in one window, with all of it unfolded.

    Attributes:
        width, dark: the window, as the page sees it.
        passed: rules of axe-core that the page keeps.
        charts: pictures on it.
        wider: by how much the page is wider than its window.
        hidden: texts that are not shown.
        clipped: what shows only a part of its width, by its label.
        broken: rules that it breaks, each with where.
    """

    width: int
    dark: bool
    passed: int
    charts: int
    wider: int
    hidden: list[str]
    clipped: list[str]
    broken: list[list[str]]


def views(page: Path, folder: Path) -> tuple[list[View], View]:
    """A page in windows of `VIEWS` and on A4 paper, by axe-core: one browser has all of them side
    by side."""
    axe = Path(need("axe")).with_name("axe.min.js").read_text()
    before, end, after = page.read_text().rpartition("</body>")
    text = f"{before}{SHOW}{READY}<script>{axe}</script>{AXE}{end}{after}"
    screen, paper, around = (page.with_name(f"{n}-{page.name}") for n in ("on", "a4", "around"))
    screen.write_text(text)
    paper.write_text(
        text.replace("@media print", "@media all").replace("@media screen", "@media speech")
    )
    frames = "".join(
        f'<iframe src="{copy.as_uri()}" width="{width}" height="{TALL}" '
        # A frame's page sees the scheme that its frame has.
        f'style="border: 0; flex: none; color-scheme: {"dark" if dark else "light"}"></iframe>'
        for copy, width, dark in [*((screen, *view) for view in VIEWS), (paper, PAPER, False)]
    )
    count = len(VIEWS) + 1
    gather = f"""<script>
    const all = [];
    addEventListener("message", (event) => {{
      all.push(event.data);
      if (all.length === {count}) show(all);
    }});
    </script>"""
    around.write_text(f'<!doctype html><body style="display: flex">{SHOW}{gather}{frames}</body>')
    # Frames that nobody sees are drawn late or never.
    dom = browse(around, folder, sum(width for width, _ in VIEWS) + PAPER + 100)
    screen.unlink()
    paper.unlink()
    found = {(view.width, view.dark): view for view in (View(**one) for one in _told(dom))}
    return [found[view] for view in VIEWS], found[PAPER, False]


def _told(dom: str) -> Any:
    """What the page of a document called `show` with."""
    told = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    assert told is not None, dom[-2000:]
    return json.loads(html.unescape(told[1]))
