"""Tables of results in the languages of documents: LaTeX and Markdown."""

from __future__ import annotations

import polars as pl

#: What LaTeX does not take as it is.
LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
    }
)
#: Significant digits of a real number.
DIGITS = 4


def latex(frame: pl.DataFrame) -> str:
    """A ``tabular`` of the package booktabs: words to the left, numbers to the right."""
    sides = "".join("r" if dtype.is_numeric() else "l" for dtype in frame.dtypes)

    def line(cells: list[str]) -> str:
        return " & ".join(cell.translate(LATEX) for cell in cells) + r" \\"

    body = [line(cells) for cells in _cells(frame)]
    parts = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", line(frame.columns), r"\midrule"]
    return "\n".join([*parts, *body, r"\bottomrule", r"\end{tabular}", ""])


def markdown(frame: pl.DataFrame) -> str:
    """A table of Markdown, aligned likewise."""
    rule = ["--:" if dtype.is_numeric() else "---" for dtype in frame.dtypes]

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(frame.columns), line(rule), *map(line, _cells(frame)), ""])


def _cells(frame: pl.DataFrame) -> list[list[str]]:
    return [[_cell(value) for value in row] for row in frame.iter_rows()]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
    return " ".join(text.split())
