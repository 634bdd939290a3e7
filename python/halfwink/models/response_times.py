"""Response times, as logs and command lines have them."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text

UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
#: A column of response times in a log.
TIMES = re.compile(r"(response|request|service|upstream)_?(response_)?time|duration|latency", re.I)
#: Time of the machine in a line of the steering proxy's access log, of either form.
STEERED = re.compile(
    r'^\{"time":.*"machine":"(?:small|big)","outcome":"answered",.*"machine_s":([0-9.]+),'
    r'|^[^ ]+ - - \[.*" (?:small|big) answered [0-9.]+ ([0-9.]+) [0-9.]+$',
    re.MULTILINE,
)


def read_times(file: Path, unit: str | None = None) -> list[float]:
    """Response times of a log, in microseconds: a CSV whose head names them (``response_time_ms``,
    ``duration_us``), or one number a line. Of an access log of ``halfwink live steer`` the times of
    the machines, of requests that were answered.

    Raises:
        HalfwinkError: there are none, or of no known unit.
    """
    text = read_text(file)
    served = [float(a or b) * UNITS_US["s"] for a, b in STEERED.findall(text)]
    if served:
        return served
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise HalfwinkError(f"{file}: {error}, expected a CSV or a number a line") from None
    head = rows[0] if rows else []
    column = next((n for n, cell in enumerate(head) if TIMES.search(cell)), None)
    if column is not None:
        ending = head[column].rsplit("_", 1)[-1].lower()
        unit = unit or (ending if ending in UNITS_US else None)
        cells = [(n, row[column]) for n, row in enumerate(rows[1:], 2) if len(row) > column]
    else:
        cells = [(n, row[0]) for n, row in enumerate(rows, 1) if row]
    if unit not in UNITS_US:
        raise HalfwinkError(
            f"{file}: expected a column such as duration_us or latency_s, or --unit us, ms or s"
        )
    times: list[float] = []
    for line, text in cells:
        try:
            value = float(text)
        except ValueError:
            raise HalfwinkError(f"{file}:{line}: `{text}`, expected a time") from None
        if not math.isfinite(value) or value < 0:
            raise HalfwinkError(f"{file}:{line}: `{text}`, expected a time from 0 on")
        times.append(value * UNITS_US[unit])
    if not times:
        raise HalfwinkError(f"{file}: no response times")
    return times


def time_us(text: str) -> float:
    """``200us``, ``1.5ms``, ``2s`` in microseconds.

    Raises:
        HalfwinkError: the text is none of these.
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(ns|us|ms|s)\s*", text)
    try:
        value = float(found[1]) * UNITS_US[found[2]] if found else math.nan
    except ValueError:
        value = math.nan
    if not value > 0 or not math.isfinite(value):
        raise HalfwinkError(f"`{text}`: expected a time above 0 with its unit, as 200us or 1.5ms")
    return value
