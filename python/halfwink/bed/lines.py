"""Processes of ours inside a namespace, told what to do by lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from halfwink.bed.places import Place, Process
from halfwink.errors import HalfwinkError, RunError


def ask(place: Place, process: Process, told: dict[str, Any]) -> Any:
    """Our end: tells it something, and waits for its answer.

    Raises:
        HalfwinkError: the request is invalid.
        RunError: the process cannot do that, or it has ended; with its message.
    """
    popen = process.popen
    assert popen.stdin is not None
    assert popen.stdout is not None
    try:
        popen.stdin.write(json.dumps(told) + "\n")
        popen.stdin.flush()
        line = popen.stdout.readline()
    except (BrokenPipeError, ValueError):
        line = ""
    if not line:
        raise RunError(f"{place.name}: it ended: status {popen.wait()}")
    answer = json.loads(line)
    if "error" in answer:
        raise (HalfwinkError if answer["wrong"] else RunError)(f"{place.name}: {answer['error']}")
    return answer["is"]


def hang_up(process: Process) -> None:
    """Closes its pipes: it is told nothing more."""
    for pipe in (process.popen.stdin, process.popen.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """The other end: answers each line until there are no more."""
    for line in sys.stdin:
        try:
            said = {"is": answer(json.loads(line))}
        except (HalfwinkError, RunError) as error:
            said = {"error": str(error), "wrong": isinstance(error, HalfwinkError)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
