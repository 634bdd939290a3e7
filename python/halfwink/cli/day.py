"""The command ``halfwink live day``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from halfwink.bed.day import Day, day, summary
from halfwink.cli.console import draw_chart, print_frame, print_tables, say
from halfwink.cli.console import out as stdout
from halfwink.errors import HalfwinkError


def play(
    *,
    profile: str = "world-cup",
    seconds: float = 60.0,
    peak_pps: Annotated[float, Parameter(name="--peak-pps")] = 60_000.0,
    policy: str = "power-save-in-order",
    io: str = "af-xdp",
    workers: int = 2,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Play a day of load through the live router in a test bed, and through the simulated one.

    The simulated router takes its costs from a run of the live one at constant rates.

    Parameters
    ----------
    profile
        world-cup, evaluation, or a file of lines SECONDS,SHARE.
    seconds
        Length of the day, in seconds.
    peak_pps
        Frames per second at its busiest.
    policy
        Scaling policy of both routers.
    io
        Interface to the kernel for the live router's frames.
    workers
        Number of workers of each router.
    out
        Folder for day.parquet, day.html and day.png.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if not 2 <= seconds <= 3600 or not 100 <= peak_pps <= 10e6 or not 1 <= workers <= 64:
        raise HalfwinkError(
            "expected --seconds 2 to 3600, --peak-pps 100 to 10000000, 1 to 64 workers"
        )
    found = day(
        profile=profile,
        seconds=seconds,
        peak_pps=peak_pps,
        io=io,
        policy=policy,
        workers=workers,
        slot_s=max(1.0, seconds / 120),
        say=lambda line: say(line, quiet=quiet),
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        found.slots.write_parquet(out / "day.parquet")
        # Drawing costs a second of imports, which most commands need not wait for.
        from halfwink.bed.day_chart import chart

        draw_chart(chart(found), out / "day.html")
        chart(found).save(str(out / "day.png"), scale_factor=2)
    if json:
        print_tables("live day", {"slots": found.slots}, {**found.costs, **_sums(found)})
        return 0
    print_frame(found.slots)
    sums = summary(found)
    stdout.print(
        f"busy core seconds: live {sums['live_busy_s']:.3f}, simulated "
        f"{sums['simulated_busy_s']:.3f}; modelled joules {sums['live_modelled_j']:.1f} and "
        f"{sums['simulated_modelled_j']:.1f}; lost {found.lost:,}, reordered {found.reordered:,} "
        f"of {sums['frames']:,.0f}"
    )
    stdout.print(
        f"fitted at other rates: {found.costs['frame_us']:.2f} us a frame, "
        f"{found.costs['wake_us']:.2f} us a wake-up; latencies and times are measured in the live "
        "router, all watts are modelled"
    )
    if out is not None:
        say(f"chart: {out / 'day.html'}", quiet=quiet)
    return 0


def _sums(found: Day) -> dict[str, float]:
    return {**summary(found), "lost": found.lost, "reordered": found.reordered}
