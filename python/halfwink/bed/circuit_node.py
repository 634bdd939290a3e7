"""A circuit switch or a host's shaper inside a namespace, told what to do by lines of JSON."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from halfwink.bed.lines import ask, hang_up, serve
from halfwink.bed.places import Place, python
from halfwink.live import native

#: Longest that one takes to end.
END_S = 60.0


class CircuitNode:
    """Our end: a switch or a shaper in a namespace."""

    def __init__(self, place: Place, told: dict[str, Any]) -> None:
        """Begins one, and waits until it is at work.

        Args:
            place: namespace to run in.
            told: ``kind`` (switch, host) with what it takes; see `main`.

        Raises:
            RunError: the node does not start; with its message.
        """
        self._place = place
        words = [python(), "-c", "from halfwink.bed.circuit_node import main; main()"]
        self._process = place.start(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._ask(told)
        # Known while it runs: a signal must not look for it first.
        self._pid = self._process.pid

    @property
    def pid(self) -> int:
        """Process number outside of its namespace."""
        return self._pid

    def report(self, *, from_zero: bool = False) -> dict[str, Any]:
        """Returns the counters, and sets them to zero if ``from_zero``."""
        return self._ask({"do": "report", "from_zero": from_zero})

    def kill(self) -> None:
        """Kills it (SIGKILL): it has no time for anything."""
        self._process.signal(9)
        hang_up(self._process)
        self._process.popen.wait()

    def stop(self) -> None:
        """Ends it; a log is written to its end."""
        try:
            if self._process.popen.poll() is None:
                self._ask({"do": "stop"})
        finally:
            hang_up(self._process)
            try:
                # It ends by itself, now that nobody can tell it anything.
                self._process.popen.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.stop()

    def _ask(self, told: dict[str, Any]) -> Any:
        return ask(self._place, self._process, told)


def _begin(told: dict[str, Any]) -> Any:
    config = json.dumps(told["config"])
    if told["kind"] == "host":
        return native.CircuitHost(config)
    fabric = tuple(told["fabric"])
    return native.CircuitSwitch(told["technique"], fabric, config, log=told["log"])


def main() -> None:
    """Runs the node's end of the pipe."""
    work: Any = None

    def answer(told: dict[str, Any]) -> Any:
        nonlocal work
        match told["do"]:
            case "begin":
                work = _begin(told)
            case "report":
                return work.report(told["from_zero"]) | {"at_work": work.is_running()}
            case _:
                work.stop()
        return None

    serve(answer)
    if work is not None:
        work.stop()
