"""``halfwink reproduce --claims``: headline claims and whether they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_listing, print_tables
from halfwink.targets.claim_verdicts import null_sentence, summary


def show_claims(entries: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """Prints claims, each with its verdict and a sentence, and the counts."""
    if json:
        print_tables("reproduce --claims", {"claims": entries})
        return
    works = dict.fromkeys(entry["id"].split("/")[0] for entry in entries)
    for work in works:
        rows = [
            [entry["verdict"], _text(entry)]
            for entry in entries
            if entry["id"].startswith(f"{work}/")
        ]
        print_listing([work, "claim, and what is printed and computed"], rows)
        stdout.print()
    stdout.print(summary(entries))


def _text(entry: Mapping[str, Any]) -> str:
    """Returns the claim and, on lines of their own, the sentences that judge it."""
    lines = [f"{entry['claim']} ({entry['source']})", entry["said"], null_sentence(entry)]
    lines.append(entry["turned"])
    return "\n".join(line for line in lines if line)
