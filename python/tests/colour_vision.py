"""Colours as eyes see them: CIEDE2000 distances, with and without colour-vision deficiencies."""

from __future__ import annotations

from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt
from typing import Any

#: Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision
#: deficiency", IEEE TVCG 15(6), 2009: matrices of severity 1.0, over linear RGB.
DEFICIENCIES = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
#: sRGB to XYZ under D65, and that white.
XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
Triple = tuple[float, float, float]


def linear(colour: str) -> Triple:
    """A colour as ``#rrggbb``, in linear RGB."""

    def channel(at: int) -> float:
        value = int(colour[at : at + 2], 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return channel(1), channel(3), channel(5)


def _times(matrix: tuple[Triple, Triple, Triple], vector: Triple) -> Triple:
    one, two, three = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return one, two, three


def lab(colour: str, deficiency: str = "none") -> Triple:
    """CIELAB of a colour as it is seen."""
    seen = _times(DEFICIENCIES[deficiency], linear(colour))
    one, two, three = (min(1.0, max(0.0, value)) for value in seen)

    def f(ratio: float) -> float:
        return ratio ** (1 / 3) if ratio > 216 / 24389 else (24389 / 27 * ratio + 16) / 116

    x, y, z = (f(v / w) for v, w in zip(_times(XYZ, (one, two, three)), WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one: Triple, two: Triple) -> float:
    """Distance of two colours in CIELAB (Sharma, Wu, Dalal 2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean7 = ((hypot(a1, b1) + hypot(a2, b2)) / 2) ** 7
    g = 0.5 * (1 - sqrt(mean7 / (mean7 + 25**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = (degrees(atan2(b, a)) % 360 if a or b else 0.0 for a, b in ((a1, b1), (a2, b2)))
    dl, dc, turn = l2 - l1, c2 - c1, h2 - h1
    if not c1 * c2:
        turn = 0.0
    elif abs(turn) > 180:
        turn -= 360 if turn > 0 else -360
    dh = 2 * sqrt(c1 * c2) * sin(radians(turn / 2))
    lm, cm = (l1 + l2) / 2, (c1 + c2) / 2
    hm = h1 + h2
    if c1 * c2:
        if abs(h1 - h2) > 180:
            hm += 360 if hm < 360 else -360
        hm /= 2
    t = 1 - 0.17 * cos(radians(hm - 30)) + 0.24 * cos(radians(2 * hm))
    t += 0.32 * cos(radians(3 * hm + 6)) - 0.20 * cos(radians(4 * hm - 63))
    sl = 1 + 0.015 * (lm - 50) ** 2 / sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rc = 2 * sqrt(cm**7 / (cm**7 + 25**7))
    rt = -sin(radians(60 * exp(-(((hm - 275) / 25) ** 2)))) * rc
    return sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * (dc / sc) * (dh / sh))


def least(one: str, two: str) -> tuple[float, str]:
    """The least distance of two colours, and under which deficiency that is."""
    return min((ciede2000(lab(one, how), lab(two, how)), how) for how in DEFICIENCIES)


def contrast(one: str, two: str) -> float:
    """Ratio of luminances as WCAG has it, 1 to 21."""
    low, high = sorted(_times(XYZ, linear(colour))[1] for colour in (one, two))
    return (high + 0.05) / (low + 0.05)


def colour_alone(part: Any) -> list[str]:
    """Returns marks and fields of points and lines that a chart tells apart by colour alone: no
    shape, no dash and no place says the same. The points on a dashed line are told by the line."""
    if isinstance(part, list):
        return [found for inner in part for found in colour_alone(inner)]
    if not isinstance(part, dict):
        return []
    found: list[str] = []
    mark, encoding = part.get("mark"), part.get("encoding", {})
    kind = mark.get("type") if isinstance(mark, dict) else mark
    colour = encoding.get("color", {})
    is_seen = not isinstance(mark, dict) or mark.get("opacity") != 0
    if is_seen and kind in ("point", "line") and colour.get("type") in ("nominal", "ordinal"):
        others = [c.get("field") for n, c in encoding.items() if n not in ("color", "tooltip")]
        has_shape = isinstance(mark, dict) and "shape" in mark
        found += [] if colour["field"] in others or has_shape else [f"{kind}: {colour['field']}"]
    inner = (value for name, value in part.items() if name not in ("datasets", "encoding"))
    return found + [one for value in inner for one in colour_alone(value)]
