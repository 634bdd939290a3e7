"""A machine of the storage world whose block layer is a recorded one.

Recordings of fio on a null device are played on the chip: a CPU alone, and two CPUs of one run in
one memory. Of the first come the times of stages, of the second how many lines travel. What the two
take together in the chip goes into no value: the machine predicts it, and the error is shown.

    recording ─▶ chip ─▶ stages, lines ─▶ machine ─▶ storage world ─▶ two CPUs, predicted
                   └──────────────────────────────────────────────▶ two CPUs, played
"""

from __future__ import annotations

import itertools
import re
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.library import root, workload_names
from halfwink.models.io_paths import io_path
from halfwink.runs.comparison import compare

#: Watches the kernel, and moves nothing.
_WATCH = "os-profile"
#: Those of the library.
_RECORDINGS = "null-blk"
#: Where what is not recorded comes from.
_BASE = "westmere-ex"
#: Acquisitions of a request queue's lock for an I/O: to insert, to dispatch, to complete.
_ACQUISITIONS = 3
#: A device's queues, and the policy that is Linux' way through them.
QUEUES = {"many": "multi-queue", "one": "msi-x"}


@dataclass(frozen=True)
class Alone:
    """A recorded CPU that issues alone, played on the chip. Modelled.

    Attributes:
        us: all time of an I/O, in microseconds.
        interrupt_us: part of that time in interrupts; None if none interrupted the program.
        instructions: instructions of an I/O, program and kernel.
    """

    us: float
    interrupt_us: float | None
    instructions: float


@dataclass(frozen=True)
class Together:
    """Two recorded CPUs of one run, played on the chip in one memory. Modelled.

    Attributes:
        iops: rate of both, each over its own time.
        lines: lines that come from the other's caches for an I/O.
        upgrades: writes to lines that the other has too, for an I/O.
        instructions: instructions of an I/O, program and kernel.
        halted: share of their time in which they had nothing to do, as long as recorded.
    """

    iops: float
    lines: float
    upgrades: float
    instructions: float
    halted: float


@dataclass(frozen=True)
class StorageCalibration:
    """A machine, and how well it predicts.

    Attributes:
        text: the machine's file.
        alone: measurements that the machine was made of, by queues.
        together: measurements of pairs, by queues; only their lines were used.
        predictions: a row for one and two issuing CPUs over each kind of queue: I/Os a second
            ``played`` in the chip and ``predicted`` by the machine, ``error_pct``, and whether it
            was ``held_out``.
    """

    text: str
    alone: dict[str, Alone]
    together: dict[str, Together]
    predictions: pl.DataFrame


def calibrate_storage(recordings: str = _RECORDINGS, chip: str = "ev6") -> StorageCalibration:
    """Makes a machine of recordings of fio on a null block device.

    Args:
        recordings: prefix of their names, or of the files before ``.hwt``: for each kind of queues,
            ``one`` and ``many``, there are a CPU beside another (``null-blk-one``), that other
            (``-other``) and a CPU alone (``-alone``).
        chip: the machine of the world ``chip`` on which they are played.

    Raises:
        HalfwinkError: there are no such recordings, or no such machine.
    """
    names = _names(recordings)
    spec = _chip(chip)
    alone = {kind: _alone(names[f"{kind}-alone"], chip) for kind in QUEUES}
    together = {kind: _together(names[kind], names[f"{kind}-other"], chip) for kind in QUEUES}
    # The same text wherever the files lie.
    prefix = Path(recordings).name
    text = machine_text(prefix, chip, spec, alone, together)
    found = predictions(text, alone, together)
    return StorageCalibration(_told(text, found), alone, together, found)


def _names(recordings: str) -> dict[str, str]:
    """The six recordings, by what they are of: names, or files."""
    wanted = [k + which for k, which in itertools.product(QUEUES, ("", "-other", "-alone"))]
    names = {of: f"{recordings}-{of}" for of in wanted}
    files = {of: f"{name}.hwt" for of, name in names.items()}
    there = {of for of, path in files.items() if Path(path).is_file()}
    if there == set(wanted):
        return files
    known = set(workload_names("chip"))
    lost = [of for of, name in names.items() if name not in known and of not in there]
    # Those of the library that are not here may be in another package: playing them says so.
    if lost and recordings != _RECORDINGS:
        raise HalfwinkError(
            f"no recording {names[lost[0]]}: expected six, {recordings}-one and -many, each also "
            f"with -other and -alone; `halfwink capture {_RECORDINGS}-{lost[0]} "
            f"-o {files[lost[0]]}` makes that one"
        )
    return names


def _chip(name: str) -> dict[str, Any]:
    path = root() / "machines" / f"{name}.toml"
    if not path.is_file():
        raise HalfwinkError(f"no machine {name}: expected one of the world chip (ev6)")
    return tomllib.loads(path.read_text())


def _alone(recording: str, chip: str) -> Alone:
    sums = io_path(recording)
    played = compare(recording, techniques=_WATCH, machine=f"{chip}-1")
    duration_s = played.runs.filter(technique=_WATCH)["duration_s"][0]
    return alone_of(sums, duration_s, played.tables["calls"])


def alone_of(sums: pl.DataFrame, duration_s: float, calls: pl.DataFrame) -> Alone:
    """Summarises the tables of a recording and of its run on a chip.

    Args:
        sums: a row of :func:`halfwink.models.io_path`.
        duration_s: length of the run.
        calls: interrupts of the program: ``kind``, ``invocations``, ``running_s``.
    """
    ios, interrupts = sums["ios"][0], sums["interrupts"][0]
    # Those that the program was interrupted by: of others the time is part of a system call's.
    direct = calls.filter(kind="interrupt")
    many = int(direct["invocations"].sum())
    mean_us = 1e6 * float(direct["running_s"].sum()) / many if many else None
    return Alone(
        us=1e6 * duration_s / ios,
        interrupt_us=None if mean_us is None else interrupts * mean_us,
        instructions=sums["user_instructions"][0] + sums["kernel_instructions"][0],
    )


def _together(recording: str, other: str, chip: str) -> Together:
    sums = io_path(recording, other).filter(pl.col("cpu") != "both")
    played = compare(
        f"{recording}+{other}", techniques=_WATCH, machine=f"{chip}-2", set={"memory": "one"}
    )
    busy_s, halted_s = list[float](), list[float]()
    for n, name in enumerate((recording, other)):
        # A core that is done waits for the other; what it waited before is in its recording.
        lone = compare(name, techniques=_WATCH, machine=f"{chip}-1")
        halted_s.append(_state_s(lone.ledger, 0, "idle"))
        busy_s.append(sum(_state_s(played.ledger, n, state) for state in ("active", "stalled")))
    counters = played.tables["counters"].filter(technique=_WATCH, component="l3")
    return together_of(sums, counters, busy_s, halted_s)


def together_of(
    sums: pl.DataFrame, counters: pl.DataFrame, busy_s: list[float], halted_s: list[float]
) -> Together:
    """Summarises the tables of two CPUs that ran together.

    Args:
        sums: a row of :func:`halfwink.models.io_path` for each.
        counters: counters of the shared level: ``counter``, ``user``, ``kernel``.
        busy_s: busy time of each in the run of both.
        halted_s: halted time of each in its recording.
    """
    ios = sums["ios"].to_list()
    of = dict(counters.select("counter", pl.col("user") + pl.col("kernel")).iter_rows())
    instructions = pl.col("user_instructions") + pl.col("kernel_instructions")
    executed = sums.select((instructions * pl.col("ios")).sum()).item()
    return Together(
        iops=sum(n / (b + h) for n, b, h in zip(ios, busy_s, halted_s, strict=True)),
        lines=of["transfers"] / sum(ios),
        upgrades=of["upgrades"] / sum(ios),
        instructions=executed / sum(ios),
        halted=sum(halted_s) / (sum(busy_s) + sum(halted_s)),
    )


def _state_s(ledger: pl.DataFrame, core: int, state: str) -> float:
    rows = ledger.filter(technique=_WATCH, component=f"core{core}", state=state)
    return float(rows["time_s"].sum())


def _line_ns(spec: dict[str, Any]) -> float:
    """Returns the time from a core's miss to a line of another core's caches: both look-ups, and
    the way.
    """
    look_ups = (level.get("latency_ns", 0.0) for level in _levels(spec))
    return float(sum(look_ups) + spec["os"]["transfer_ns"])


def _levels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A chip's caches below the first, as far as it has them."""
    return [spec[level] for level in ("l2", "l3") if spec[level]["size"] != "none"]


def _last_mb(spec: dict[str, Any]) -> float:
    size: str = _levels(spec)[-1]["size"]
    kb = size.removesuffix("KB")
    return int(kb) / 1024 if kb != size else float(size.removesuffix("MB"))


def machine_text(
    recordings: str,
    chip: str,
    spec: dict[str, Any],
    alone: dict[str, Alone],
    together: dict[str, Together],
) -> str:
    """The machine's file, without what it predicts.

    Args:
        recordings: prefix of their names.
        chip: name of the chip, and `spec` its file.
        alone: measurements of single CPUs, by queues.
        together: measurements of pairs, by queues.
    """
    many, one = alone["many"], alone["one"]
    if many.interrupt_us is None:
        raise HalfwinkError(f"{recordings}-many-alone: no interrupt of the program to go by")
    ghz = spec["chip"]["clock_ghz"]
    hold_ns = max(0.0, 1e3 * (one.us - many.us) / _ACQUISITIONS)
    lines = max(0.0, (together["one"].lines - together["many"].lines) / _ACQUISITIONS)
    beside = f"{recordings}-many beside its other"
    values: dict[str, tuple[object, str]] = {
        "topology.sockets": (1, "as recorded; more are extrapolated"),
        "topology.cores_per_socket": (2, "as recorded"),
        "topology.ghz": (ghz, f"the chip on which it was played: {chip}"),
        "topology.l3_mb": (_last_mb(spec), chip),
        "topology.memory_gb": (1.0, "assumption: of the recorded guest; nothing depends on it"),
        "coherence.same_socket_ns": (_line_ns(spec), f"{chip}: both look-ups and the way"),
        "coherence.one_hop_ns": (250.0, f"assumption: not recorded; as {_BASE}"),
        "coherence.two_hops_ns": (350.0, f"assumption: not recorded; as {_BASE}"),
        "block.reference_ghz": (ghz, f"{chip}"),
        "block.submit_us": (
            _n(many.us - many.interrupt_us),
            f"{recordings}-many-alone: {many.us:.3f} us and {many.instructions:.0f} instructions "
            "an I/O, less interrupts",
        ),
        "block.complete_us": (
            _n(many.interrupt_us),
            f"{recordings}-many-alone: its interrupts, hearing included",
        ),
        "block.shared_lines": (
            _n(together["many"].lines),
            f"{beside}, one memory: lines that travel for an I/O "
            f"(and {together['many'].upgrades:.2f} upgrades)",
        ),
        "block.jitter": (0.2, "assumption"),
        "block.queue.kind": ('"ticket"', "Linux 6.1: queued, in the order of arrival"),
        "block.queue.hold_ns": (
            _n(hold_ns),
            f"{recordings}-one-alone: {one.us:.3f} us and {one.instructions:.0f} instructions; "
            "what is more than with many, thrice: an upper bound",
        ),
        "block.queue.lines": (
            _n(lines),
            f"{recordings}-one beside its other: {together['one'].lines:.2f} lines; what is more "
            "than with many, thrice",
        ),
        "block.queue.writes": (0.0, "who waits spins on a line of its own (qspinlock)"),
        "block.queue.own_socket": (0.0, "in the order of arrival"),
        "block.own_queue.hold_ns": (0.0, "nobody else takes it: part of submit_us"),
        "driver.interrupt_us": (0.001, "part of complete_us"),
        "device.latency_us": (10.0, "null_blk's timer"),
        "device.iops": (1e8, "null_blk: none"),
        "device.gb_per_s": (1e4, "null_blk: none"),
        "device.pcie_us": (0.0, "null_blk: none"),
    }
    return _written(recordings, chip, values)


def _n(value: float) -> float:
    return round(value, 3)


def _written(recordings: str, chip: str, values: dict[str, tuple[object, str]]) -> str:
    """The base's file with these values, and what each rests on."""
    text = (root() / "machines" / "storage" / f"{_BASE}.toml").read_text()
    left = dict(values)
    section, lines = "", list[str]()
    # Head and fitted values are of the base.
    for line in text[text.index("[topology]") :].splitlines():
        if found := re.match(r"\[([\w.-]+)\]", line):
            if rest := _rest(section, left):
                lines[-1:] = [*rest, ""]
            section = found[1]
            # What a section says of itself is of the values that it had.
            if any(path.rpartition(".")[0] == section for path in left):
                line = found[0]
        elif found := re.match(r"(\w+) = ", line):
            path = f"{section}.{found[1]}"
            if path in left:
                lines += _lines(found[1], *left.pop(path))
                continue
        lines.append(line)
    head = [
        f"# Written by `halfwink storage calibrate --from {recordings} --chip {chip}`: what is of",
        f"# the block layer is recorded, all else as {_BASE}. Times and lines are modelled: the",
        f"# chip {chip} plays the recordings. For `through=queue`: the driver is the base's.",
        "schema = 1",
        'description = "Linux 6.1: the block layer of fio on null_blk, recorded on two CPUs"',
        "calibrated = [",
        f'    "block.*: {recordings}-*, as played by {chip}; one CPU alone, and lines of two",',
        "]",
        "",
    ]
    return "\n".join([*head, *lines, *_rest(section, left)]) + "\n"


def _rest(section: str, left: dict[str, tuple[object, str]]) -> list[str]:
    """Values of a section that the base does not have."""
    ours = [path for path in left if path.rpartition(".")[0] == section]
    return [line for path in ours for line in _lines(path.rpartition(".")[2], *left.pop(path))]


def _lines(key: str, value: object, evidence: str) -> list[str]:
    return [f"# {evidence}", f"{key} = {value}"]


def predictions(text: str, alone: dict[str, Alone], together: dict[str, Together]) -> pl.DataFrame:
    """Returns the machine's predictions for one and for two issuing CPUs: see
    :class:`StorageCalibration`.
    """
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="halfwink-") as folder:
        path = Path(folder) / "calibrated.toml"
        path.write_text(text)
        for kind, policy in QUEUES.items():
            runs = compare(
                "random-read",
                world="storage",
                loads=("1", "2"),
                machine=str(path),
                techniques=policy,
                set={"through": "queue", "ios": 50_000, "warm_up": 50_000},
            ).runs
            iops = dict(runs.select("issuers", "iops").iter_rows())
            for issuers, played in ((1, 1e6 / alone[kind].us), (2, together[kind].iops)):
                rows.append(
                    {
                        "queues": kind,
                        "cpus": issuers,
                        "played": played,
                        "predicted": iops[issuers],
                        "error_pct": 100 * (iops[issuers] / played - 1),
                        "held_out": issuers > 1,
                    }
                )
    return pl.DataFrame(rows)


def _told(text: str, found: pl.DataFrame) -> str:
    """Adds the machine's predictions of held-out values to its head."""
    errors = [
        f"{row['queues']} queue{'s' * (row['queues'] == 'many')} {row['error_pct']:+.1f} %"
        for row in found.filter("held_out").iter_rows(named=True)
    ]
    line = f"# Held out, the rate of two CPUs: {', '.join(errors)} (docs/techniques/storage.md).\n"
    return text.replace("schema = 1\n", line + "schema = 1\n", 1)
