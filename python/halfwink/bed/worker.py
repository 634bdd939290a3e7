"""Generator or sink inside a namespace, told what to do by lines of JSON.

It lives as long as its bed, so that a trial does not wait for an interpreter to begin.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from typing import Any

from halfwink.bed import traffic
from halfwink.bed.lines import ask, hang_up, serve
from halfwink.bed.places import Place, python

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
        """Process number outside of its namespace."""
        return self._process.pid

    def begin(self, kind: str, **options: Any) -> None:
        """Begins a `generator` or a `sink`.

        Raises:
            HalfwinkError: an option is invalid.
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
        """Stops the process of the worker."""
        hang_up(self._process)
        self._process.stop()

    def _ask(self, what: str, **values: Any) -> Any:
        return ask(self._place, self._process, {"do": what} | values)


def main() -> None:
    """Runs the worker's end of the pipe."""
    work: Any = None

    def answer(told: dict[str, Any]) -> Any:
        nonlocal work
        match told["do"]:
            case "begin":
                work = KINDS[told["kind"]](**told["options"])
            case "wait":
                return work.wait(told["seconds"])
            case "stop":
                work.stop()
            case "resolve":
                return traffic.resolve(told["interface"], told["destination"])
            case _:
                return work.result()
        return None

    serve(answer)
