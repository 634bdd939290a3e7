"""The command ``halfwink live steer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Group
from rich.table import Table

from halfwink.cli.console import print_frame, print_table, say
from halfwink.cli.serving import NO_WISHES, Faces, Wishes, serve_until_told
from halfwink.live import served
from halfwink.live.program import ledger_frame
from halfwink.live.steer import LiveSteer

#: Counts of a machine in the last table, with their headings.
COUNTS = (
    ("served", "served"),
    ("queued", "waited"),
    ("failed", "failed"),
    ("retried", "retried"),
    ("resteered", "to others"),
    ("wakes", "wakes"),
    ("losses", "lost"),
)


def steer(
    description: Path,
    *,
    check: Annotated[bool, Parameter(negative="")] = False,
    wishes: Wishes = NO_WISHES,
) -> int:
    """Steer HTTP requests, or TCP connections, to two or more servers, which may sleep.

    SIGTERM or Ctrl-C ends it: requests under way are answered first, and who sleeps is woken.
    SIGHUP reads the description again (limits, machines, certificate, policy). Watts are modelled,
    and reported only if the description names a machine.

    Parameters
    ----------
    description
        TOML file: where to listen, machines and how they sleep, policy, limits.
    check
        Check the description, say what is wrong with it, and end.
    wishes
        Options that all live programs share.
    """

    if check:
        say(served.check("steer", description), quiet=wishes.quiet)
        return 0

    def begin(log: Path | None) -> LiveSteer:
        made = LiveSteer(description, log=log)
        say(f"listening at {made.address}", quiet=wishes.quiet)
        if made.report()["modelled"] is None:
            say(
                f'energy is not reported: machine = "NAME" in {description} adds modelled watts '
                "(halfwink list machines)",
                quiet=wishes.quiet,
            )
        return made

    return serve_until_told(begin, wishes, _faces, "live.steer", "proxy")


def _faces(_steer: LiveSteer) -> Faces:
    return Faces(_page, _show)


def _page(now: dict[str, Any], before: dict[str, Any]) -> Group:
    """The live view: what happened since the last look."""
    span = max(now["duration_s"] - before["duration_s"], 1e-9)
    heads = ["machine", "", "requests/s", "in service", "waiting", "on", "asleep"]
    modelled = now["modelled"]
    if modelled is not None:
        heads.append("W modelled")
    table = Table(*heads, box=None)
    for name, new in _in_order(now):
        old = before["machines"][name]
        rate = (new["served"] - old["served"]) / span
        on = (sum(new["residency"]["on_s"]) - sum(old["residency"]["on_s"])) / span
        asleep = (new["residency"]["asleep_s"] - old["residency"]["asleep_s"]) / span
        cells = [name, new["state"], f"{rate:.0f}", str(new["in_service"]), str(new["waiting"])]
        cells += [f"{100 * on:.0f} %", f"{100 * asleep:.0f} %"]
        if modelled is not None:
            joules = new["modelled"]["energy_j"] - old["modelled"]["energy_j"]
            cells.append(f"{joules / span:.0f}")
        table.add_row(*cells)
    total, requests = now["total"], now["requests"]
    bad = sum(requests[name] for name in ("overloaded", "unreachable", "bad_gateway"))
    line = (
        f"{now['duration_s']:.0f} s   requests {requests['received']:,}, refused "
        f"{requests['refused']:,}, failed {bad + requests['gateway_timeout']:,}   connections "
        f"{now['connections']:,}   p50 {_ms(total['p50_us'])}, p99 {_ms(total['p99_us'])}"
    )
    return Group(table, line)


def _in_order(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The machines with their names, in the order of activation."""
    return sorted(report["machines"].items(), key=lambda machine: machine[1]["place"])


def _ms(value_us: float | None) -> str:
    return "-" if value_us is None else f"{value_us / 1e3:.2f} ms"


def _show(report: dict[str, Any]) -> None:
    rows: list[list[str]] = []
    for name, machine in _in_order(report):
        spent = machine["residency"]
        on_s = sum(spent["on_s"])
        other = [spent[f"{state}_s"] for state in ("going_down", "asleep", "waking", "lost")]
        total = on_s + sum(other) or 1.0
        counts = [f"{machine[key]:,}" for key, _ in COUNTS]
        shares = [f"{100 * s / total:.1f}" for s in (on_s, *other)]
        rows.append([name, machine["address"], *counts, *shares])
    heads = [head for _, head in COUNTS]
    heads += ["on %", "going down %", "asleep %", "waking %", "lost %"]
    columns = [("machine", "left"), ("at", "left"), *((head, "right") for head in heads)]
    print_table(columns, rows)
    rows = [[name, f"{count:,}"] for name, count in report["requests"].items() if count]
    print_table([("requests", "left"), ("", "right")], rows)
    total, queueing, modelled = report["total"], report["queueing"], report["modelled"]
    say(
        f"{report['duration_s']:.3f} s; mean {_ms(total['mean_us'])}, p50 {_ms(total['p50_us'])}, "
        f"p99 {_ms(total['p99_us'])}, of it waiting p99 {_ms(queueing['p99_us'])}"
    )
    if modelled is None:
        say("ledger: times are measured")
    else:
        line = f"modelled: {modelled['energy_w']:.1f} W in the mean; "
        if (big := report["machines"].get("big")) is not None:
            watts = big["modelled"]["always_on_w"]
            line += f"the big machine always on {watts:.1f} W (modelled), "
        say(f"{line}all machines always on {modelled['always_on_w']:.1f} W (modelled)")
        say("ledger: times are measured, joules are modelled")
    print_frame(ledger_frame(report))
