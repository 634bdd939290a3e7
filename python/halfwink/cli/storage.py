"""``halfwink storage``: which CPU completes block I/Os on machines of several sockets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink import storage
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json, save_chart, say
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole

Json = Annotated[bool, Parameter(name="--json", negative="")]

app = App(name="storage", help="Block I/Os on machines of several sockets.")

#: By how much throughput changes at the least, where words call it a rise or a drop, in percent.
_MOVES = 3.0


@app.command
def simulate(
    machine: str = "westmere-ex",
    *,
    policy: str = "single,issuer,cache-aware",
    issuers: str = "",
    through: str = "driver",
    depth: int = 32,
    rate: float = 0.0,
    ios: int = 100_000,
    seed: int = 1,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
    setting: Setting = None,
    json: Json = False,
) -> int:
    """Play policies of completion by the number of CPUs that issue I/Os (modelled).

    Parameters
    ----------
    machine
        Name (sandybridge-e, westmere-ep, nehalem-ex, westmere-ex, linux-6.1), or a TOML file.
    policy
        Completion policies: single, same, issuer, round-robin-socket, cache-aware, dynamic, msi-x,
        multi-queue, polled, hybrid-poll, interleaved-tags, by semicolons or commas; with parameters
        as cache-aware:period_ms=1.
    issuers
        Numbers of issuing CPUs: 1..80, or 1,10,11,20; all of MACHINE if not given.
    through
        Layers between issuers and device: driver, queue-and-driver (one request queue above it), or
        queue (a request queue over a driver without work).
    depth
        I/Os that each issuing CPU has in flight.
    rate
        I/Os a second of all together, at most; 0 for no limit.
    ios
        I/Os that are counted at each point; as many go before.
    seed
        Seed of all random streams.
    plot
        Write throughput by issuing CPUs as a chart (.html, .svg, .png).
    setting
        Change a value: --set coherence.one_hop_ns=120. May be repeated.
    json
        Print one JSON document.
    """
    found = storage.storage_runs(
        machine,
        policies=_policies(policy),
        issuers=_issuers(issuers),
        through=through,
        depth=depth,
        rate=rate,
        ios=ios,
        seed=seed,
        set=dict(settings(setting)),
    )
    if plot is not None:
        save_chart(found.chart(), plot)
    words = [told(found, name) for name in found.runs["policy"].unique(maintain_order=True)]
    if json:
        print_json(
            "storage.simulate",
            {
                "machine": machine,
                "socket_full_at": found.sockets,
                "answer": words,
                "peaks": found.peaks().to_dicts(),
                "runs": found.runs.to_dicts(),
            },
        )
        return 0
    print_frame(_shown(found))
    for line in words:
        stdout.print(fill(line, 80, subsequent_indent="  "))
    stdout.print("[dim]all modelled, rates in thousands of I/Os a second[/dim]")
    return 0


@app.command
def calibrate(
    *,
    recordings: Annotated[str, Parameter(name="--from")] = "null-blk",
    chip: str = "ev6",
    out: Annotated[Path | None, Parameter(name=("-o", "--out"))] = None,
    json: Json = False,
) -> int:
    """Make a machine whose block layer is a recorded one, and say how well it predicts.

    The recordings are played on a chip: a CPU alone gives the times of stages, two CPUs of one run
    in one memory the lines that travel between them. What two take together is held out: the
    machine predicts it.

    Parameters
    ----------
    recordings
        Prefix of the recordings' names: for each of NAME-one and NAME-many (one queue, and a queue
        for each CPU) there are a CPU beside another, that other (-other), and a CPU alone (-alone).
    chip
        Machine of the world chip that plays them.
    out
        Write the machine here (.toml).
    json
        Print one JSON document.
    """
    from halfwink import block_calibration

    found = block_calibration.calibrate_storage(recordings, chip)
    if out is not None:
        write_whole(out, found.text)
        say(f"machine: {out}")
    if json:
        each = {
            kind: {"alone": asdict(found.alone[kind]), "together": asdict(found.together[kind])}
            for kind in found.alone
        }
        stages = {"stages": each, "predictions": found.predictions.to_dicts()}
        print_json("storage.calibrate", stages)
        return 0
    for kind, alone in found.alone.items():
        both = found.together[kind]
        line = (
            f"{kind} queue{'s' * (kind == 'many')}: alone {alone.us:.2f} us and "
            f"{alone.instructions:,.0f} instructions an I/O; beside another "
            f"{both.instructions:,.0f} instructions, {both.lines:.1f} lines from the other CPU, "
            f"{100 * both.halted:.0f} % of their time halted"
        )
        stdout.print(fill(line, 80, subsequent_indent="  "))
    in_k = (pl.col("played", "predicted") / 1e3).round(1)
    # What the machine was made of it does not predict.
    error = pl.when("held_out").then(pl.col("error_pct").round(1)).alias("error_pct")
    print_frame(found.predictions.select("queues", "cpus", in_k, error))
    stdout.print("[dim]all modelled, rates in thousands of I/Os a second[/dim]")
    return 0


def told(found: storage.StorageRuns, policy: str) -> str:
    """Describes the throughput of a policy as more CPUs issue."""
    curve = found.runs.filter(policy=policy).sort("issuers")
    peak = curve.row(int(curve["iops"].arg_max() or 0), named=True)
    line = (
        f"{policy}: at most {peak['iops'] / 1e3:.0f} k with {peak['issuers']} CPUs issuing, "
        f"{peak['driver_us_per_io']:.1f} us of CPU for an I/O"
    )
    steps = [step for full in found.sockets if (step := _step(curve, full)) is not None]
    drops = [(full, change) for full, change in steps if change <= -_MOVES]
    if drops:
        sockets = ", ".join(f"{full + 1} ({change:+.0f} %)" for full, change in drops)
        line += f"; drops where one CPU of a further socket issues: {sockets}"
    elif steps:
        line += "; no drop where a further socket begins to issue"
    return f"{line}."


def _step(curve: pl.DataFrame, full: int) -> tuple[int, float] | None:
    """Change of throughput from a full socket to one CPU more, in percent."""
    at = dict(curve.select("issuers", "iops").iter_rows())
    if full not in at or full + 1 not in at:
        return None
    return full, 100 * (at[full + 1] / at[full] - 1)


#: Rows that fit on a page; of more only ends of sockets and their neighbours are shown.
_ROWS = 24


def _shown(found: storage.StorageRuns) -> pl.DataFrame:
    wide = found.runs.select("issuers", "policy", (pl.col("iops") / 1e3).round(0)).pivot(
        on="policy", index="issuers", values="iops"
    )
    if wide.height > _ROWS:
        ends = {1, 2} | {n + more for n in found.sockets for more in (-5, 0, 1)}
        wide = wide.filter(pl.col("issuers").is_in(sorted(ends)))
    return wide


def _policies(text: str) -> list[str]:
    if ";" in text:
        return [part for part in text.split(";") if part]
    parts: list[str] = []
    for part in text.split(","):
        # Behind a colon commas separate parameters.
        if "=" in part and ":" not in part and parts:
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def _issuers(text: str) -> list[int]:
    try:
        found: list[int] = []
        for part in filter(None, text.split(",")):
            first, dots, last = part.partition("..")
            found += range(int(first), int(last) + 1) if dots else [int(first)]
    except ValueError:
        raise HalfwinkError(f"--issuers {text}: expected numbers, as 1..80 or 1,10,11") from None
    if text and not found:
        raise HalfwinkError(f"--issuers {text}: expected numbers, as 1..80 or 1,10,11")
    return found
