"""The programs of workloads/programs do what their names say: against known answers."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
from pathlib import Path

import pytest
from conftest import need

from halfwink.library import root

Arc = tuple[int, int, int, int]
"""Tail, head (from 1), capacity, cost."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc")
    made = tmp_path_factory.mktemp("programs")
    for source in sorted((root() / "workloads" / "programs").glob("*.c")):
        strict = ["-Wall", "-Wextra", "-Werror"]
        words = ["gcc", "-O2", *strict, "-o", str(made / source.stem), str(source), "-lm"]
        subprocess.run(words, check=True)
    return made


@pytest.fixture(autouse=True)
def _asks() -> None:
    need("gcc")


def run(folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [str(folder / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def solve(folder: Path, nodes: int, supplies: dict[int, int], arcs: list[Arc]) -> int:
    lines = [f"p min {nodes} {len(arcs)}", *(f"n {i} {b}" for i, b in supplies.items())]
    lines += [f"a {tail} {head} 0 {room} {cost}" for tail, head, room, cost in arcs]
    problem = folder / "problem.min"
    problem.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(run(folder, "mcf", str(problem)).split()[1])


def by_shortest_paths(nodes: int, supplies: dict[int, int], arcs: list[Arc]) -> int | None:
    """The least cost by another method: cheapest augmenting paths, one after the other
    (Bellman and Ford's); none if there is no flow."""
    source, sink = 0, nodes + 1
    edges = [[tail, head, room, cost] for tail, head, room, cost in arcs]
    edges += [[source, i, b, 0] for i, b in supplies.items() if b > 0]
    edges += [[i, sink, -b, 0] for i, b in supplies.items() if b < 0]
    both = [e for t, h, room, c in edges for e in ([t, h, room, c], [h, t, 0, -c])]
    total, left = 0, sum(b for b in supplies.values() if b > 0)
    while left > 0:
        far = [math.inf] * (nodes + 2)
        by: list[int] = [-1] * (nodes + 2)
        far[source] = 0
        for _ in range(nodes + 1):
            for i, (tail, head, room, cost) in enumerate(both):
                if room > 0 and far[tail] + cost < far[head]:
                    far[head], by[head] = far[tail] + cost, i
        if far[sink] == math.inf:
            return None
        path, node = [], sink
        while node != source:
            path.append(by[node])
            node = both[by[node]][0]
        most = min(left, *(both[i][2] for i in path))
        for i in path:
            both[i][2] -= most
            both[i ^ 1][2] += most
        total, left = total + most * int(far[sink]), left - most
    return total


def test_mcf_finds_the_best_assignment(folder: Path) -> None:
    dice = random.Random(1)
    size = 7
    costs = [[dice.randrange(100) for _ in range(size)] for _ in range(size)]
    best = min(
        sum(costs[i][j] for i, j in enumerate(order))
        for order in itertools.permutations(range(size))
    )
    supplies = {i + 1: 1 for i in range(size)} | {size + i + 1: -1 for i in range(size)}
    arcs = [(i + 1, size + j + 1, 1, costs[i][j]) for i in range(size) for j in range(size)]
    assert solve(folder, 2 * size, supplies, arcs) == best


@pytest.mark.parametrize("seed", range(30))
def test_mcf_finds_the_least_cost(folder: Path, seed: int) -> None:
    """Networks with arcs that fill up, ties, and costs below nothing."""
    dice = random.Random(seed)
    nodes = dice.randrange(6, 30)
    # Some costs are below nothing, but no way round is.
    height = [dice.randrange(20) for _ in range(nodes + 1)]
    arcs: list[Arc] = []
    for _ in range(6 * nodes):
        tail, head = dice.sample(range(1, nodes + 1), 2)
        cost = dice.randrange(12) + height[head] - height[tail]
        arcs.append((tail, head, dice.randrange(6), cost))
    # Whatever does not fit goes round by the first node, dearly.
    supplies = dict.fromkeys(range(1, nodes + 1), 0)
    for _ in range(nodes):
        tail, head = dice.sample(range(1, nodes + 1), 2)
        supplies[tail] += 1
        supplies[head] -= 1
    arcs += [arc for i in range(2, nodes + 1) for arc in ((i, 1, 99, 90), (1, i, 99, 90))]
    assert solve(folder, nodes, supplies, arcs) == by_shortest_paths(nodes, supplies, arcs)


def test_mcf_says_what_cannot_be(folder: Path) -> None:
    problem = folder / "impossible.min"
    problem.write_text("p min 3 1\nn 1 1\nn 3 -1\na 1 2 0 1 1\n", encoding="utf-8")
    assert run(folder, "mcf", str(problem), status=1) == "mcf: there is no such flow\n"
    problem.write_text("p min 2 1\na 1 3 0 1 1\n", encoding="utf-8")
    assert "nodes that are not there" in run(folder, "mcf", str(problem), status=1)
    assert "expected `p min" in run(folder, "mcf", __file__, status=1)


def test_mcf_solves_its_own_problem(folder: Path) -> None:
    """It checks itself that flows fit and that no arc would help; starts must not matter."""
    first = run(folder, "mcf", "trips", "500", "8000", "1", "100")
    assert first == run(folder, "mcf", "trips", "500", "8000", "1", "-1")
    assert first != run(folder, "mcf", "trips", "500", "8000", "2", "-1")


def test_fdtd_keeps_the_frequency_of_a_mode(folder: Path) -> None:
    """A mode of the box swings as the scheme's own dispersion relation says (Taflove, Hagness 2005,
    eq 4.5): e(n+1) - 2 e(n) + e(n-1) = -4 (c dt)^2 (sin^2(kx/2) + sin^2(kz/2)) e(n)."""
    cells, courant = 12, 0.5
    values = [float(line) for line in run(folder, "fdtd", str(cells), "60", "0", "mode").split()]
    factor = 4 * courant**2 * 2 * math.sin(math.pi / cells / 2) ** 2
    for before, now, after in zip(values, values[1:], values[2:], strict=False):
        assert after - 2 * now + before == pytest.approx(-factor * now, abs=1e-13)
    assert min(values) < -0.5 < 0.5 < max(values)


def test_fdtd_absorbs_a_pulse(folder: Path) -> None:
    values = [float(line) for line in run(folder, "fdtd", "40", "1500", "0", "pulse").split()]
    early, late = (max(map(abs, part)) for part in (values[:300], values[1200:]))
    assert 0 < late < early / 10


def test_lbm_keeps_mass_and_follows_the_lid(folder: Path) -> None:
    words = run(folder, "lbm", "20", "20", "26", "400", "0").split()
    before, after, below_lid, middle = (float(words[i]) for i in (1, 2, 4, 5))
    assert after == pytest.approx(before, rel=1e-10)
    assert below_lid > 0.1
    assert middle < 0


@pytest.mark.parametrize("which", ["getpid", "gettimeofday", "read", "write", "mix"])
def test_syscalls_succeed(folder: Path, which: str) -> None:
    assert run(folder, "syscalls", which, "1000", "10") == "1000 of 1000\n"


def test_a_stream_arrives_whole(folder: Path) -> None:
    said = run(folder, "tcpstream", "200", "10").splitlines()
    assert sorted(said) == [f"{200 * 65536} bytes read", f"{200 * 65536} bytes sent"]


@pytest.mark.parametrize("name", ["fdtd", "lbm", "mcf", "syscalls", "tcpstream"])
def test_wrong_use_is_one_line(folder: Path, name: str) -> None:
    said = run(folder, name, status=2)
    assert said.startswith(f"usage: {name} ")
    assert said.count("\n") == 1


def test_page_sends_what_it_is_asked_for(folder: Path) -> None:
    done = subprocess.run(
        [str(folder / "page")],
        capture_output=True,
        text=True,
        check=True,
        env={"REQUEST_URI": "/f/1"},
    )
    assert done.stdout.startswith("Status: 404 ")
