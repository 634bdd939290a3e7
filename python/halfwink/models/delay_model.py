"""The delay of a request by its size and by how many are in service (Niccolini 2012, Eq 3.1).

delay = alpha + beta[N] * size^gamma, with gamma = 1 in the model. 1 kB is 1000 bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Bytes and seconds of requests, by how many were in service at once.
Points = Mapping[int, Sequence[tuple[float, float]]]
#: The same with a weight in the fit, and how many requests it stands for.
Weighted = Mapping[int, Sequence[tuple[float, float, float, int]]]

#: Where the free exponent is looked for.
GAMMA = (0.2, 2.5)
#: Bins of sizes for a factor of two, and requests in one at least.
BINS_PER_OCTAVE = 2
LEAST_IN_BIN = 15
BYTES_PER_KB = 1000.0


class Bin(NamedTuple):
    """Requests of like size, with so many in service: how many, their median size and delay."""

    n: int
    requests: int
    size_bytes: float
    seconds: float


@dataclass(frozen=True)
class Fit:
    """One fit: ``alpha_s``, ``beta_s_per_kb[N - 1]`` (per kB to the ``gamma``), how far off it is.

    ``rms_s`` is the root of the mean squared residual, ``relative_rms`` that of residuals over
    fitted delays, over all requests (of medians, as many as each stands for).
    """

    alpha_s: float
    beta_s_per_kb: tuple[float, ...]
    gamma: float
    rms_s: float
    relative_rms: float

    def delay_s(self, size: float, n: int) -> float:
        """Delay of a file of ``size`` bytes with ``n`` requests in service."""
        return self.alpha_s + self.beta_s_per_kb[n - 1] * (size / BYTES_PER_KB) ** self.gamma

    def to_dict(self) -> dict[str, Any]:
        """Returns the fit as a JSON document."""
        return {
            "alpha_s": self.alpha_s,
            "beta_s_per_kb": list(self.beta_s_per_kb),
            "gamma": self.gamma,
            "rms_s": self.rms_s,
            "relative_rms": self.relative_rms,
        }


@dataclass(frozen=True)
class PoolFit:
    """Fits of one pool: on medians by size (the model), on all requests by least squares, and both
    with a free exponent."""

    medians: Fit
    medians_free: Fit
    plain: Fit
    plain_free: Fit
    requests: int
    #: Rows of N, requests, median bytes, median seconds, fitted seconds.
    bins: tuple[tuple[int, int, float, float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the fits as a JSON document."""
        names = ("n", "requests", "bytes", "seconds", "fitted_s")
        return {
            "medians": self.medians.to_dict(),
            "medians_free": self.medians_free.to_dict(),
            "plain": self.plain.to_dict(),
            "plain_free": self.plain_free.to_dict(),
            "requests": self.requests,
            "bins": [dict(zip(names, row, strict=True)) for row in self.bins],
        }


@dataclass(frozen=True)
class Calibration:
    """Fits of pools by name, for one workload."""

    workload: str
    pools: Mapping[str, PoolFit]

    def to_dict(self) -> dict[str, Any]:
        """Returns the model as a JSON document."""
        pools = {name: fit.to_dict() for name, fit in self.pools.items()}
        return {"workload": self.workload, "pools": pools}

    def toml(self, *, plain: bool = False) -> str:
        """A fragment of a machine's description; of the plain fit if that is wanted."""
        lines = [
            "# Measured by `halfwink live calibrate`: a request takes",
            "# alpha_ms + beta_ms[N - 1] * kB, 1 kB = 1000 bytes, N in service with it.",
        ]
        for name, pool in self.pools.items():
            fit = pool.plain if plain else pool.medians
            free = pool.plain_free if plain else pool.medians_free
            betas = ", ".join(f"{beta * 1e3:.9g}" for beta in fit.beta_s_per_kb)
            lines += [
                "",
                f"# Fitted on {'all requests' if plain else 'medians by size'}, "
                f"{pool.requests} requests; relative residual {fit.relative_rms:.3g}; "
                f"with a free exponent gamma = {free.gamma:.4g}.",
                f"[workloads.{self.workload}.{name}]",
                f"alpha_ms = {fit.alpha_s * 1e3:.9g}",
                f"beta_ms = [{betas}]",
            ]
        return "\n".join(lines) + "\n"


def fit_pool(points: Points) -> PoolFit:
    """All fits of one pool.

    Args:
        points: bytes and seconds of requests for N = 1, 2, ... without gaps.

    Raises:
        ValueError: an N has too few requests, or all of one size.
    """
    if list(points) != list(range(1, len(points) + 1)) or not points:
        raise ValueError("expected requests for N = 1, 2, ... without gaps")
    if any(len(rows) < 2 or len({size for size, _ in rows}) < 2 for rows in points.values()):
        raise ValueError("expected requests of two sizes or more for each N")
    whole = {n: [(size, s, 1.0, 1) for size, s in rows] for n, rows in points.items()}
    binned = {n: medians(rows) for n, rows in points.items()}
    rows = [Bin(n, k, size, s) for n, part in binned.items() for size, s, k in part]
    model = fit_bins(rows)
    bins = tuple(
        (row.n, row.requests, row.size_bytes, row.seconds, model.delay_s(row.size_bytes, row.n))
        for row in rows
    )
    return PoolFit(
        medians=model,
        medians_free=fit_bins(rows, free=True),
        plain=fit(whole),
        plain_free=fit_free(whole),
        requests=sum(len(rows) for rows in points.values()),
        bins=bins,
    )


def fit_bins(rows: Sequence[Bin], *, free: bool = False) -> Fit:
    """The model, from medians of size and delay of requests of like size.

    Args:
        rows: rows for N = 1, 2, ... without gaps.
        free: fit the exponent of size, too.
    """
    weighted: dict[int, list[tuple[float, float, float, int]]] = {}
    for n, count, size, seconds in rows:
        # A median of k requests is off by its own size over the root of k.
        weight = count / max(seconds, 1e-9) ** 2
        weighted.setdefault(n, []).append((size, seconds, weight, count))
    return fit_free(weighted) if free else fit(weighted)


def medians(rows: Sequence[tuple[float, float]]) -> list[tuple[float, float, int]]:
    """Medians of bytes and of seconds, and how many, of requests of like size."""
    ordered = sorted(rows)
    found: list[tuple[float, float, int]] = []
    start = 0
    for end in range(1, len(ordered) + 1):
        count, wide = (
            end - start,
            ordered[end - 1][0] > ordered[start][0] * 2 ** (1 / BINS_PER_OCTAVE),
        )
        left = len(ordered) - end
        last = left == 0
        if last or (wide and count >= LEAST_IN_BIN and left >= LEAST_IN_BIN):
            part = ordered[start:end]
            size = statistics.median(size for size, _ in part)
            found.append((size, statistics.median(s for _, s in part), count))
            start = end
    return found


def fit(points: Weighted, gamma: float = 1.0) -> Fit:
    """Weighted least squares: one intercept, a slope for each N. Intercepts below 0 are 0."""
    alpha, betas = _solve(points, gamma)
    square = relative = 0.0
    count = 0
    for fitted, seconds, _, k in _fitted(points, gamma, alpha, betas):
        square += k * (seconds - fitted) ** 2
        relative += k * ((seconds - fitted) / fitted) ** 2 if fitted > 0.0 else 0.0
        count += k
    return Fit(alpha, betas, gamma, (square / count) ** 0.5, (relative / count) ** 0.5)


def fit_free(points: Weighted) -> Fit:
    """Fits with the exponent that leaves the smallest residue."""

    def over(gamma: float) -> float:
        rows = _fitted(points, gamma, *_solve(points, gamma))
        return sum(weight * (seconds - fitted) ** 2 for fitted, seconds, weight, _ in rows)

    return fit(points, _least(over, *GAMMA))


def _solve(points: Weighted, gamma: float) -> tuple[float, tuple[float, ...]]:
    sums: list[tuple[float, float, float, float, float]] = []
    for rows in points.values():
        w = x = xx = y = xy = 0.0
        for size, seconds, weight, _ in rows:
            value = (size / BYTES_PER_KB) ** gamma
            w += weight
            x += weight * value
            xx += weight * value * value
            y += weight * seconds
            xy += weight * value * seconds
        sums.append((w, x, xx, y, xy))
    # Each slope follows from the intercept; what is left is one equation.
    above = sum(y - x * xy / xx for _, x, xx, y, xy in sums)
    below = sum(w - x * x / xx for w, x, xx, _, _ in sums)
    alpha = max(above / below, 0.0) if below > 0.0 else 0.0
    return alpha, tuple((xy - alpha * x) / xx for _, x, xx, _, xy in sums)


def _fitted(
    points: Weighted, gamma: float, alpha: float, betas: Sequence[float]
) -> Iterator[tuple[float, float, float, int]]:
    """Fitted and measured seconds, weight, count."""
    for beta, rows in zip(betas, points.values(), strict=True):
        for size, seconds, weight, count in rows:
            yield alpha + beta * (size / BYTES_PER_KB) ** gamma, seconds, weight, count


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Returns the minimum of a unimodal function, by golden sections."""
    golden = (5**0.5 - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = f(a), f(b)
    while high - low > 1e-4:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = f(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = f(b)
    return (low + high) / 2
