"""The command line in a process that has been forked from a warm one.

    python warm.py FD     forks for each connection to the listening socket of that number, until
                          standard input ends

Most of the time of a short command is the start of Python and of its libraries. A test worker
starts one process that has imported them, and each command is a fork of it: same arguments, folder,
environment and streams as a process of its own. No module that is imported here starts threads of
ours or of Python; Polars makes its pool when it is first used, which is in the fork.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

#: Bytes of a message that are read at once.
CHUNK = 1 << 16


def _imports() -> None:
    """Imports what commands do."""
    from halfwink.cli.main import COMMANDS

    for place, _ in COMMANDS.values():
        importlib.import_module(f"halfwink.cli.{place.partition(':')[0]}")
    for name in ("altair", "vl_convert", "halfwink.report.page"):
        importlib.import_module(name)


def _make_the_script_of_reports() -> None:
    """Makes the script that each report holds, once for all commands.

    It takes two seconds of a CPU, and a test's cache is empty. A child makes it, because the
    threads of V8 would be missing in every fork of this process.
    """
    from halfwink.report import page

    with tempfile.TemporaryFile("w+") as made:
        child = os.fork()
        if child == 0:
            made.write(page._vega_bundle())  # pyright: ignore[reportPrivateUsage]
            made.flush()
            os._exit(0)
        os.waitpid(child, 0)
        made.seek(0)
        script = made.read()
    page._vega_bundle = lambda: script  # pyright: ignore[reportPrivateUsage]


def _answer(connection: socket.socket) -> None:
    """Runs the command of a connection in a child, and says how it ended."""
    # The server ignores its children, commands do not.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(connection, CHUNK, 2)
    while more := connection.recv(CHUNK):
        message += more
    asked: dict[str, Any] = json.loads(message)
    child = os.fork()
    if child == 0:
        connection.close()
        _become(asked, descriptors)
    connection.send(json.dumps({"pid": child}).encode() + b"\n")
    _, status, used = os.wait4(child, 0)
    told = {"status": os.waitstatus_to_exitcode(status), "cpu": used.ru_utime + used.ru_stime}
    with suppress(OSError):
        connection.send(json.dumps(told).encode() + b"\n")


def _become(asked: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Is `python -m halfwink` from here on."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate([nothing, *descriptors]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["halfwink", *asked["words"]]
    from halfwink.__main__ import main

    status = 0
    try:
        main()
    except SystemExit as end:
        # As Python does with what is no number.
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking the interpreter apart would copy all memory that forks have in common.
    os._exit(status)


def serve(listener: socket.socket) -> None:
    """Forks for each connection until standard input ends, as it does with the test worker."""
    _imports()
    _make_the_script_of_reports()
    # A collection in a fork would copy what the imports have left.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
            os._exit(0)
        connection.close()


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str
    #: CPU seconds, those of its own children included.
    cpu_s: float


class Commands:
    """Runs commands as forks of one process, which is started by the first of them."""

    def __init__(self, preload: Path | None = None) -> None:
        """Commands with a library that is loaded before all others, if one is given."""
        self._preload = {} if preload is None else {"LD_PRELOAD": str(preload)}
        self._server: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="halfwink-warm-")
        self._path = f"{self._folder.name}/commands"

    def run(self, words: Sequence[str], *, cwd: Path, env: dict[str, str], timeout: float) -> Ended:
        """Runs `halfwink` with these words.

        Raises:
            subprocess.TimeoutExpired: after `timeout` seconds; the command has been killed.
        """
        command = {"words": list(words), "cwd": str(cwd), "env": env | self._preload}
        asked = json.dumps(command).encode()
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
        ):
            self._start()
            connection.connect(self._path)
            socket.send_fds(connection, [asked], [out.fileno(), err.fileno()])
            connection.shutdown(socket.SHUT_WR)
            answers = connection.makefile()
            pid = json.loads(answers.readline())["pid"]
            connection.settimeout(timeout)
            try:
                told = json.loads(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), timeout) from None
            texts: list[str] = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        return Ended(told["status"], *texts, told["cpu"])

    def _start(self) -> None:
        if self._server is not None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(self._path)
            listener.listen(64)
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno())],
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                env=os.environ | self._preload,
            )

    def close(self) -> None:
        """Ends the process; commands that still run are not ended."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self._folder.cleanup()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
