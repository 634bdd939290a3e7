"""Costs of a request of a service on a core: a profile that the node plays.

found = hw.profile("nginx-1pct", core="golden-cove")  # from a recording
found.write("nginx.toml")  # halfwink compare ./nginx.toml -w node --load 10,30%
halfwink.models.stated_profile("mine", mean_us=200, cv=1.5)  # without one
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.jobs import is_own, technique_list
from halfwink.library import library, root, trace_file
from halfwink.models.preheat import simulate
from halfwink.models.service import cumulative
from halfwink.results.results import Results
from halfwink.runs.comparison import BASELINE, NODE, WORLD, compare

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: With more requests under way in the mean than this, latencies hold waits for others.
ALONE = 0.2
#: Contents that sleeps lose, one depth after the other.
DEPTHS = (("l1i", "l1d"), ("l1i", "l1d", "l2"), ("l1i", "l1d", "l2", "branch"))
#: Techniques that work within a request, of which a profile says what one costs under them: gating
#: in stalls, frequency, divided caches, the second alone and with the first, kernel code moved.
WITHIN = (
    *("tap", "mapg-counter", "dvfs-mean", "tap+dvfs-mean", "way-partition", "bank-partition"),
    *("os-static", "os-enough-work", "os-offload"),
)
#: Requests that are preheated to see what that takes off.
PREHEATED = 40
#: Core of a profile that comes from no recording.
ANY = "any"
#: Stands for no technique.
NONE = "none"
#: Points that a law of measured times keeps.
POINTS = 41
#: Half of the 95 % interval of a mean, in per cent, that is good enough.
GOOD_PCT = 5.0


@dataclass(frozen=True)
class Moved:
    """Kernel code of a request that runs on cores of the kernel.

    Attributes:
        visits: visits of a request to them, in the mean.
        visit_us: time that such a core is busy with a visit, its half of both moves included.
        power: power of that core meanwhile, as a share of a busy core's without the technique.
    """

    visits: float
    visit_us: float
    power: float


@dataclass(frozen=True)
class Variant:
    """Costs of a request under a technique that works within it, as shares of its costs without.

    Attributes:
        technique: name, or names joined by `+` of techniques that the chip played in one run.
        time: time that a core is busy.
        power: power of the core while it is.
        shared: energy of accesses to what cores share.
        moved: kernel code that runs elsewhere, if some has moved; ``time`` and ``power`` are
            without it.
    """

    technique: str
    time: float
    power: float
    shared: float
    moved: Moved | None = None


@dataclass(frozen=True)
class Cold:
    """Delay by a sleep that loses contents, of the request that wakes a core.

    Attributes:
        loses: names of the contents.
        extra_us: time added, in microseconds.
        preheated_us: the rest of it once the lines that requests use were loaded; none if it is
            not known.
        load_us: time that loading them takes.
    """

    loses: tuple[str, ...]
    extra_us: float
    preheated_us: float | None = None
    load_us: float | None = None


@dataclass(frozen=True)
class RequestProfile:
    """A service on a kind of core. Times and watts are modelled unless ``core`` is ``any``.

    Attributes:
        workload: name of the service.
        core: machine file of the core; ``any`` if no recording was played.
        made_by: command that makes it.
        requests: requests that it rests on; 0 if it was stated.
        law: distribution of the time that a core is busy with a request, in microseconds, as TOML
            has it.
        mean_us: mean of that law.
        user_share: share of that time in user code; none if it is not known.
        apart_us: time of a request in which no core works for it.
        cold: delays by lost contents of the request that wakes a core.
        busy_w: core with its private caches while busy; none if it is not known.
        full_w: the same core at two instructions a cycle, in the same model.
        shared_uj: accesses of a request to what cores share.
        variants: costs of a request under techniques that work within it.
        half_pct: half of the 95 % interval of the mean, in per cent; none if it is not known.
        notes: lines for the head of the file.
    """

    workload: str
    core: str
    made_by: str
    law: str
    mean_us: float
    requests: int = 0
    user_share: float | None = None
    apart_us: float = 0.0
    cold: tuple[Cold, ...] = ()
    busy_w: float | None = None
    full_w: float | None = None
    shared_uj: float = 0.0
    variants: tuple[Variant, ...] = ()
    half_pct: float | None = None
    notes: tuple[str, ...] = ()

    def toml(self) -> str:
        """The file that ``halfwink compare FILE -w node`` reads."""
        lines = [f"# {note}" for note in self.notes]
        lines += [
            "schema = 1",
            f"workload = {_quoted(self.workload)}",
            f"core = {_quoted(self.core)}",
            f"made_by = {_quoted(self.made_by)}",
            f"requests = {self.requests}",
            f"service_us = {self.law}",
        ]
        if self.user_share is not None:
            lines.append(f"user_share = {self.user_share:.4f}")
        if self.apart_us > 0:
            lines.append(f"apart_us = {self.apart_us:.4g}")
        for cold in self.cold:
            lines += ["", "[[cold]]", f"loses = {_listed(cold.loses)}"]
            lines.append(f"extra_us = {cold.extra_us:.4g}")
            if cold.preheated_us is not None and cold.load_us is not None:
                lines.append(f"preheated_us = {cold.preheated_us:.4g}")
                lines.append(f"load_us = {cold.load_us:.4g}")
        if self.busy_w is not None:
            lines += ["", "[watts]", f"busy_w = {self.busy_w:.4g}"]
            if self.full_w is not None:
                lines.append(f"full_w = {self.full_w:.4g}")
            lines.append(f"shared_uj = {self.shared_uj:.4g}")
        for variant in self.variants:
            lines += [
                "",
                "[[variants]]",
                f"technique = {_quoted(variant.technique)}",
                f"time = {variant.time:.6g}",
                f"power = {variant.power:.6g}",
                f"shared = {variant.shared:.6g}",
            ]
            if variant.moved is not None:
                moved = (f"{name} = {value:.6g}" for name, value in asdict(variant.moved).items())
                lines.append(f"moved = {{ {', '.join(moved)} }}")
        return "\n".join(lines) + "\n"

    def write(self, file: Path | str) -> None:
        """Writes it whole, or not at all."""
        write_whole(Path(file), self.toml().encode())

    def longer(self) -> float | None:
        """Returns how many times as long a recording must be for a mean known to 5 %; none if it
        is."""
        if self.half_pct is None or self.half_pct <= GOOD_PCT:
            return None
        return (self.half_pct / GOOD_PCT) ** 2


def _without_requests(workload: str) -> HalfwinkError:
    return HalfwinkError(f"`{workload}` has no whole requests: expected a recorded server")


def _check_requests(workload: str) -> None:
    """Refuses a recording without requests before minutes are spent on it.

    Raises:
        HalfwinkError: the recording holds none.
    """
    path = trace_file(Path(workload))
    if path.is_file() and not json.loads(_core.trace_info(str(path)))["totals"]["requests"]:
        raise _without_requests(workload)


def profile(
    workload: str,
    *,
    core: str = "golden-cove",
    techniques: Technique | Sequence[Technique] = WITHIN,
    name: str | None = None,
    instructions: int | None = None,
    out: Path | str | None = None,
) -> RequestProfile:
    """Plays a recording on one core of a kind: once warm, once for each depth of sleep that loses
    contents at each halt, and once under each technique that works within a request.

    Where requests were recorded alone (``nginx-1pct``), the law has the shape of their latencies;
    where they overlap (closed loads), only the mean is known, and the law is log-normal with the
    variation that latencies of that many requests under way imply (assumption). Its mean is always
    the time that the core worked for a request.

    Args:
        workload: a recorded one with requests.
        core: chip machine (``golden-cove``), or a server of it (``golden-cove-56``).
        techniques: techniques of the chip that work within a request (gating in stalls, frequency,
            divided caches), joined by ``+`` where a server is to play them together.
        name: name of the profile, if not that of the workload.
        instructions: at most.
        out: folder in which finished runs are kept.

    Raises:
        HalfwinkError: there is none of that name, or it has no requests.
        RunError: a run failed.
    """
    kind = core_of(core)
    machine = f"{kind}-1"
    within = _within(technique_list(techniques) or ())
    _check_requests(workload)
    warm = compare(
        workload,
        techniques=[BASELINE, *within],
        machine=machine,
        instructions=instructions,
        out=out,
    )
    run = warm.runs.filter(technique=BASELINE).row(0, named=True)
    count = run["requests"]
    if not count or run["latency_mean_us"] is None:
        raise _without_requests(workload)
    busy = _busy(warm, BASELINE)
    mean_us = 1e6 * busy.seconds / count
    in_flight = count * run["latency_mean_us"] * 1e-6 / run["duration_s"]
    law, apart_us, how = _law(warm, run, mean_us, in_flight)
    cold = _cold(workload, machine, busy.seconds, instructions, out)
    half_pct = _half_pct(run)
    known = "not known" if half_pct is None else f"known to ±{half_pct:.0f} %"
    suffix = f" -n {instructions}" if instructions else ""
    if within != list(WITHIN):
        suffix += f" -t {','.join(within) or NONE}"
    return RequestProfile(
        workload=name or Path(workload).stem,
        core=kind,
        made_by=f"halfwink profile {workload} -m {kind}{suffix}",
        requests=count,
        law=law,
        mean_us=mean_us,
        user_share=busy.user_s / busy.seconds,
        apart_us=apart_us,
        cold=cold,
        busy_w=busy.joules / busy.seconds,
        full_w=_full_w(kind),
        shared_uj=1e6 * busy.shared_j / count,
        variants=tuple(
            _variant(row["technique"], busy, _busy(warm, row["technique"]), row)
            for row in warm.runs.iter_rows(named=True)
            if row["technique"] != BASELINE
        ),
        half_pct=half_pct,
        notes=(
            f"`{workload}` on a {kind} core, simulated: {count} requests, {in_flight:.2g} of them",
            f"under way in the mean. Mean latency {known}. {how}",
        ),
    )


def _quoted(text: str) -> str:
    """Returns a text as TOML has it, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _listed(names: Sequence[str]) -> str:
    """Returns names as a list of TOML."""
    return f"[{', '.join(map(_quoted, names))}]"


def _within(techniques: Sequence[str]) -> list[str]:
    """The techniques, none for ``none``.

    Raises:
        HalfwinkError: one does not work within a request.
    """
    if list(techniques) == [NONE]:
        return []
    known = sorted(t["name"] for t in _core.techniques() if {WORLD, NODE} <= {*t["worlds"]})
    for part in (part for name in techniques for part in name.split("+")):
        if is_own(name := part.partition(":")[0]):
            library().identity(NODE, part)
            if not _core.techniques([name])[0]["is_within_requests"]:
                raise HalfwinkError(
                    f"`{part}` decides in halts alone, so that no profile has it; "
                    "`halfwink compare` plays it as it is"
                )
        elif part.partition(":")[0] not in known:
            raise HalfwinkError(
                f"`{part}` does not work within a request, so that no profile has it; expected "
                f"{', '.join(known)}, or {NONE}"
            )
    return list(techniques)


def _variant(technique: str, without: _Busy, under: _Busy, run: dict[str, Any]) -> Variant:
    moved = None
    if visits := run["moved_invocations"]:
        power = (under.os_joules / under.os_s) / (without.joules / without.seconds)
        moved = Moved(visits / run["requests"], 1e6 * under.os_s / visits, power)
    watts = (under.joules / under.seconds) / (without.joules / without.seconds)
    shared = under.shared_j / without.shared_j if without.shared_j > 0 else 1.0
    # A variant that was measured under a file is of the file's content of then.
    technique = library().identity(WORLD, technique)
    return Variant(technique, under.seconds / without.seconds, watts, shared, moved)


def stated_profile(
    name: str,
    *,
    mean_us: float | None = None,
    cv: float = 1.0,
    times_us: list[float] | None = None,
    busy_w: float | None = None,
    made_by: str = "halfwink.models.stated_profile",
) -> RequestProfile:
    """A service without a recording: from a mean and a coefficient of variation, or from measured
    times. Nothing is known of what lost caches add.

    Raises:
        HalfwinkError: neither a mean nor times, or such that no law has them.
    """
    if times_us is not None:
        law, mean = _measured(times_us)
        note = f"Law of {len(times_us)} measured times. Response times hold waits for others,"
        notes = (note, "unless they were taken at a load of a few per cent.")
        count = len(times_us)
    else:
        if mean_us is None:
            raise HalfwinkError("a law without a mean: expected --service-mean, --cdf or --log")
        law, mean, notes, count = _lognormal(mean_us, cv), mean_us, ("Stated, not measured.",), 0
    return RequestProfile(
        workload=name,
        core=ANY,
        made_by=made_by,
        requests=count,
        law=law,
        mean_us=mean,
        busy_w=busy_w,
        notes=notes,
    )


def core_of(machine: str) -> str:
    """Chip machine of a name: its own, without a number of cores, or that of a server.

    Raises:
        HalfwinkError: a description that cannot be read.
    """
    described = root() / "machines" / "node" / f"{machine}.toml"
    if described.is_file():
        return str(tomllib.loads(described.read_text())["core"])
    if (root() / "machines" / f"{machine}.toml").is_file():
        return machine
    return re.sub(r"-\d+$", "", machine)


@dataclass(frozen=True)
class _Busy:
    """A core with work, and what its requests took elsewhere."""

    seconds: float
    user_s: float
    joules: float
    shared_j: float
    os_s: float
    os_joules: float


def _busy(found: Results, technique: str) -> _Busy:
    rows = found.ledger.filter(technique=technique)
    core = rows.filter(pl.col("component").str.starts_with("core"))
    kernel = rows.filter(pl.col("component").str.contains(r"^os\d"), pl.col("mode") != "idle")
    # Gated or not: with work under way it is no core that waits for a request.
    works = core.filter(pl.col("mode") != "idle")
    # Prefetches of a core are counted to no mode, and take no time.
    fetched = core.filter(cause="prefetch")
    shared = rows.filter(
        ~pl.col("component").str.contains(r"^(core|os)\d"),
        (pl.col("mode") != "idle") | (pl.col("cause") == "prefetch"),
    )
    return _Busy(
        seconds=_sum(works, "time_s"),
        user_s=_sum(works.filter(mode="user"), "time_s"),
        joules=_sum(works, "energy_j") + _sum(fetched, "energy_j"),
        shared_j=_sum(shared, "energy_j"),
        os_s=_sum(kernel, "time_s"),
        os_joules=_sum(kernel, "energy_j"),
    )


def _sum(rows: pl.DataFrame, column: str) -> float:
    return float(rows[column].sum())


def _law(
    found: Results, run: dict[str, Any], mean_us: float, in_flight: float
) -> tuple[str, float, str]:
    """The law, the time apart from cores, and a sentence on where it is from."""
    buckets = found.histograms.filter(histogram="latency", technique=BASELINE).sort("from_ns")
    if in_flight <= ALONE:
        points = _points(buckets, run["latency_max_us"], mean_us)
        law = f'{{ law = "points", points = [{points}] }}'
        return (
            law,
            run["latency_mean_us"] - mean_us,
            "Shape: latencies of requests that were alone.",
        )
    cv = _variation(buckets) * math.sqrt(in_flight)
    how = f"Requests overlap: shape assumed log-normal, cv {cv:.2f} from {in_flight:.1f} under way."
    return _lognormal(mean_us, cv), 0.0, how


def _points(buckets: pl.DataFrame, longest_us: float, mean_us: float) -> str:
    """Limits of a histogram's buckets and what lies below each, scaled to a mean."""
    return _written(cumulative(buckets, 1e-3, longest_us), mean_us)


def _written(points: list[tuple[float, float]], mean_us: float | None = None) -> str:
    found = _mean(points)
    scale = 1.0 if mean_us is None else mean_us / found
    return ", ".join(f"[{at * scale:.5g}, {share:.6g}]" for at, share in points)


def _mean(points: list[tuple[float, float]]) -> float:
    return sum((high[1] - low[1]) * (low[0] + high[0]) / 2 for low, high in pairwise(points))


def _variation(buckets: pl.DataFrame) -> float:
    """Coefficient of variation of what a histogram counted."""
    middle = (buckets["from_ns"] + buckets["to_ns"]) / 2
    count = buckets["count"].cast(pl.Float64)
    total = float(count.sum())
    mean = float((middle * count).sum()) / total
    square = float((middle * middle * count).sum()) / total
    return math.sqrt(max(square - mean * mean, 0.0)) / mean


def _lognormal(mean_us: float, cv: float) -> str:
    if not 0 <= cv <= 100:
        raise HalfwinkError(f"a coefficient of variation of {cv:g}: expected 0 to 100")
    if cv == 0:
        return f'{{ law = "fixed", value = {mean_us:.6g} }}'
    if cv == 1:
        return f'{{ law = "exponential", mean = {mean_us:.6g} }}'
    return f'{{ law = "log-normal", mean = {mean_us:.6g}, cv = {cv:.4g} }}'


def _measured(times_us: list[float]) -> tuple[str, float]:
    """A law of so many points, closer together where the tail is."""
    ordered = sorted(times_us)
    if ordered[-1] <= 0:
        raise HalfwinkError("a law without a mean: all of its times are 0")
    shares = [n / (POINTS - 1) for n in range(POINTS)]
    shares = sorted({*shares, 0.99, 0.995, 0.999, 0.9995})
    last = len(ordered) - 1
    points = [(ordered[round(share * last)], share) for share in shares]
    mean = sum(ordered) / len(ordered)
    law = f'{{ law = "points", points = [{_written(points, mean)}] }}'
    return law, mean


def _cold(
    workload: str,
    machine: str,
    warm_s: float,
    instructions: int | None,
    out: Path | str | None,
) -> tuple[Cold, ...]:
    """Time that each depth adds to the work behind a halt, from runs that lose it at each halt."""
    found: list[Cold] = []
    for loses in DEPTHS:
        runs = compare(
            workload,
            techniques=["idle-gate"],
            machine=machine,
            set={"gating.loses": _listed(loses)},
            instructions=instructions,
            out=out,
        )
        run = runs.runs.filter(technique="idle-gate").row(0, named=True)
        if not run["wakes"]:
            return ()
        extra_us = 1e6 * (_busy(runs, "idle-gate").seconds - warm_s) / run["wakes"]
        found.append(_preheated(workload, machine, Cold(loses, max(extra_us, 0.0))))
    return tuple(found)


def _preheated(workload: str, machine: str, cold: Cold) -> Cold:
    """Adds the rest after preheating: the share that remains of a request played by itself."""
    found = simulate(
        workload, machine=machine, requests=PREHEATED, set={"gating.loses": _listed(cold.loses)}
    )
    row = found.modes.filter(mode="preheated").row(0, named=True)
    taken_off = min(max(row["reduction"], 0.0), 1.0)
    return replace(cold, preheated_us=(1 - taken_off) * cold.extra_us, load_us=row["preheat_us"])


def _half_pct(run: dict[str, Any]) -> float | None:
    low, high = run.get("latency_mean_low_us"), run.get("latency_mean_high_us")
    if low is None or high is None:
        return None
    return 50 * (high - low) / run["latency_mean_us"]


def _full_w(core: str) -> float | None:
    """Watts of a core at two instructions a cycle, which a server's ``active_w`` is taken for
    (assumption; recorded servers reach that). Machine files split what running takes at one
    instruction a cycle into as much clock as events."""
    described = tomllib.loads((root() / "machines" / f"{core}.toml").read_text())
    power = described.get("power", {}).get("core", {})
    if "leakage_w" not in power or "clock_w" not in power:
        return None
    return float(power["leakage_w"]) + 3 * float(power["clock_w"])
