"""Due times of a load's requests: at random, evenly, along a profile, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from halfwink.bed import traffic
from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.live import native

#: Arrivals without a file: at random, evenly, or at random along a profile of rates.
ARRIVALS = ("poisson", "constant", *traffic.PROFILES)


def arrival_times(
    arrivals: str, rate: float | None, seconds: float, *, seed: int = 1
) -> dict[str, Any]:
    """Returns the due times of requests, as the native load takes them.

    A file has a time in seconds on each line, or ``SECONDS,RATE`` with rates per second that change
    in lines between points (arrivals are then random), or is the log of another load.

    Raises:
        HalfwinkError: a rate is missing, or a line of the file is not understood.
    """
    if arrivals in ("poisson", "constant"):
        if rate is None:
            raise HalfwinkError(f"arrivals {arrivals}: expected a rate")
        return {"segments": [(seconds, rate, rate)], "random": arrivals == "poisson"}
    if arrivals in traffic.PROFILES:
        if rate is None:
            raise HalfwinkError(f"arrivals {arrivals}: expected the rate of its peak")
        return {"segments": traffic.profile(arrivals, seconds, rate, seed=seed), "random": True}
    path = Path(arrivals).expanduser()
    if arrivals != "-" and not path.exists():
        raise HalfwinkError(f"arrivals {arrivals}: expected {', '.join(ARRIVALS)} or a file")
    text = read_text(path)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and lines[0].startswith("at_s"):
        return {"times": _times(path, [line.split(",")[0] for line in lines], first=1)}
    if lines and "," not in lines[-1]:
        return {"times": _times(path, lines, first=0)}
    try:
        peak = max((max(line[1:]) for line in native.traffic_rates(text)), default=0.0)
        scale = 1.0 if rate is None else rate / max(peak, 1e-9)
        return {"segments": native.traffic_rates(text, scale=scale), "random": True}
    except HalfwinkError as error:
        raise HalfwinkError(f"{path}: {error}") from None


def _times(path: Path, words: Sequence[str], *, first: int) -> list[float]:
    times: list[float] = []
    for word in words[first:]:
        try:
            times.append(float(word))
        except ValueError:
            raise HalfwinkError(f"{path}: `{word}`: expected a time in seconds") from None
    return times
