"""``halfwink live preheat``: warm caches for the next request of an unmodified server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from halfwink.cli.console import complain, print_json, print_table, print_tables, say
from halfwink.errors import HalfwinkError
from halfwink.live import native
from halfwink.live import preheat as preheating
from halfwink.live.served import Served, described

#: The program that loads lines.
PROGRAM = "halfwink-preheat"

app = App(
    name="preheat",
    help="Warm caches for the next request of an unmodified server.",
    help_on_error=False,
)

Flag = Annotated[bool, Parameter(negative="")]


@app.default
def self_test(
    *,
    server: str = "nginx",
    self_test: Annotated[bool, Parameter(name="--self-test", negative="")] = False,
    n: Annotated[int, Parameter(name=["-n", "--rounds"])] = 400,
    deadline: Flag = False,
    beside: Flag = False,
    cold: Annotated[str | None, Parameter(name="--cold")] = None,
    set_out: Annotated[Path | None, Parameter(name="--set-out")] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Measure what preheating is worth for a server that is started for it.

    Requests with warm, cold and preheated caches, and after a sham request, in turn; the server on
    one CPU, the client on another, both before everything else for some seconds.

    Parameters
    ----------
    server
        nginx, memcached or postgres.
    self_test
        Do so: without, this command only says what it would do.
    n
        Requests of each class, for each kind of cold.
    deadline
        Also with leads of 0 to 500 us.
    beside
        Also a server without the preload library, warm and never announced.
    cold
        One kind only: L2-cold, "DRAM-cold (user lines)", "LLC-cold (streamed)".
    set_out
        File for the set of lines, for `halfwink live preheat run`.
    json
        Print one JSON document.
    """
    if not self_test:
        raise HalfwinkError("expected --self-test, or `halfwink live preheat run`")
    if not 20 <= n <= 100_000:
        raise HalfwinkError(f"-n {n}: expected 20 to 100000")
    if cold is not None and cold not in native.PREHEAT_COLD:
        known = ", ".join(native.PREHEAT_COLD)
        raise HalfwinkError(f"--cold {cold}: expected one of {known}")
    found = preheating.self_test(
        server,
        rounds=n,
        cold=None if cold is None else [cold],
        deadline=deadline,
        beside=beside,
        set_out=set_out,
    )
    if json:
        print_tables("live preheat self-test", *_by_class(found, "cold"))
    else:
        _show(found)


def _by_class(found: dict[str, Any], by: str) -> tuple[dict[str, list[dict[str, Any]]], Any]:
    """Returns the tables of a measurement, tests and classes of requests, by a column; and its
    single values."""
    facts = {name: value for name, value in found.items() if name != "tables"}
    tests = [{by: table[by], **table} for table in found["tables"]]
    classes = [{by: test[by], **row} for test in tests for row in test.pop("classes")]
    return {"tests": tests, "classes": classes}, facts


@app.command
def pages(
    *,
    server: str = "memcached",
    self_test: Annotated[bool, Parameter(name="--self-test", negative="")] = False,
    n: Annotated[int, Parameter(name=["-n", "--rounds"])] = 200,
    drop: Annotated[str | None, Parameter(name="--drop")] = None,
    set_out: Annotated[Path | None, Parameter(name="--set-out")] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Measure what putting pages back is worth for a server that stood still (after REAP).

    A server that is started for it is stopped, its pages are dropped, and it goes on. Requests to
    it warm, then, dropped, with the recorded pages put back as they arrive or when they are
    announced, and after a sham request, in turn.

    Parameters
    ----------
    server
        nginx, memcached or postgres.
    self_test
        Do so: without, this command only says what it would do.
    n
        Requests of each class, for each kind of drop.
    drop
        One kind only: unmapped, "own memory on disk".
    set_out
        File for the set of pages.
    json
        Print one JSON document.
    """
    if not self_test:
        raise HalfwinkError("expected --self-test: pages of other servers are left alone")
    if not 20 <= n <= 100_000:
        raise HalfwinkError(f"-n {n}: expected 20 to 100000")
    if drop is not None and drop not in native.PREHEAT_DROPS:
        known = ", ".join(native.PREHEAT_DROPS)
        raise HalfwinkError(f"--drop {drop}: expected one of {known}")
    drops = None if drop is None else [drop]
    found = preheating.pages_self_test(server, rounds=n, drops=drops, set_out=set_out)
    if json:
        print_tables("live preheat pages", *_by_class(found, "kind"))
        return
    recorded = found["recorded"]
    dropped = recorded["dropped"]
    say(f"dropped: {dropped['memory']:,} pages of its own, {dropped['files']:,} of files")
    say(
        f"recorded: {recorded['read']:,} read, {recorded['written']:,} written, "
        f"{recorded['files']:,} of files"
    )
    for table in found["tables"]:
        say(f"{found['server']}, {table['kind']}, {found['lead_us']:.0f} us ahead")
        _show_pages(table)


def _show_pages(table: dict[str, Any]) -> None:
    rows = []
    for row in table["classes"]:
        cells = [f"{row[q]['value']:.1f}" for q in ("p50", "p90", "p99")]
        interval = f"{row['p50']['low']:.1f} to {row['p50']['high']:.1f}"
        counts = [f"{row[name]:.1f}" for name in ("minor_faults", "major_faults")]
        rows.append([row["class"], cells[0], interval, *cells[1:], *counts])
    heads = ["p50 us", "95 %", "p90 us", "p99 us", "minor", "major"]
    print_table([("pages", "left"), *((head, "right") for head in heads)], rows)
    say(
        f"removed of the penalty: at the request {table['removed_by_replay']:.0%}, "
        f"ahead {table['removed_ahead']:.0%}, sham request {table['removed_by_sham']:.0%}"
    )
    tests = (
        ("stopped < dropped", "p_stopped_dropped"),
        ("replayed < dropped", "p_replayed_dropped"),
        ("ahead < dropped", "p_ahead_dropped"),
        ("sham < ahead", "p_sham_ahead"),
    )
    say("sign tests, p:")
    for words, name in tests:
        say(f"  {words} {table[name]:.0e}")


@app.command
def run(
    *,
    port: int,
    set: Annotated[Path, Parameter(name="--set")],
    shared: Path,
    key: Path,
    listen: str = "127.0.0.1:9476",
    cpu: int | None = None,
    syn_us: Annotated[float | None, Parameter(name="--syn-us")] = None,
    every_ms: Annotated[float | None, Parameter(name="--every-ms")] = None,
    awake: Flag = False,
    log: Path | None = None,
    metrics: str | None = None,
    seconds: float | None = None,
) -> None:
    """Load a set before each announced request, until it is ended.

    A server reports in the file --shared, which this command makes, if it is started with
    LD_PRELOAD and HALFWINK_PREHEAT as this command says. SIGHUP reads the set again.

    Parameters
    ----------
    port
        Port of the service.
    set
        Lines to load, from `halfwink live preheat --set-out`.
    shared
        File in which servers report; made if it does not exist.
    key
        File of 16 bytes, a secret shared with the announcers.
    listen
        Address for announcements (UDP).
    cpu
        CPU of the server (default: the first that is allowed).
    syn_us
        Take a handshake for an announcement of a request that follows after this time.
    every_ms
        Load at this interval, announced or not.
    awake
        Spin instead of sleeping, to begin some microseconds earlier.
    log
        Event log for `halfwink replay`. A thread that writes it wakes 50 times a second.
    metrics
        HOST:PORT at which to serve OpenMetrics.
    seconds
        Length of the run in seconds (default: until a signal).
    """
    settings = {
        "port": port,
        "set": set,
        "shared": shared,
        "key": key,
        "listen": listen,
        "cpu": cpu,
        "syn_us": syn_us,
        "every_ms": every_ms,
        "awake": awake,
    }
    with Served(
        PROGRAM,
        described(settings),
        log=log,
        metrics=metrics,
        seconds=seconds,
        forwards=True,
        tell=complain,
    ) as serving:
        say(f"hears announcements at {serving.address}; start the server with")
        for name, value in preheating.environment(shared.absolute()).items():
            say(f"  {name}={value}")
        found = serving.wait()
    print_json("live.preheat.daemon", found)


def _show(found: dict[str, Any]) -> None:
    for table in found["tables"]:
        say(f"{found['server']}, {table['cold']}, {found['lead_us']:.0f} us ahead")
        _show_table(table)
    if "deadline" in found:
        rows = []
        for table in found["deadline"]:
            p50 = {row["class"]: row["p50"]["value"] for row in table["classes"]}
            removed = f"{table['removed_by_preheat']:.0%}"
            rows.append([f"{table['lead_us']:.0f}", *(f"{v:.1f}" for v in p50.values()), removed])
        heads = ["lead us", "warm", "cold", "preheated", "sham", "removed"]
        print_table([(head, "right") for head in heads], rows)
    rates, first = found["rates_ns_per_line"], found["announcement_to_first_load_us"]
    lines = {kind["name"]: kind["kept"] for kind in found["learned"]["kinds"]}
    say(
        f"set: {lines.get('kernel', 0):,} lines of the kernel, {lines.get('files', 0):,} of files, "
        f"{lines.get('memory', 0):,} of memory"
    )
    say(
        f"ns a line: kernel {rates['kernel_warm']:.1f} warm, {rates['kernel_cold']:.1f} L2-cold; "
        f"user {rates['user']:.1f}, a loop {rates['best_prefetch']:.1f}"
    )
    say(f"announcement to first load: {first['p50']['value']:.1f} us in the median")
    if "beside" in found:
        _show_beside(found["beside"])


def _show_beside(beside: dict[str, Any]) -> None:
    said = {
        kind: f"{beside[kind]['median'] - 1:+.2%} ({beside[kind]['low'] - 1:+.2%} to "
        f"{beside[kind]['high'] - 1:+.2%})"
        for kind in ("library", "none")
    }
    say(f"preload library, warm, {beside['starts']} starts: {said['library']}")
    say(f"two servers without it: {said['none']}; {beside['wakes']} wake-ups")


def _show_table(table: dict[str, Any]) -> None:
    rows = []
    for row in table["classes"]:
        cells = [f"{row[q]['value']:.1f}" for q in ("p50", "p90", "p99")]
        interval = f"{row['p50']['low']:.1f} to {row['p50']['high']:.1f}"
        rows.append([row["class"], cells[0], interval, *cells[1:]])
    heads = ["p50 us", "95 %", "p90 us", "p99 us"]
    print_table([("caches", "left"), *((head, "right") for head in heads)], rows)
    say(
        f"removed of the penalty: preheating {table['removed_by_preheat']:.0%}, "
        f"sham request {table['removed_by_sham']:.0%}"
    )
    say(
        f"sign tests, p: warm < preheated {table['p_warm_preheated']:.0e}, "
        f"preheated < cold {table['p_preheated_cold']:.0e}, "
        f"sham < preheated {table['p_sham_preheated']:.0e}"
    )
