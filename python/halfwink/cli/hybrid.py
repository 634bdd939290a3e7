"""``halfwink hybrid``: power and delay of a small machine beside a big one, under each policy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter

from halfwink.batch import record
from halfwink.cli.console import draw_chart, print_frame, print_json, say
from halfwink.cli.console import out as stdout
from halfwink.cli.settings import Log, Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.hybrid import LOADS, HybridRun, hybrid_server
from halfwink.jobs import Job, pairs

if TYPE_CHECKING:
    import altair as alt

Flag = Annotated[bool, Parameter(negative="")]

#: Columns of the table, in order.
RUNS = [
    "workload",
    "load",
    "policy",
    "power_w",
    "saved_pct",
    "j_per_request",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "big_share",
    "big_asleep_pct",
    "wakes_per_s",
    "keeps_up",
]
FAULTY = ["refused_pct", "lost_pct"]
#: What a narrow terminal has no room for, first to last.
SPARED = ["j_per_request", "p50_ms", "big_share", "wakes_per_s", "big_asleep_pct", "mean_ms"]
PRECISE = ["power_half_pct", "mean_half_pct", "p99_half_pct"]


def hybrid(
    name: str = "niccolini",
    *,
    workload: str = "count",
    policy: str = "",
    load: Annotated[list[str] | None, Parameter(name="--load")] = None,
    time_column: Annotated[str | None, Parameter(name="--time-column")] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, Parameter(name="--time-unit")
    ] = None,
    ignore: str = "",
    accuracy: float | None = None,
    requests: int | None = None,
    servers: int | None = None,
    dispatch: str = "random",
    slot_s: Annotated[float | None, Parameter(name="--slot-s")] = None,
    proportionality: Flag = False,
    seed: int = 1,
    setting: Setting = None,
    log: Log = None,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Show what a hybrid server draws and delays under each policy.

    Parameters
    ----------
    name
        Name (niccolini), or a TOML file.
    workload
        Workloads, comma-separated: count, readfile, ksort, compress, dns, mail ...; or all.
    policy
        Techniques, comma-separated, with parameters: always-on, hybrid:threshold=8, power-nap ...
        (default: all; `halfwink list techniques --world server` shows them). Savings are against
        the first one shown.
    load
        A load, or several with spaces between them: per cent of what both machines carry (30),
        requests per second (200/s), constant:30, mmpp:10,90,5,1 (two loads, seconds of each),
        log:FILE (logs of servers and proxies, CSV), counts:FILE (requests in each minute),
        gaps:FILE@30 (BigHouse's distributions); @30 after a file: at this mean rate. May be
        repeated.
    time_column
        Of a CSV of requests, the column of times: its name, or its number from 1.
    time_unit
        The unit of times that are numbers.
    ignore
        What is left out although it matters: bad-lines.
    accuracy
        Run until mean delay, 99th percentile and power are known within so many per cent (95 %
        confidence); not with --servers.
    requests
        Largest number of requests of each run (default: 200,000; with --accuracy 20 million; for a
        log all).
    servers
        Number of servers in a fleet; loads are those of all servers.
    dispatch
        Dispatch of requests over the fleet: random, round-robin, least:2 (the emptiest of two
        picked at random), pack:6 (the first server with fewer than six unfinished requests).
    slot_s
        Show each span of so many seconds, too.
    proportionality
        Show how power follows load: dynamic range, linear deviation, proportionality gap.
    seed
        Seed of all random streams.
    setting
        Change a value: --set big.wake_ms=50, --set faults.wake_lost=0.01. May be repeated.
    log
        Event log for `halfwink replay`; of several runs FILE-WHICH beside it, or all in a folder/.
        The runs are played once more for it.
    out
        Folder for runs.parquet, slots.parquet and chart.html.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if accuracy is not None and not 0.05 <= accuracy <= 50:
        raise HalfwinkError(f"--accuracy {accuracy}: expected 0.05 to 50 per cent")
    if requests is not None and not 1000 <= requests <= 10**11:
        raise HalfwinkError(f"--requests {requests}: expected 1000 to 100000000000")
    if servers is not None and not 1 <= servers <= 1_000_000:
        raise HalfwinkError(f"--servers {servers}: expected 1 to 1000000")
    if slot_s is not None and not 1e-3 <= slot_s <= 1e7:
        raise HalfwinkError(f"--slot-s {slot_s}: expected 0.001 to 10000000")
    reading = _reading(time_column, time_unit, ignore)
    loads = [_read_by(part, reading) for text in load or LOADS for part in _parts(text)]
    found = hybrid_server(
        name,
        workloads=[] if workload == "all" else workload.split(","),
        policies=split_techniques(policy) or [],
        loads=loads,
        accuracy_pct=accuracy,
        requests=requests,
        servers=servers,
        dispatch=dispatch,
        slot_s=slot_s,
        seed=seed,
        set=dict(settings(setting)),
    )
    if log is not None:
        options: dict[str, Any] = {
            "requests": requests,
            "servers": servers,
            "dispatch": dispatch,
            "seed": seed,
        }
        if accuracy is not None:
            options["accuracy"] = accuracy / 100
        record(_jobs(found, name, loads, settings(setting), options), log)
    if out is not None:
        _keep(out, found)
        say(f"chart: {out / 'chart.html'}", quiet=quiet)
    curves = found.proportionality() if proportionality else pl.DataFrame()
    if json:
        document = {"runs": found.runs.to_dicts(), "slots": found.slots.to_dicts()}
        if proportionality:
            document["proportionality"] = curves.to_dicts()
        print_json("hybrid", document)
        return 0
    faulty = found.runs["lost_pct"].sum() > 0
    columns = [*RUNS, *(FAULTY if faulty else []), *(PRECISE if accuracy is not None else [])]
    print_frame(found.runs.select(columns), spared=SPARED)
    if slot_s is not None:
        print_frame(found.slots)
    if proportionality:
        print_frame(curves)
    _tell(found.runs, accuracy, quiet)
    return 0


#: Loads that are files.
_FILES = ("log:", "counts:", "gaps:")
#: The same with what is said about the file; its name, with and without a rate behind it.
_FILE = re.compile(r"(?:log|counts|gaps):(?:[a-z-]+=[^:]*:)*((.*?)(?:@[^@]*)?)$")


def _parts(text: str) -> list[str]:
    """Loads with spaces between them; a file's name may have spaces, too."""
    found = _FILE.match(text)
    if found and any(Path(name).expanduser().exists() for name in found.groups() if name):
        return [text]
    return text.split()


def _reading(column: str | None, unit: str | None, ignore: str) -> str:
    """How to read a file, as loads have it before the file's name.

    Raises:
        HalfwinkError: something to ignore that there is not.
    """
    words = [word for word in ignore.split(",") if word]
    if unknown := [word for word in words if word != "bad-lines"]:
        raise HalfwinkError(f"--ignore {unknown[0]}: expected bad-lines")
    options = {"time-unit": unit, "time-column": column, "ignore": "bad-lines" if words else None}
    return "".join(f"{name}={value}:" for name, value in options.items() if value)


def _read_by(load: str, reading: str) -> str:
    kind, colon, file = load.partition(":")
    if not reading or f"{kind}:" not in _FILES:
        return load
    return f"{kind}{colon}{reading}{file}"


def _jobs(
    found: HybridRun,
    name: str,
    loads: list[str],
    values: list[tuple[str, str]],
    options: dict[str, Any],
) -> list[Job]:
    """The runs of a question, as jobs."""
    ran = found.runs.select("workload", "policy").unique(maintain_order=True).rows()
    given = pairs((key, value) for key, value in options.items() if value is not None)
    return [
        Job("server", f"{workload}@{load}", name, policy, pairs(values), given)
        for load in loads
        for workload, policy in ran
    ]


def _tell(runs: pl.DataFrame, accuracy: float | None, quiet: bool) -> None:
    stdout.print("all watts and times are modelled; saved: against the first policy shown")
    if accuracy is not None:
        # Fleets and recorded loads have no intervals; without requests there is nothing to know.
        said = pl.col("known").fill_null(0) == 1
        asked = (pl.col("keeps_up") == 1) & (pl.col("load_pct") > 0)
        unknown = runs.filter(asked & ~said).height
        text = f"95 % confidence intervals within {accuracy:g} % of each value"
        stdout.print(text if not unknown else f"{text}, but for {unknown} runs: see *_half_pct")
    late = runs.filter(keeps_up=0).height
    if late:
        stdout.print(f"{late} runs do not keep up with their load: their delays grow for ever")
    for row in runs.filter(pl.col("read_as") != "").unique("load").iter_rows(named=True):
        say(f"{row['load']}: {row['read_as']}", quiet=quiet)
    for row in (
        runs.filter(pl.col("bad_lines") > 0, pl.col("read_as") == "")
        .unique("load")
        .iter_rows(named=True)
    ):
        say(f"{row['load']}: {row['bad_lines']} bad lines left out; {row['bad_line']}", quiet=quiet)


def _keep(folder: Path, found: HybridRun) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found.runs.write_parquet(folder / "runs.parquet")
    found.slots.write_parquet(folder / "slots.parquet")
    draw_chart(chart(found), folder / "chart.html")


def chart(found: HybridRun) -> alt.HConcatChart:
    """Power and 99th percentile against load, or against time where there are slots."""
    # Drawing costs a second of imports, which most commands need not wait for.
    import altair as alt

    alt.data_transformers.disable_max_rows()
    timed = not found.slots.is_empty()
    data = found.slots if timed else found.runs.filter(keeps_up=1)
    x = alt.X("start_s:Q", title="seconds") if timed else alt.X("load_pct:Q", title="load (%)")

    def panel(column: str, title: str, scale: alt.Scale) -> alt.Chart:
        return (
            alt.Chart(data)
            .mark_line(point=not timed, interpolate="step-after" if timed else "linear")
            .encode(x=x, y=alt.Y(f"{column}:Q", title=title, scale=scale), color="policy:N")
            .properties(width=420, height=320)
        )

    power = panel("power_w", "watts, modelled", alt.Scale(zero=True))
    delay = panel("p99_ms", "99th percentile of the delay (ms)", alt.Scale(type="log"))
    return alt.hconcat(power, delay, title="hybrid server: watts and times are modelled")
