"""Every command that writes files, on a disk that is full at one call, or killed there: one line
that names the file, nothing half written that passes for whole, and the same bytes by the same
command again."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import costs
import pytest
from conftest import need
from warm import Commands, Ended

from halfwink.results import packs

CORPUS = Path(__file__).parents[2] / "tests/corpus"
PROGRAM = Path(__file__).parent / "programs/failing_writes.c"
LOAD = ("count@30", "-w", "server", "-t", "hybrid", "--set", "requests=500")
STUDY = """schema = 1
title = "small"
world = "server"
workloads = ["count@30"]
machines = ["niccolini"]
techniques = ["hybrid"]
[sweep]
requests = [{}]
"""
RUN = ("run", "s.toml", "-o", "out", "-q")
PART = (*RUN, "--part", "1/1")
POLICY = ("new-policy", "my-gate", "--family", "gating")
#: Commands by what they write, with those that have to run before.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "results of compare": (("compare", *LOAD, "-o", "out", "-q"),),
    "results of a study": (RUN,),
    "a part": (PART,),
    "packs": (("run", "many.toml", "-o", "out", "-q", "--part", "1/1"),),
    "collected parts": (PART, (*RUN, "--collect")),
    "a report": (RUN, ("report", "out", "-q")),
    "an index": (RUN, ("report", ".", "--index", "-q")),
    "a table": (RUN, ("query", "out", "select technique from runs", "-o", "q.csv")),
    "a figure": (RUN, ("report", "out", "--plot", "a.svg", "-q")),
    "event logs": (("compare", *LOAD, "--log", "a.log", "-o", "out", "-q"),),
    "a trace": (("trace", "import", str(CORPUS / "champsim.xz"), "-o", "a.hwt"),),
    "a profile": (("profile", "--service-mean", "200us", "-o", "p.toml"),),
    "a policy": (("new-policy", "my-gate", "--family", "gating"),),
    "a policy in Python": (
        ("new-policy", "my-gate", "--family", "gating", "--language", "python"),
    ),
}
#: Calls of a command that a sample has, for each way to fail; drawing takes longest.
SAMPLE, OF_DRAWINGS = 2, 1
DRAWINGS = ("a figure", "a report")
#: What the host took differs from run to run, and stands in the report.
OF_HOST = re.compile(r"host\.(jsonl|parquet)$|\.html$")
#: Files that are not there yet: a command that is killed cannot take them away.
PARTIAL = re.compile(r"(^|/)\.[^/]+\.[0-9a-f]{16}(/|$)")
#: How `replay` tells that a log is not whole.
CUT = re.compile(r"cut|first gap")
PACK = re.compile(r"/pack-[0-9a-f]+\.jsonl$")

Tree = dict[str, bytes]


@dataclass
class Bench:
    """A folder in which commands run with the library that lets calls fail."""

    commands: Commands
    folder: Path
    #: The folder as it was before the command.
    begun: Path
    calls: Path
    cache: Path

    def begin(self, before: Sequence[tuple[str, ...]]) -> None:
        """Runs what has to run before the command, and keeps the folder as it is then."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "s.toml").write_text(STUDY.format("500, 600"))
        many = ", ".join(str(200 + n) for n in range(packs.LEAST))
        (self.folder / "many.toml").write_text(STUDY.format(many))
        for words in before:
            ended, _ = self.run(words)
            assert ended.status == 0, ended.err
        shutil.rmtree(self.begun, ignore_errors=True)
        shutil.copytree(self.folder, self.begun)

    def again(self) -> None:
        """Makes the folder as it was before the command."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.begun, self.folder)

    def run(self, words: Sequence[str], at: int = 0, how: str = "full") -> tuple[Ended, list[str]]:
        """Runs a command of which that call fails; returns also all calls that were made."""
        self.calls.unlink(missing_ok=True)
        failing = {
            "FAILING_BELOW": str(self.folder),
            "FAILING_LOG": str(self.calls),
            "FAILING_AT": str(at),
            "FAILING_HOW": how,
        }
        env = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **failing}
        ended = self.commands.run(words, cwd=self.folder, env=env, timeout=1200)
        costs.of_forks_s += ended.cpu_s
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return ended, [call.replace(f"{self.folder}/", "") for call in calls]

    def tree(self) -> Tree:
        """Returns all files; of a pack its results, which may stay apart when a command goes on."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        tree = {str(path.relative_to(self.folder)): path.read_bytes() for path in files}
        for name in [name for name in tree if PACK.search(name)]:
            for line in tree.pop(name).splitlines():
                key, _, content = line.partition(b" ")
                tree[PACK.sub(f"/{key.decode()}.json", name)] = content
        return tree


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[Bench]:
    folder = tmp_path_factory.mktemp("failing")
    library = folder / "failing_writes.so"
    flags = ["-O2", "-shared", "-fPIC", str(PROGRAM), "-o", str(library), "-ldl"]
    subprocess.run([need("gcc"), *flags], check=True)
    commands = Commands(library)
    yield Bench(commands, *(folder / name for name in ("work", "begun", "calls", "cache")))
    commands.close()


def same(name: str, content: bytes | None, whole: Tree) -> bool:
    """Returns whether a file is as an undisturbed command leaves it."""
    if OF_HOST.search(name) is None:
        return content == whole.get(name)
    if name.endswith(".html"):
        return content is not None and content.rstrip().endswith(b"</html>")
    # A run is kept before what the host took for it: a kill between both loses that, and the run
    # is not played again for it.
    return True


def named(call: str) -> str:
    """Returns the file that a message on this call has to name, a folder, or the end of either."""
    return re.sub(r"\.([^/]+)\.[0-9a-f]{16}", r"\1", call.partition(" ")[2])


def told(bench: Bench, ended: Ended, call: str, how: str) -> Iterator[str]:
    """Finds what is wrong with the end of a command."""
    if "Traceback" in ended.err or "unexpected" in ended.err:
        yield f"not one line: {ended.err[-300:]}"
    if how == "killed":
        return
    if ended.status not in (1, 2):
        yield f"status {ended.status}"
    last = (ended.err.splitlines() or [""])[-1]
    if "No space left on device" not in last:
        yield f"no reason: {last}"
    # A folder that cannot be made is named, or the file that was to be in it.
    if named(call) not in last:
        yield f"no name: {last}"


def faults(
    bench: Bench, words: Sequence[tuple[str, ...]], chosen: Callable[[int, str], list[int]]
) -> list[str]:
    """Lets the chosen calls of the last command fail; returns what was wrong then and after the
    same command again."""
    *before, command = words
    bench.begin(before)
    ended, calls = bench.run(command)
    assert ended.status == 0, ended.err
    whole = bench.tree()
    found: list[str] = []
    for how in ("full", "killed"):
        for at in chosen(len(calls), how):
            bench.again()
            earlier = bench.tree()
            ended, made = bench.run(command, at, how)
            assert len(made) >= at, f"{made}: {len(calls)} calls before"
            wrong = list(told(bench, ended, made[at - 1], how))
            for name, content in bench.tree().items():
                is_partial = how == "killed" and PARTIAL.search(name) is not None
                if earlier.get(name) == content or is_partial or same(name, content, whole):
                    continue
                # Logs grow while a command runs: what reads them says that they are cut, or lack
                # what found no room.
                said = bench.run(("replay", name))[0] if name.endswith(".log") else None
                if said is None or (said.status == 0 and not CUT.search(said.out)):
                    wrong.append(f"{name} is left, {len(content)} bytes long")
            again, _ = bench.run(command)
            if again.status != 0:
                wrong.append(f"again: {again.err}")
            after = bench.tree()
            wrong += [f"{name} differs" for name in whole if not same(name, after.get(name), whole)]
            found += [f"{how} at call {at}, {made[at - 1]}: {it}" for it in wrong]
    return found


@pytest.mark.parametrize("what", COMMANDS)
def test_a_full_disk_or_a_kill_leaves_nothing_half_written(bench: Bench, what: str):
    def sample(count: int, how: str) -> list[int]:
        size = OF_DRAWINGS if what in DRAWINGS else SAMPLE
        return sorted(random.Random(f"{what} {how}").sample(range(1, count + 1), size))

    found = faults(bench, COMMANDS[what], sample)
    assert not found, "\n".join(found)


@pytest.mark.full("hostile")
@pytest.mark.parametrize("what", COMMANDS)
def test_each_call_that_fails_leaves_nothing_half_written(bench: Bench, what: str):
    found = faults(bench, COMMANDS[what], lambda count, _: list(range(1, count + 1)))
    assert not found, "\n".join(found)
