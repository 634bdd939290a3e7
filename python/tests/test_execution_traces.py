"""Execution traces (MLCommons Chakra) through the command line: files, folders, descriptions, and
what cannot be read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from conftest import Halfwink

from halfwink.models import circuit_advice

#: Twelve servers, each a rack: ranks send each other a byte in 0.836 ns, and nothing else counts.
SMALL = {
    "switch.ports": 12,
    "switch.usable_ports": 12,
    "racks.count": 12,
    "racks.servers": 1,
    "racks.hop_us": 0,
    "racks.frame_bytes": 0,
}
SET = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]
BYTES_PER_US = 1250 * 0.957

#: Kinds of nodes and collectives, as the format numbers them.
COMPUTE, SEND, COLLECTIVE = 4, 5, 7
ALL_REDUCE = 0


def varint(number: int) -> bytes:
    """Seven bits in a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of the format: numbers, texts, messages by their tags."""
    found = b""
    for tag, value in fields:
        if isinstance(value, int):
            found += varint(tag << 3) + varint(value)
        else:
            found += varint(tag << 3 | 2) + varint(len(value)) + value
    return found


def node(
    number: int, kind: int, *, after: Sequence[int] = (), us: int = 0, **attributes: int
) -> bytes:
    """What a rank does: its number, its kind, what comes before it, how long it takes."""
    named = [message((1, name.encode()), (9, value)) for name, value in attributes.items()]
    deps = [(5, other) for other in after]
    attr = [(10, one) for one in named]
    return message((1, number), (3, kind), *deps, (7, us), *attr)


def rank(nodes: Iterable[bytes]) -> bytes:
    """A rank's file."""
    head = message((1, b"0.0.4"))
    return b"".join(varint(len(one)) + one for one in (head, *nodes))


def step(us: int, size: int = 1_000_000) -> bytes:
    """Computes, then sums up with all others."""
    sums = node(2, COLLECTIVE, after=[1], comm_type=ALL_REDUCE, comm_size=size)
    return rank([node(1, COMPUTE, us=us), sums])


def write(folder: Path, ranks: Sequence[bytes]) -> Path:
    """Files of all ranks; the last of them."""
    folder.mkdir(exist_ok=True)
    path = folder / "none"
    for number, data in enumerate(ranks):
        path = folder / f"step.{number}.et"
        path.write_bytes(data)
    return path


def time_ms(workload: Path | str) -> float:
    """How long a trace takes where nothing is shared."""
    found = circuit_advice(str(workload), techniques="packet-switch", set=SMALL)
    assert found.measure == "group_mean_ms"
    return found.runs["group_mean_ms"].item()


def test_a_file_a_folder_and_a_description_are_one_trace(tmp_path: Path) -> None:
    # The later of two computes 300 us; then each sends half of 1 MB, twice.
    last = write(tmp_path / "trace", [step(100), step(300)])
    expected = (300 + 1e6 / BYTES_PER_US) / 1e3
    assert time_ms(last) == pytest.approx(expected, rel=1e-6)
    assert time_ms(last.parent) == pytest.approx(expected, rel=1e-6)
    described = tmp_path / "job.toml"
    head = 'schema = 1\nkind = "trace"\ntitle = "two ranks"\n'
    for trace in ("trace", "trace/step.0.et"):
        described.write_text(f'{head}trace = "{trace}"\n')
        assert time_ms(described) == pytest.approx(expected, rel=1e-6)
    # At one server they send each other nothing.
    described.write_text(f'{head}trace = "trace"\nranks_per_server = 2\n')
    assert time_ms(described) == pytest.approx(0.3)


def test_files_may_be_packed(tmp_path: Path) -> None:
    last = write(tmp_path, [gzip.compress(step(100)), gzip.compress(step(300))])
    assert time_ms(last) == pytest.approx((300 + 1e6 / BYTES_PER_US) / 1e3, rel=1e-6)


def test_a_trace_that_changes_is_read_again(tmp_path: Path) -> None:
    last = write(tmp_path, [step(100), step(300)])
    before = time_ms(last)
    last.write_bytes(step(900))
    assert time_ms(last) == pytest.approx(before + 0.6, rel=1e-6)


def test_schedules_of_a_trace_are_compared(halfwink: Halfwink, tmp_path: Path) -> None:
    last = write(tmp_path, [step(50)] * 12)
    techniques = ["--technique", "packet-switch,static-circuits,rotor"]
    done = halfwink("circuits", "advise", str(last), *SET, *techniques)
    assert done.status == 0, done.err
    assert all(len(line) <= 80 for line in done.out.splitlines()), done.out
    rows = {line.split()[0]: line.split() for line in done.out.splitlines()[1:4]}
    # The ring of an all-reduce is what static circuits join: as fast, at less energy.
    packets, ring = (float(rows[name][1]) for name in ("packet-switch", "static-circuits"))
    assert packets == pytest.approx(0.05 + 22 / 12 * 1e3 / BYTES_PER_US, rel=1e-3)
    assert ring == pytest.approx(packets, rel=0.02)
    assert float(rows["static-circuits"][2]) < float(rows["packet-switch"][2])


def cyclic() -> bytes:
    """Two computations that wait for each other."""
    return rank([node(1, COMPUTE, after=[2], us=1), node(2, COMPUTE, after=[1], us=1)])


LONELY = rank([node(1, SEND, comm_dst=1, comm_size=8)])


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([step(1)[:-3]] * 2, "step.0.et: byte 15: a message of "),
        ([step(1), step(1)[:-3]], "step.1.et: byte 15: a message of "),
        ([b"not a trace, but a text of some length\n"], "step.0.et: byte 0: a message of 110"),
        ([b"\x04\x0a\x09\x00\x00"], "step.0.et: byte 0: "),
        ([b""], "step.0.et: found nothing, expected an execution trace"),
        ([rank([])], "step.0.et: found nothing that takes time, expected nodes"),
        ([gzip.compress(step(1))[:-9]], "step.0.et: packed by gzip, and damaged"),
        ([cyclic()], "step.0.et: node 1: waits for itself, by way of others"),
        ([rank([node(1, COMPUTE, after=[9], us=1)])], "node 1: waits for node 9"),
        ([step(1, 20), step(1, 40)], "step.1.et: node 2: AllReduce of 40 bytes, expected"),
        ([step(1), rank([node(1, COMPUTE, us=1)])], "step.1.et: 0 collectives, expected 1"),
        ([LONELY, step(1)], "step.0.et: 0 collectives, expected 1"),
        ([LONELY, rank([node(1, COMPUTE, us=1)])], "node 1: nobody receives it"),
        ([LONELY], "node 1: comm_dst 1, expected another rank of 0 to 0"),
        ([step(1)] * 13, "step.0.et: 13 ranks on 13 servers, expected at most 12"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    halfwink: Halfwink, tmp_path: Path, ranks: list[bytes], said: str
) -> None:
    last = write(tmp_path, ranks)
    done = halfwink("circuits", "advise", str(last), *SET)
    assert done.status == 2
    assert said in done.complaint


def test_files_that_are_not_there_are_told(halfwink: Halfwink, tmp_path: Path) -> None:
    def complaint(name: Path) -> str:
        done = halfwink("circuits", "advise", str(name), *SET)
        assert done.status == 2
        return done.complaint

    last = write(tmp_path / "trace", [step(1)] * 3)
    (last.parent / "step.1.et").unlink()
    assert "step.1.et is not there, but step.2.et is" in complaint(last)
    assert "expected a name such as trace.0.et, of a rank" in complaint(last.parent / "step.et")
    (last.parent / "other.0.et").write_bytes(step(1))
    assert "traces `other` and `step`, expected one" in complaint(last.parent)
    (tmp_path / "empty").mkdir()
    assert "found no files, expected trace.0.et and so on" in complaint(tmp_path / "empty")
    assert "no/where" in complaint(Path("no/where/step.0.et"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('trace = "trace"\nranks_per_server = 0\n', "job.toml:5: ranks_per_server: found 0, "),
        ('trace = "trace"\nranks_per_server = -1\n', "job.toml:5: ranks_per_server: found -1, "),
        ('trace = "trace"\nranks_per_server = "2"\n', 'invalid type: string "2", expected'),
        ('trace = "trace"\nranks_per_node = 2\n', "ranks_per_node"),
        ("ranks_per_server = 2\n", "missing field `trace`"),
        ('trace = "nowhere"\n', "nowhere: expected a name such as trace.0.et"),
        ('trace = "nowhere/step.0.et"\n', "nowhere/step.0.et: "),
    ],
)
def test_wrong_descriptions_are_one_line(
    halfwink: Halfwink, tmp_path: Path, lines: str, said: str
) -> None:
    write(tmp_path / "trace", [step(1)] * 2)
    described = tmp_path / "job.toml"
    described.write_text(f'schema = 1\nkind = "trace"\ntitle = "two ranks"\n{lines}')
    done = halfwink("circuits", "advise", str(described), *SET)
    assert done.status == 2
    assert said in done.complaint


def test_a_description_of_a_trace_has_no_load(halfwink: Halfwink) -> None:
    done = halfwink("circuits", "advise", "data-parallel-8@5", *SET)
    assert done.status == 2
    assert "data-parallel-8 has no load, expected no `@`" in done.complaint
