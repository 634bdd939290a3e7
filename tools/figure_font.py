"""The font inside figures in SVG, from Liberation Sans 2.1.5: python/halfwink/report/fonts.

pip install fonttools==4.68.0 brotli==1.2.1
python tools/figure_font.py LiberationSans-Regular.ttf
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "python/halfwink/report/fonts/figures.woff2"
#: The licence reserves the name Liberation for the unchanged font.
NAME = "Halfwink Figures"
#: Latin, Greek and Cyrillic letters; punctuation, raised and lowered digits; arrows and operators.
CHARACTERS = (
    *((0x20, 0x7E), (0xA0, 0x17F), (0x391, 0x3C9), (0x400, 0x45F), (0x2010, 0x203A)),
    *((0x2070, 0x209C), (0x20AC, 0x20AC), (0x2122, 0x2126), (0x2190, 0x2195), (0x2202, 0x2265)),
)


def main() -> None:
    """Writes the subset."""
    from fontTools.subset import Options, Subsetter  # pyright: ignore
    from fontTools.ttLib import TTFont  # pyright: ignore

    font: Any = TTFont(sys.argv[1], recalcTimestamp=False)
    options = Options(hinting=False, layout_features=["kern"], drop_tables=["FFTM", "GDEF"])
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=[c for low, high in CHARACTERS for c in range(low, high + 1)])
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6, 16):
            record.string = NAME.replace(" ", "") if record.nameID == 6 else NAME
    font.flavor = "woff2"
    font.save(TARGET)


if __name__ == "__main__":
    main()
