"""What tests share."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar

import costs
import jsonschema
import neighbours
import pytest
from costs import Costs
from shards import Shards
from warm import Commands

from halfwink import bed, capture, programs, schemas
from halfwink.capture import host, recorder
from halfwink.capture.errors import MissingRequirementError
from halfwink.errors import HalfwinkError
from halfwink.live import native
from halfwink.live import preheat as live_preheat

# A shell's background jobs ignore Ctrl-C, and so would what tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: What is missing fails, instead of being skipped.
REQUIRED = bool(os.environ.get("HALFWINK_REQUIRE_ALL"))
#: What is missing may be installed.
INSTALLS = os.geteuid() == 0 and not os.environ.get("HALFWINK_NO_INSTALL")


def lacking(what: str, *, kernel: bool = False) -> NoReturn:
    """Skips a test, with the line that adds what it needs; fails if everything is required.

    Args:
        what: that something is missing, and how to add it.
        kernel: nothing that could be installed is: the kernel, or a right, is in the way.
    """
    if REQUIRED and not kernel:
        pytest.fail(what)
    pytest.skip(what)


#: Longest wait for an event. A slow machine with busy neighbours needs most of a minute for what
#: takes a second on another.
PATIENCE_S = 120.0


def tool(name: str) -> ModuleType:
    """Imports a program of ``tools``, which is no package."""
    folder = str(Path(__file__).parents[2] / "tools")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def wait_until(true: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Until something is true, which it returns, or the test fails."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "not in time"
        time.sleep(0.005)
    return found


Found = TypeVar("Found")
_room = neighbours.Room(os.environ.get("PYTEST_XDIST_TESTRUNUID", ""))
_waiting = neighbours.Waiting()


@contextmanager
def quiet() -> Generator[None]:
    """Around what measures this machine: waits until nothing else uses it, tests of other workers
    included.

    If it stays busy, or if something fails inside while it was busy, the test is skipped with a
    line that says so, also where everything is required: a neighbour never fails a test.
    """
    _room.enter(alone=True)
    try:
        if found := _waiting.disturbed():
            lacking(f"needs a quiet machine: {found}", kernel=True)
        before = neighbours.look()
        try:
            yield
        except pytest.skip.Exception:
            raise
        except (Exception, pytest.fail.Exception) as error:
            if found := neighbours.look().since(before, asleep=False):
                lacking(f"needs a quiet machine: meanwhile {found} ({error!r:.200})", kernel=True)
            raise
    finally:
        _room.enter()


def undisturbed(
    trial: Callable[[], Found],
    wrong: Callable[[Found], str | None],
    *,
    times: int = 3,
    alone: bool = False,
) -> Found:
    """Repeats a trial that other work on the machine may spoil: once as the machine is, then on a
    quiet one.

    Args:
        trial: runs it; what must hold in any case it asserts itself.
        wrong: what other work may have spoilt, if anything.
        times: trials on the quiet machine before the test fails.
        alone: the trial is dear, or takes whole CPUs from others: only on a quiet machine.
    """
    if not alone and wrong(found := trial()) is None:
        return found
    with quiet():
        said = None
        for _ in range(times):
            if (said := wrong(found := trial())) is None:
                return found
        pytest.fail(said or "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Fixtures of modules are made and ended in the room too."""
    _room.enter()
    try:
        return (yield)
    finally:
        _room.leave()


def pytest_sessionfinish() -> None:
    """Leaves no lock behind."""
    _room.close()


def descendants(pid: int) -> set[int]:
    """A process and all that it has begun, by number. Other tests may run beside this one."""
    known = neighbours.processes()
    found = {pid}
    while more := {n for n, one in known.items() if one.parent in found} - found:
        found |= more
    return found


def received(place: bed.Place, interface: str) -> int:
    """Frames that an interface of a test bed has received since it was made."""
    return int(place.run(["cat", f"/sys/class/net/{interface}/statistics/rx_packets"]))


#: Optional programs that the running test, or a fixture of its module, has asked for.
_asked: set[str] = set()


def need(*names: str) -> str:
    """Asks for optional programs; the path of the first.

    Raises:
        KeyError: one is not in `halfwink.programs`, so that nobody would install it.
    """
    found = [programs.find(name) for name in names]
    for program in found:
        if program.path is None:
            lacking(program.missing)
        _asked.add(program.name)
    return str(found[0].path)


def need_bed() -> None:
    """Asks for what the test bed of routers needs."""
    need(*bed.NEEDS)
    for thing in bed.needs():
        if not thing.present:
            lacking(f"{thing.name}: {thing.detail}; run: {thing.fix}", kernel=True)


def need_preheating() -> None:
    """Asks for what preheating of servers on this machine needs."""
    try:
        live_preheat.preload_library()
    except HalfwinkError as error:
        lacking(str(error))
    for what, why in native.live_features():
        if what.startswith("preheat:") and why:
            lacking(f"{what}: {why}", kernel=True)
    try:
        live_preheat.cpus()
    except HalfwinkError as error:
        lacking(str(error), kernel=True)


def need_qemu() -> None:
    """Asks for QEMU, which the package itself knows how to install."""
    try:
        if INSTALLS:
            host.ensure_qemu()
    except MissingRequirementError as error:
        lacking(str(error))
    found = host.requirements()[0]
    if not found.present:
        lacking(f"{found.detail}; run: {found.fix}")


def need_recorder() -> None:
    """Asks for a QEMU that records programs."""
    need(recorder.QEMU)
    there, found = recorder.requirement()
    if not there:
        lacking(f"{found}; run: {recorder.fix()}")


def need_capture() -> None:
    """Asks for QEMU and a guest; root's first capture makes one, and installs what it takes."""
    need_qemu()
    for thing in [] if INSTALLS else capture.available():
        if not thing.present:
            lacking(f"{thing.detail}; run: {thing.fix}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options: what tests cost, and which parts of test-full are played."""
    parser.addoption(
        "--costs",
        choices=("warn", "show", "record"),
        nargs="?",
        const="show",
        default="warn",
        help="the dearest tests, at the end; record: write budgets.toml",
    )
    parser.addoption(
        "--shards", default="", help="parts of test-full to play: names, all, or touched"
    )
    parser.addoption(
        "--record-shards", action="store_true", help="write down that these parts have passed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Counts costs; from now on no test starts an optional program that it has not asked for."""
    config.pluginmanager.register(Costs(config.getoption("--costs")), "costs")
    wanted, record = config.getoption("--shards"), config.getoption("--record-shards")
    config.pluginmanager.register(Shards(wanted, record=record), "shards")
    sys.addaudithook(_watch)


_OPTIONAL = frozenset(program.name for program in programs.PROGRAMS)


def _watch(event: str, what: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen":
        return
    words = [os.fsdecode(w) for w in ([what[1]] if isinstance(what[1], str | bytes) else what[1])]
    # The program, and those that it begins: `nsenter ... PATH=... ping`, `halfwink ... -- nginx`.
    begun = words[:1] + [
        word
        for before, word in itertools.pairwise(words)
        if before == "--" or before.startswith("PATH=")
    ]
    for name in (Path(word).name for word in begun):
        if name in _OPTIONAL and name not in _asked:
            raise AssertionError(f"this test starts {name}: ask first, by need({name!r})")


@pytest.fixture(scope="module", autouse=True)
def _asked_by_a_module() -> Generator[None]:
    yield
    _asked.clear()


@pytest.fixture(autouse=True)
def _asked_by_a_test(_asked_by_a_module: None) -> Generator[None]:
    before = frozenset(_asked)
    yield
    _asked.intersection_update(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what else `make test` has skipped."""
    told = os.environ.get("HALFWINK_SKIPPED")
    lines = Path(told).read_text().splitlines() if told else []
    if lines:
        terminalreporter.section("skipped beside these tests", "=")
        terminalreporter.write_line("\n".join(lines))


def document(text: str) -> Any:
    """The JSON document of a command, which must be what its schema says."""
    found = json.loads(text)
    kind = schemas.kind_of(found)
    assert kind is not None, found
    if kind == "tables":
        kind = schemas.of_command(found["command"])
        for table in found["tables"].values():
            names = {column["name"] for column in table["columns"]}
            assert all(names.issuperset(row) for row in table["rows"]), names
    jsonschema.validate(found, schemas.schema(kind))
    return found


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table of the document on standard output."""
        return self.json()["tables"][table]["rows"]

    def json(self) -> Any:
        return document(self.out)

    @property
    def complaint(self) -> str:
        """The one line of an error."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("halfwink: ")
        return lines[0].removeprefix("halfwink: ")


Halfwink = Callable[..., Done]


@pytest.fixture(scope="session")
def commands() -> Generator[Commands]:
    """Runs commands of this worker without a new start of Python for each."""
    found = Commands()
    yield found
    found.close()


@pytest.fixture
def halfwink(tmp_path: Path, commands: Commands) -> Halfwink:
    """Runs the command line in an empty folder, as a fork of a warm process.

    With an environment of its own it is a new process: libraries read theirs while they start.
    """

    def run(*words: str, env: dict[str, str] | None = None, timeout: float = 1200) -> Done:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **(env or {})}
        if env is None:
            _watch("subprocess.Popen", (None, words))
            ended = commands.run(words, cwd=tmp_path, env=environment, timeout=timeout)
            costs.of_forks_s += ended.cpu_s
            return Done(ended.status, ended.out, ended.err)
        done = subprocess.run(
            [sys.executable, "-m", "halfwink", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
