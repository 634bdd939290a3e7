"""Tables for documents."""

from __future__ import annotations

import polars as pl

from halfwink.results.typesetting import latex, markdown

FRAME = pl.DataFrame(
    {"technique": ["tap_50%", "a|b"], "saving_pct": [12.34567, None], "runs": [1, 20]}
)


def test_latex_escapes_what_it_would_take_for_its_own():
    assert latex(FRAME).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"technique & saving\_pct & runs \\",
        r"\midrule",
        r"tap\_50\% & 12.35 & 1 \\",
        r"a|b & - & 20 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert latex(pl.DataFrame({"x": ["\\~^{}"]})).splitlines()[4] == (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\{\} \\"
    )


def test_markdown_keeps_its_columns():
    assert markdown(FRAME).splitlines() == [
        "| technique | saving_pct | runs |",
        "| --- | --: | --: |",
        "| tap_50% | 12.35 | 1 |",
        r"| a\|b | - | 20 |",
    ]
