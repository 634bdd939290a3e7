"""The command ``halfwink live router``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Group
from rich.table import Table

from halfwink.cli.console import print_frame, print_table, print_tables, say
from halfwink.cli.serving import NO_WISHES, Faces, Wishes, serve_until_told
from halfwink.errors import HalfwinkError
from halfwink.live import served
from halfwink.live.program import ledger_frame
from halfwink.live.router import STATES, LiveRouter
from halfwink.live.router import costs as measured


def costs(
    *,
    repeats: int = 101,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Measure what each element of the router's data plane costs on this machine, without sockets.

    Parameters
    ----------
    repeats
        Batches of 1,024 packets; figures are medians.
    json
        Print one JSON document.
    """
    if not 1 <= repeats <= 100_000:
        raise HalfwinkError(f"--repeats {repeats}: expected 1 to 100000")
    found = measured(repeats)
    if json:
        print_tables("live costs", {"costs": found})
    else:
        print_frame(found)
    return 0


def router(
    description: Path,
    *,
    check: Annotated[bool, Parameter(negative="")] = False,
    wishes: Wishes = NO_WISHES,
) -> int:
    """Forward packets between interfaces of this machine, by as few cores as carry them.

    SIGTERM or Ctrl-C ends it: what has arrived is forwarded first. SIGHUP reads the description
    again (routes, addresses, neighbours, application). Watts are modelled.

    Parameters
    ----------
    description
        TOML file: ports, routes, application, policy.
    check
        Check the description, say what is wrong with it, and end.
    wishes
        Options that all live programs share.
    """

    if check:
        say(served.check("router", description), quiet=wishes.quiet)
        return 0

    def begin(log: Path | None) -> LiveRouter:
        return LiveRouter(description, log=log)

    return serve_until_told(begin, wishes, _faces, "live.router", "router")


def _faces(router: LiveRouter) -> Faces:
    return Faces(lambda now, before: _page(now, before, router), _show)


def _page(now: dict[str, Any], before: dict[str, Any], router: LiveRouter) -> Group:
    """The live view: what happened since the last look."""
    span = max(now["duration_s"] - before["duration_s"], 1e-9)
    workers = Table("worker", "", "kpps", "waiting", "busy", "spin", "C1", "C3", "C6", box=None)
    times: list[list[float]] = []
    for number, (new, old) in enumerate(zip(now["workers"], before["workers"], strict=True)):
        spent = [new["residency"][s] - old["residency"][s] for s in STATES]
        times.append(spent)
        rate = (new["served"] - old["served"]) / span / 1e3
        state = "parked" if new["parked"] else ""
        shares = [f"{100 * s / span:.1f} %" for s in spent]
        workers.add_row(str(number), state, f"{rate:.1f}", str(new["waiting"]), *shares)
    ports = Table("port", "by", "in kpps", "out kpps", "lost", box=None)
    for new, old in zip(now["ports"], before["ports"], strict=True):
        rates = [f"{(new[k] - old[k]) / span / 1e3:.1f}" for k in ("received", "sent")]
        lost = new["lost"] + new["unsent"]
        by = new["io"] if new["up"] else "gone"
        ports.add_row(new["interface"], by, *rates, str(lost))
    if span < 1e-6:
        return Group(workers, ports)
    modelled = router.modelled(times, span, now["received"] - before["received"])
    latency = now["latency"]
    line = (
        f"{now['duration_s']:.0f} s   modelled: {modelled['energy_w']:.0f} W "
        f"(polling {modelled['polling_w']:.0f} W)   in the router: p50 {_us(latency['p50_us'])}, "
        f"p99 {_us(latency['p99_us'])}   changes {now['changes']}"
    )
    return Group(workers, ports, line)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} us"


def _show(report: dict[str, Any]) -> None:
    rows = [
        [
            p["interface"],
            p["io"] if p["up"] else "gone",
            *(f"{p[k]:,}" for k in ("received", "sent", "unsent", "lost")),
        ]
        for p in report["ports"]
    ]
    heads = ["received", "sent", "not taken", "lost by the kernel"]
    print_table([("port", "left"), ("by", "left"), *((h, "right") for h in heads)], rows)
    rows = []
    for number, worker in enumerate(report["workers"]):
        total = sum(worker["residency"].values()) or 1.0
        shares = [f"{100 * worker['residency'][s] / total:.2f}" for s in STATES]
        counts = [f"{worker['served']:,}", f"{worker['sleeps']:,}", f"{worker['cpu_s']:.3f}"]
        rows.append([str(number), *counts, *shares])
    heads = ["served", "sleeps", "CPU s", "busy %", "spin %", "C1 %", "C3 %", "C6 %"]
    print_table([("worker", "right"), *((h, "right") for h in heads)], rows)
    rows = [[name, f"{count:,}"] for name, count in report["packets"].items() if count]
    print_table([("packets", "left"), ("", "right")], rows)
    s, modelled = report["latency"], report["modelled"]
    say(
        f"{report['duration_s']:.3f} s; in the router mean {_us(s['mean_us'])}, "
        f"p50 {_us(s['p50_us'])}, p99 {_us(s['p99_us'])}; {report['changes']:,} changes, "
        f"{report['moves']:,} entries moved; queues overflowed {report['overflowed']:,} times"
    )
    say(
        f"modelled: {modelled['energy_w']:.1f} W in the mean; all cores polling "
        f"{modelled['polling_w']:.1f} W, all asleep {modelled['asleep_w']:.1f} W"
    )
    say("ledger: times are measured, joules are modelled")
    print_frame(ledger_frame(report))
