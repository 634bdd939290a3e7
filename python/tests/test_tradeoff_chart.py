"""The chart of energy against latency: every name has room, and what is far out is told of."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from browser import probed
from test_verdict import results

from halfwink.report import tradeoff_chart
from halfwink.report.tradeoff_chart import far_out, tradeoff

#: technique -> energy in J of 1000 units, mean latency; the 99th percentile is four times that.
CROWDED = {
    "always-on": (626.9, 33.7),
    "hybrid": (497.5, 33.8),
    "hybrid-all": (499.2, 30.2),
    "hybrid-early": (590.7, 33.7),
    "always-big": (704.2, 15.3),
    "sleep-timer": (704.2, 15.3),
    "break-even": (703.7, 15.4),
    "power-nap": (698.5, 15.9),
    "shortest": (726.6, 15.9),
    "knight-shift": (732.6, 15.3),
    "dream-weaver": (687.0, 21.3),
    "octopus-man": (532.6, 113.3),
    "hal": (493.7, 58.3),
    "always-small": (227.1, 26_388_279.0),
}
#: Boxes of names and of points that are seen, in pixels.
BOXES = """
<script>
ready.then(() => {
  const box = (part) => { const r = part.getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom]; };
  // The winner's ring is no point.
  const isRing = (part) => ["transparent", "none", null].includes(part.getAttribute("fill"));
  const seen = (part) => getComputedStyle(part).opacity > 0 && part.getAttribute("opacity") !== "0"
    && !isRing(part);
  const names = [...document.querySelectorAll("#chart1 .mark-text.role-mark text")];
  const points = [...document.querySelectorAll("#chart1 .mark-symbol.role-mark path")];
  show({
    names: names.filter((n) => n.textContent).map((n) => [n.textContent, box(n)]),
    points: points.filter(seen).map(box),
  });
});
</script>
"""


def crowded() -> Any:
    return results("server", CROWDED, workload="count")


def rows(drawn: Any) -> list[dict[str, Any]]:
    document = json.loads(drawn.to_json())
    (table,) = document["datasets"].values()
    return table


def test_what_is_far_out_is_told_of_and_not_drawn():
    assert far_out(crowded()) == (" Far outside, and not drawn: always-small (227.1 mJ, 106 s).")
    drawn = {row["technique"] for row in rows(tradeoff(crowded()))}
    assert drawn == set(CROWDED) - {"always-small"}
    few = {name: CROWDED[name] for name in ("always-on", "hybrid", "hal")}
    assert far_out(results("server", few)) == ""


def test_points_at_one_place_share_a_name():
    named = {row["technique"]: row["names"] for row in rows(tradeoff(crowded()))}
    shared = next(names for names in named.values() if names and "always-big" in names)
    assert {"sleep-timer", "break-even"} <= set(shared.split(", "))
    assert named["hal"] == "hal"


def test_a_sweep_of_hundreds_of_points_has_no_names():
    many = {f"t{n}": (100.0 + n, 10.0 + n % 17) for n in range(300)}
    assert not any(row["names"] for row in rows(tradeoff(results("storage", many))))


@pytest.mark.browser
def test_no_name_hides_a_point_or_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "report.html"
    from halfwink.report import page as pages
    from halfwink.report import write_report

    # Of what was chosen for it there is no ledger: only its chart is drawn.
    found = crowded()
    chart = pages.Section("", "", tradeoff_chart.tradeoff(found))
    monkeypatch.setattr(pages, "_sections", lambda _: [chart])
    monkeypatch.setattr(pages, "ledger", lambda _: [])
    write_report(page, "crowded", found)
    seen = probed(page, BOXES, tmp_path / "browser")
    assert len(seen["points"]) == len(CROWDED) - 1
    names = dict(seen["names"])
    assert len(names) >= 7
    assert {"hal", "octopus-man", "always-on", "hybrid-early"} <= set(names)

    def overlap(one: list[float], other: list[float]) -> bool:
        return all(one[i] + 1 < other[i + 2] and other[i] + 1 < one[i + 2] for i in (0, 1))

    boxes = list(names.values())
    assert not [pair for pair in combinations(names, 2) if overlap(*(names[n] for n in pair))]
    assert not [box for box in boxes for point in seen["points"] if overlap(box, point)]
