"""Predictions of an advice that are written before a server is measured, and the measurement beside
them.

hw.advise("nginx", load="30%").commit("prediction.json")
print(hw.verify("prediction.json", seconds=60, latencies="day.csv"))
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.advice.idle_counters import IdleCounters
from halfwink.advice.idle_readers import counters
from halfwink.errors import HalfwinkError, RunError
from halfwink.inputs import read_text
from halfwink.library import root
from halfwink.live import native
from halfwink.models.response_times import read_times
from halfwink.results import wording
from halfwink.results.results import Results
from halfwink.runs.comparison import NODE

#: Of the file of predictions.
KIND = "halfwink.prediction/1"
#: A rate that differs by more than this share of the predicted one is another load.
SAME_RATE = 0.1
#: No package, memory or server takes more watts: the counter was set back.
MOST_W = 5000.0
#: Threads of a core at most, where CPUs are counted.
THREADS = 2
#: A measurement is no shorter or longer, in seconds.
LEAST_S, MOST_S = 0.1, 86_400.0
#: Most bytes of a file of predictions.
MOST_BYTES = 1 << 20
#: What is predicted, its unit, and the meter that can tell.
QUANTITIES = {
    "package_w": ("W", "energy counters of the packages (RAPL)"),
    "memory_w": ("W", "energy counters of the memory (RAPL dram)"),
    "server_w": ("W", "a meter of the whole server (--server-w, or RAPL psys)"),
    "latency_mean_us": ("us", "--latencies FILE"),
    "latency_p99_us": ("us", "--latencies FILE"),
}

Quantity = dict[str, float | None]


def foretell(results: Results, techniques: tuple[str, ...]) -> dict[str, dict[str, Quantity]]:
    """Returns what each technique's run predicts for the meters of a server: a value and the range
    that it may have, where one is known.

    Watts have the range over the watts that the server's file assumes. Latencies and shares of idle
    states have none: by how much the model errs on a server is not known, and the interval of a run
    is far smaller.
    """
    ledger = results.tables["ledger"]
    states = results.tables["idle_states"]
    found: dict[str, dict[str, Quantity]] = {}
    for name in techniques:
        run = results.runs.filter(technique=name).row(0, named=True)
        mine = ledger.filter(technique=name)
        parts = mine.group_by("component").agg(pl.col("energy_j").sum()).iter_rows()
        watts = {part: joules / run["duration_s"] for part, joules in parts}
        memory = sum(value for part, value in watts.items() if part.startswith("memory"))
        package = sum(watts.values()) - memory - watts.get("rest", 0.0)
        by = (run["power_low"], run["power_high"])
        quantities = {
            "package_w": _watts(package, by),
            "memory_w": _watts(memory, by),
            # The rest of the machine is no part whose watts are multiplied.
            "server_w": _watts(memory + package, by, watts.get("rest", 0.0)),
        }
        for what in ("latency_mean", "latency_p99"):
            quantities[f"{what}_us"] = _alone(run[f"{what}_us"])
        for row in states.filter(technique=name).to_dicts():
            quantities[f"{row['state']}_pct"] = _alone(row["share_pct"])
        found[name] = quantities
    return found


def _alone(value: float | None) -> Quantity:
    return {"value": value, "low": None, "high": None}


def _watts(parts_w: float, by: tuple[float | None, float | None], rest_w: float = 0.0) -> Quantity:
    value, (least, most) = rest_w + parts_w, by
    if least is None or most is None or least == most:
        return _alone(value)
    return {"value": value, "low": rest_w + least * parts_w, "high": rest_w + most * parts_w}


def write_prediction(
    path: Path | str, results: Results, *, baseline: str, advised: str, goal_us: float | None
) -> str:
    """Writes predictions of the baseline and of what is advised, with the time and a digest.

    Returns:
        the digest, which the file holds too: it tells whether the file was changed.

    Raises:
        RunError: the file is there already, or cannot be written.
    """
    run = results.runs.filter(technique=advised).row(0, named=True)
    document: dict[str, Any] = {
        "schema": KIND,
        "made_at": _now().isoformat(timespec="seconds"),
        "made_by": f"halfwink {_core.__version__}",
        "workload": run["workload"],
        "machine": run["machine"],
        "set": run["set"],
        "per_s": run["offered_per_s"],
        "cores": _cores(run["machine"], run["set"]),
        "goal_p99_us": goal_us,
        "baseline": baseline,
        "advised": advised,
        "power_basis": run["power_basis"],
        "predicted": foretell(results, tuple(dict.fromkeys((baseline, advised)))),
    }
    document["sha256"] = digest(document)
    text = json.dumps(document, indent=1) + "\n"
    try:
        # A prediction that is there is not made again.
        with Path(path).expanduser().open("x") as file:
            file.write(text)
    except FileExistsError:
        raise RunError(f"{path}: is there already; a prediction is written once") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from error
    return document["sha256"]


def digest(document: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a prediction without its own digest, keys in order, no blanks."""
    told = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_prediction(path: Path | str) -> dict[str, Any]:
    """Reads a file of predictions.

    Raises:
        HalfwinkError: the file is no prediction, or was changed since it was written.
    """
    try:
        document = json.loads(read_text(path, MOST_BYTES))
        known = document.get("schema") == KIND and isinstance(document["sha256"], str)
    except (ValueError, AttributeError, KeyError):
        known, document = False, {}
    if not known:
        raise HalfwinkError(f"{path}: expected a prediction of `halfwink advise --commit FILE`")
    if digest(document) != document["sha256"]:
        raise HalfwinkError(f"{path}: was changed since it was written: its sha256 is another one")
    return document


@dataclass(frozen=True)
class Verification:
    """A prediction and what was measured.

    Attributes:
        prediction: the file's document.
        technique: the technique that the server ran while it was measured.
        seconds: length of the measurement.
        rows: a row for each quantity: ``what``, ``unit``, ``predicted``, its range ``low`` and
            ``high``, ``measured``, ``off_pct`` (measured less predicted, in per cent of it; of
            shares in points), ``verdict`` (``inside``, ``above``, ``below``, ``no range``,
            ``other load``, ``other machine``, ``not measured``).
        per_s: requests per second that were measured, if they were.
        cpus: CPUs of this machine; 0 if they could not be counted.
        missing: quantities that could not be measured, with reasons.
        notes: sentences on what is doubtful.
    """

    prediction: dict[str, Any]
    technique: str
    seconds: float
    rows: list[dict[str, Any]]
    per_s: float | None = None
    cpus: int = 0
    missing: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def sentences(self) -> list[str]:
        """The comparison in words, the most important first."""
        known = [row for row in self.rows if row["verdict"] in ("inside", "above", "below")]
        inside = sum(row["verdict"] == "inside" for row in known)
        told = self.prediction
        name = f"{self.technique} on {told['workload']}, {told['machine']}"
        ranged = sum(row["low"] is not None for row in self.rows)
        out = [self._outside(row) for row in known if row["verdict"] != "inside"]
        why = f": {'; '.join(out)}" if out else ""
        line = f"Of {ranged} predictions with a range, {len(known)} could be checked for {name}"
        lines = [f"{line}, {inside} of them hold{'s' if inside == 1 else ''}{why}."]
        if not known:
            lines = [f"None of {ranged} predictions with a range could be checked for {name}."]
        if is_other_machine(self.cpus, told["cores"]):
            line = f"This machine has {self.cpus} CPUs, and {told['cores']} cores were predicted"
            lines.append(f"{line}: another machine says nothing about the prediction.")
        lines += self._without_range()
        if self._is_other_load:
            line = f"The server did {wording.count(self.per_s or 0)} requests a second where "
            line += f"{wording.count(told['per_s'])} were predicted: watts and latencies of another"
            lines.append(f"{line} load say nothing about the prediction.")
        elif self.per_s is None:
            line = (
                f"The load was not measured: the prediction is for {wording.count(told['per_s'])}"
            )
            lines.append(f"{line} requests a second (--rate, --latencies).")
        lines.append(self._when())
        return [*lines, *self.notes, *(f"Not measured: {why}." for why in self.missing)]

    def _without_range(self) -> list[str]:
        """Returns quantities without a range that were measured, beside the prediction."""
        told = [
            f"{row['what']} {row['measured']:.3g} {row['unit']} for {row['predicted']:.3g}"
            for row in self.rows
            if row["verdict"] == "no range" and row["predicted"] is not None
        ]
        return [f"Without a range: {', '.join(told)}."] if told else []

    @property
    def _is_other_load(self) -> bool:
        return self.per_s is not None and is_other_load(self.per_s, self.prediction["per_s"])

    @staticmethod
    def _outside(row: Mapping[str, Any]) -> str:
        limit = row["high"] if row["verdict"] == "above" else row["low"]
        line = f"{row['what']} is {row['measured']:.4g} {row['unit']}, {row['verdict']}"
        return f"{line} {limit:.4g}"

    def _when(self) -> str:
        made = datetime.fromisoformat(self.prediction["made_at"])
        hours = (_now() - made).total_seconds() / 3600
        when = f"The prediction was written {self.prediction['made_at']}"
        if hours < 0:
            return f"{when}, which is after now: one of two clocks is wrong."
        line = f"{when}, {wording.duration(3.6e9 * hours)} ago" if hours < 1 else f"{when}, "
        line += "" if hours < 1 else f"{hours:.1f} h ago"
        return f"{line}, and not changed since (sha256 {self.prediction['sha256'][:12]})."

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def is_other_machine(cpus: int, cores: int) -> bool:
    """Returns whether so many CPUs cannot be those of so many cores."""
    return cpus > 0 and cpus not in range(cores, THREADS * cores + 1, cores)


def _cores(machine: str, changed: str) -> int:
    """Cores of a server's file, with what was changed of it."""
    path = Path(machine)
    if path.suffix != ".toml":
        path = root() / f"machines/{NODE}/{machine}.toml"
    server = dict(tomllib.loads(read_text(path))["server"])
    for change in changed.split():
        name, _, value = change.partition("=")
        if name.removeprefix("server.") in server and name.startswith("server."):
            server[name.removeprefix("server.")] = int(value)
    return server["sockets"] * server["dies"] * server["cores"]


def is_other_load(per_s: float, predicted: float) -> bool:
    """Returns whether a rate differs from the predicted one by more than `SAME_RATE` of it."""
    return abs(per_s - predicted) > SAME_RATE * predicted


def verify(
    prediction: Path | str,
    *,
    technique: str | None = None,
    seconds: float = 60.0,
    latencies: Path | str | None = None,
    rate: float | None = None,
    server_w: float | None = None,
    wait: Callable[[float], None] | None = None,
) -> Verification:
    """Measures this machine, and lays the prediction of an advice beside.

    Reads the energy counters of the processors and the counters of cpuidle before and after.

    Args:
        prediction: file of ``Advice.commit``.
        technique: the one that the machine runs now: the advised one (default) or the baseline.
        seconds: length of the measurement.
        latencies: response times of requests in that time: CSV with a column of them, such as the
            log of ``halfwink live load``.
        rate: requests per second in that time; of ``latencies`` if it has times of requests.
        server_w: mean watts in that time of a meter that is read by hand.
        wait: is called for that time in place of a sleep, such as to send the load.

    Raises:
        HalfwinkError: the file is no prediction, or was changed; a value cannot be.
        RunError: this machine measures none of the predicted quantities.
    """
    told = read_prediction(prediction)
    chosen = technique or told["advised"]
    if chosen not in told["predicted"]:
        names = " or ".join(told["predicted"])
        raise HalfwinkError(f"`{chosen}` is not predicted: expected {names}")
    if not LEAST_S <= seconds <= MOST_S:
        raise HalfwinkError(f"seconds: {seconds}, expected {LEAST_S:g} to {MOST_S:g}")
    if latencies is not None and Path(latencies).exists() and not Path(latencies).is_file():
        raise HalfwinkError(f"{latencies}: expected a file of response times")
    for name, value in (("rate", rate), ("server_w", server_w)):
        if value is not None and not 0 < value < 1e12:
            raise HalfwinkError(f"{name}: {value}, expected a number above 0")
    meter = native.EnergyMeter()
    before, began = idle_counters(), time.monotonic()
    (wait or time.sleep)(seconds)
    took, after = time.monotonic() - began, idle_counters()
    found, missing = _watts_of(meter.look(), server_w)
    found |= _shares(before, after, took)
    quantities = told["predicted"][chosen]
    if before is None:
        missing.append("idle states: no counters of cpuidle (as in most virtual machines)")
    elif not any(name in quantities for name in _shares(before, after, took)):
        names = ", ".join(state.name for state in before.states)
        missing.append(f"idle states: this machine has {names}")
    notes: list[str] = []
    if latencies is None:
        missing.append("latencies: --latencies FILE gives them")
    else:
        try:
            found |= _latencies(latencies)
            logged = _rate(latencies)
            if logged is not None and rate is not None and is_other_load(rate, logged):
                notes.append(f"The log has {wording.count(logged)} requests a second, not --rate.")
            rate = rate if rate is not None else logged
        except HalfwinkError as error:
            # What meters said in that time is not lost for a log that is wrong.
            missing.append(f"latencies: {error}")
    if not found.keys() & quantities.keys():
        raise RunError(f"nothing that was predicted can be measured here: {'; '.join(missing)}")
    cpus = len(list(_cpus().glob("cpu[0-9]*")))
    other = "other machine" if is_other_machine(cpus, told["cores"]) else ""
    if rate is not None and is_other_load(rate, told["per_s"]):
        other = other or "other load"
    rows = [_row(what, one, found.get(what), other) for what, one in quantities.items()]
    return Verification(told, chosen, took, rows, rate, cpus, missing, notes)


def _row(what: str, told: Quantity, measured: float | None, other: str) -> dict[str, Any]:
    value, low, high = told["value"], told["low"], told["high"]
    unit = QUANTITIES[what][0] if what in QUANTITIES else "%"
    off: float | None = None
    if measured is not None and value is not None:
        if unit == "%":
            off = measured - value
        elif value:
            off = 100 * (measured / value - 1)
    verdict = "not measured"
    if measured is not None:
        verdict = other or _verdict(measured, low, high)
    return {
        "what": what,
        "unit": unit,
        "predicted": value,
        "low": low,
        "high": high,
        "measured": measured,
        "off_pct": off,
        "verdict": verdict,
    }


def _verdict(measured: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "no range"
    return "below" if measured < low else "above" if measured > high else "inside"


def _watts_of(look: dict[str, Any], server_w: float | None) -> tuple[dict[str, float], list[str]]:
    """Watts by quantity from the readings of the energy counters, and what is missing."""
    found: dict[str, float] = {}
    missing = [] if look["missing"] is None else [f"watts: {look['missing']}"]
    for meter in look["meters"]:
        if meter["ended"] is not None:
            missing.append(f"{meter['meter']}: {meter['ended']}")
        elif meter["energy_w"] is None or (what := _domain(meter["meter"])) is None:
            continue
        elif not 0 < meter["energy_w"] <= MOST_W:
            energy = f"{wording.si(meter['energy_j'])}J in {meter['duration_s']:.3g} s"
            missing.append(f"{meter['meter']}: its counter tells {energy}, which cannot be")
        else:
            # Several packages, or memories, of one server.
            found[what] = found.get(what, 0.0) + meter["energy_w"]
    if server_w is not None:
        found["server_w"] = server_w
    return found, missing


def _domain(meter: str) -> str | None:
    """The quantity that a domain measures; none of a part of one."""
    words = meter.removeprefix("RAPL ").split()
    if words == ["psys"]:
        return "server_w"
    if words[-1] == "dram":
        return "memory_w"
    return "package_w" if len(words) == 1 and words[0].startswith("package") else None


def idle_counters() -> IdleCounters | None:
    """Reads this machine's counters of cpuidle; none if it shows none."""
    folder = _cpus()
    lines: list[str] = []
    for file in sorted(folder.glob("cpu[0-9]*/cpuidle/state[0-9]*/*")):
        if file.name in ("name", "usage", "time"):
            try:
                text = file.read_text().strip()
            except (OSError, UnicodeError):
                continue
            lines.append(f"{file.relative_to(folder)}:{text}")
    return counters("\n".join(lines), str(folder))


def _cpus() -> Path:
    return Path(os.environ.get("HALFWINK_SYSFS", "/sys")) / "devices/system/cpu"


def _shares(
    before: IdleCounters | None, after: IdleCounters | None, seconds: float
) -> dict[str, float]:
    """Share of the cores' time in each idle state, in per cent, by the states' names in small
    letters without the driver's suffix (``C1_ACPI`` is ``c1``)."""
    if before is None or after is None:
        return {}
    earlier = {state.name: state.time for state in before.states}
    found: dict[str, float] = {}
    for state in after.states:
        name = f"{state.name.split('_')[0].lower()}_pct"
        gone_s = 1e-6 * max(state.time - earlier.get(state.name, 0.0), 0.0)
        found[name] = found.get(name, 0.0) + 100 * gone_s / (after.cpus * seconds)
    return found


def _latencies(file: Path | str) -> dict[str, float]:
    times = sorted(read_times(Path(file)))
    at = min(int(0.99 * len(times)), len(times) - 1)
    return {"latency_mean_us": sum(times) / len(times), "latency_p99_us": times[at]}


def _rate(file: Path | str) -> float | None:
    """Requests per second of a log with due times (``at_s``); none of another one."""
    head, *rows = read_text(file).splitlines() or [""]
    columns = [column.strip() for column in head.split(",")]
    if "at_s" not in columns or len(rows) < 2:
        return None
    place = columns.index("at_s")
    try:
        times = [float(row.split(",")[place]) for row in rows if row.strip()]
    except (ValueError, IndexError):
        return None
    span = max(times) - min(times)
    return (len(times) - 1) / span if span > 0 else None


def _now() -> datetime:
    return datetime.now(UTC)
