"""``halfwink verify``: a prediction of an advice, and this machine measured."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.advice import verification
from halfwink.cli.commands import Json, Quiet
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_sentences, print_table, print_tables, say
from halfwink.results.summary import fixed


def verify(
    prediction: Path,
    *,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    seconds: float = 60.0,
    latencies: Path | None = None,
    rate: float | None = None,
    server_w: Annotated[float | None, Parameter(name="--server-w")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure this machine, and lay the prediction of an advice beside it.

    It reads the energy counters of the processors and the counters of cpuidle before and after.
    Of both, whatever runs on the machine counts.

    Parameters
    ----------
    prediction
        File that `halfwink advise --commit FILE` wrote.
    technique
        Technique that the machine runs now: the advised composition (default), or menu.
    seconds
        Length of the measurement, in seconds.
    latencies
        Response times of requests in that time: CSV with a column such as latency_s, as `halfwink
        live load --log` writes it.
    rate
        Requests per second in that time. Default: of --latencies, if it has times (at_s).
    server_w
        Mean watts in that time of a meter that you read yourself.
    json
        Print one JSON document.
    quiet
        No messages.
    """

    def wait(seconds: float) -> None:
        say(f"measuring for {seconds:g} s; Ctrl-C ends it with what there is", quiet=quiet)
        with suppress(KeyboardInterrupt):
            time.sleep(seconds)

    found = verification.verify(
        prediction,
        technique=technique,
        seconds=seconds,
        latencies=latencies,
        rate=rate,
        server_w=server_w,
        wait=wait,
    )
    if json:
        print_tables("verify", {"quantities": found.rows}, _facts(found), found.sentences)
        return 0
    print_sentences(found.sentences)
    stdout.print()
    rows = [
        [
            row["what"],
            fixed(row["predicted"]),
            "-" if row["low"] is None else f"{fixed(row['low'])} to {fixed(row['high'])}",
            fixed(row["measured"]),
            row["unit"],
            fixed(row["off_pct"], 1),
            row["verdict"],
        ]
        for row in found.rows
    ]
    sides = ("left", "right", "right", "right", "left", "right", "left")
    headings = ("what", "predicted", "range", "measured", "unit", "off %", "verdict")
    print_table(list(zip(headings, sides, strict=True)), rows)
    return 0


def _facts(found: verification.Verification) -> dict[str, Any]:
    told = found.prediction
    return {
        "made_at": told["made_at"],
        "sha256": told["sha256"],
        "workload": told["workload"],
        "machine": told["machine"],
        "technique": found.technique,
        "seconds": found.seconds,
        "predicted_per_s": told["per_s"],
        "measured_per_s": found.per_s,
        "missing": found.missing,
        "notes": found.notes,
        "cpus": found.cpus,
        "predicted_cores": told["cores"],
    }
