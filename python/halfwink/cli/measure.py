"""``halfwink measure``: what this machine charges for handing work over."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli.console import print_table, print_tables, say
from halfwink.errors import HalfwinkError
from halfwink.live import delegate as living

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]

TIMES = ["min", "p50", "p90", "p99", "max", "mean"]


def measure(
    *,
    only: str | None = None,
    cpus: str | None = None,
    seconds: float = 1.0,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure what this machine charges for each way to hand work to another core.

    Parameters
    ----------
    only
        Items, separated by commas (--only cache-line,mailbox); all, if none is given.
    cpus
        The two CPUs to measure between (--cpus 0,1; default: the first and the last one allowed).
    seconds
        Time of each item, at most.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if not 0 < seconds <= 60:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 60")
    found = living.measure(
        only=only.split(",") if only else None, pair=_pair(cpus), seconds_per_item=seconds
    )
    if json:
        facts = dict(found)
        tables = {"items": facts.pop("rows"), "ratios": facts.pop("ratios")}
        print_tables("measure", tables, facts)
        return 0
    rows = [[row["name"], *_times(row), row["what"]] for row in found["rows"]]
    heads = [*(f"{name} ns" for name in TIMES), "spread %"]
    print_table(
        [("item", "left"), ("times", "right"), *((h, "right") for h in heads), ("what", "left")],
        rows,
    )
    for row in found["rows"]:
        if "missing" in row:
            say(f"{row['name']}: {row['missing']}", quiet=quiet)
    for ratio in found["ratios"]:
        say(f"{' / '.join(ratio['of'])}: {_quotient(ratio)}", quiet=quiet)
    if not found["counter_is_constant"]:
        say("the time-stamp counter may change its rate: times are doubtful", quiet=quiet)
    return 0


def _quotient(ratio: dict[str, Any]) -> str:
    spread = f"spread {ratio['spread_pct']:.0f} %"
    if ratio["of_medians"] is None:
        return f"not told, {spread}: something else runs on these CPUs; measure again without it"
    return f"{ratio['of_medians']:.2f} of medians, {spread}"


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    words = text.split(",")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or words[0] == words[1]:
        raise HalfwinkError(f"--cpus {text}: expected two different CPUs, such as 0,1")
    return int(words[0]), int(words[1])


def _times(row: dict[str, Any]) -> list[str]:
    if "missing" in row:
        return ["missing", *("-" for _ in TIMES), "-"]
    return [
        f"{row['repetitions']:,}",
        *(_number(row[f"{name}_ns"]) for name in TIMES),
        f"{row['spread_pct']:.1f}",
    ]


def _number(ns: float) -> str:
    return f"{ns:.1f}" if ns < 100 else f"{ns:,.0f}"
