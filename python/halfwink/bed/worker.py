"""Generator or sink inside a namespace, told what to do by lines of JSON.

It lives as long as its bed, so that a trial does not wait for an interpreter to begin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from typing import Any

from halfwink import traffic
from halfwink.bed.places import Place, python
from halfwink.errors import HalfwinkError, RunError

KINDS = {"generator": traffic.Generator, "sink": traffic.Sink}


class Worker:
    """Our end: a generator or a sink in a namespace."""

    def __init__(self, place: Place, cpus: Collection[int] = ()) -> None:
        """Begins one that does nothing yet."""
        self._place = place
        self._process = place.start(
            [python(), "-c", "from halfwink.bed.worker import main; main()"],
            cpus=cpus,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its number out here."""
        return self._process.pid

    def begin(self, kind: str, **options: Any) -> None:
        """Begins a `generator` or a `sink`.

        Raises:
            HalfwinkError: something of the options cannot be.
            RunError: the kernel refuses.
        """
        self._ask("begin", kind=kind, options=options)

    def wait(self, seconds: float) -> bool:
        """Waits so long at most; whether it has ended."""
        return self._ask("wait", seconds=seconds)

    def stop(self) -> None:
        """Asks it to end."""
        self._ask("stop")

    def result(self) -> dict[str, Any]:
        """Waits for its end; what it found."""
        return self._ask("result")

    def resolve(self, interface: str, destination: str) -> str:
        """MAC address of the next hop to a destination."""
        return self._ask("resolve", interface=interface, destination=destination)

    def close(self) -> None:
        """Ends the process."""
        for pipe in (self._process.popen.stdin, self._process.popen.stdout):
            if pipe is not None:
                pipe.close()
        self._process.stop()

    def _ask(self, what: str, **values: Any) -> Any:
        popen = self._process.popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        try:
            popen.stdin.write(json.dumps({"do": what} | values) + "\n")
            popen.stdin.flush()
            line = popen.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RunError(f"{self._place.name}: the worker ended, status {popen.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise (HalfwinkError if answer["wrong"] else RunError)(answer["error"])
        return answer["is"]


def main() -> None:
    """The other end."""
    work: Any = None
    for line in sys.stdin:
        told = json.loads(line)
        answer: dict[str, Any] = {"is": None}
        try:
            match told["do"]:
                case "begin":
                    work = KINDS[told["kind"]](**told["options"])
                case "wait":
                    answer["is"] = work.wait(told["seconds"])
                case "stop":
                    work.stop()
                case "resolve":
                    answer["is"] = traffic.resolve(told["interface"], told["destination"])
                case _:
                    answer["is"] = work.result()
        except (HalfwinkError, RunError) as error:
            answer = {"error": str(error), "wrong": isinstance(error, HalfwinkError)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
