"""Colours, marks and dashes of all charts: safe for the three colour-vision deficiencies.

Any two colours of a list are 12 or more apart in CIEDE2000, also as protanopes, deuteranopes and
tritanopes see them, and each stands out from white and from a dark page. A test computes that. No
chart tells techniques apart by colour alone: points have a shape, lines have a dash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Techniques. Grey is the baseline's. The colours were searched for: the least distance is 14.6.
TECHNIQUES = (
    *("#8a8f98", "#2a6fbb", "#dfb50c", "#c72365"),
    *("#81bb98", "#825717", "#bd94f9", "#b0813b"),
)
#: Techniques that have the same colour in every report.
NAMED = {
    "always-on": TECHNIQUES[0],
    "tap": TECHNIQUES[1],
    "idle-gate": TECHNIQUES[2],
    "mapg-counter": TECHNIQUES[3],
    "oracle": TECHNIQUES[4],
}
#: Parts of a stack, as the ledger's groups and the states of a core: the least distance is 13.7.
PARTS = (
    *("#2f6db3", "#478df5", "#98526e", "#b8b80a", "#516336"),
    *("#20c9f3", "#bb8d81", "#8d99a6", "#828217"),
)
#: Many parts of a stack, or many techniques: the least distance is 12.9.
MANY_PARTS = (
    *("#307e91", "#abb6e3", "#a87de8", "#dfb50c", "#7e9130", "#bb8181"),
    *("#df0c8a", "#985260", "#4fc4ad", "#426b06", "#9f20f3", "#bbbb81"),
)
#: Shapes of points, and dashes of lines: their numbers share no factor with that of the colours, so
#: that techniques of one colour differ in them.
SHAPES = (
    *("circle", "square", "diamond", "triangle-up", "cross"),
    *("triangle-down", "triangle-right"),
)
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4])
#: Legend of lines: strokes, long enough for their dashes.
DASHED: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 400}


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """The colour of each technique. Where there are more of them than colours, and none has one of
    its own, they take those of many parts. Beyond the number of colours these come again."""
    if len(names) > len(TECHNIQUES) and not any(name in NAMED for name in names):
        return {name: MANY_PARTS[n % len(MANY_PARTS)] for n, name in enumerate(names)}
    taken = {NAMED[name] for name in names if name in NAMED}
    free = [colour for colour in TECHNIQUES if colour not in taken]
    others = [name for name in names if name not in NAMED]
    cycle = free + list(TECHNIQUES) * (len(others) // len(TECHNIQUES) + 1)
    return {name: NAMED[name] for name in names if name in NAMED} | dict(
        zip(others, cycle, strict=False)
    )


def numbers_of(names: Sequence[str], kinds: int) -> list[int]:
    """Returns which of so many marks each technique has: those of one colour have different ones,
    as long as there are some left."""
    colours = colours_of(names)
    seen: dict[str, int] = {}
    found: list[int] = []
    for number, name in enumerate(names):
        before = seen.get(colours[name])
        mark = number % kinds if before is None else (before + 1) % kinds
        seen[colours[name]] = mark
        found.append(mark)
    return found
