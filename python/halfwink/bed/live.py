"""A live router in a bed."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from halfwink.bed.places import Process, python
from halfwink.bed.topology import BEHIND_SINK, NETWORKS, ROUTER_PORTS, Bed
from halfwink.errors import RunError

#: Value of `forward` in descriptions of routers whose threads forward.
USER_SPACE = "user-space"
#: Longest that it takes to begin: Python, a native module, sockets.
BEGIN_S = 120.0


def description(
    *,
    io: str = "af-xdp",
    policy: str = "power-save-in-order",
    workers: int = 2,
    app: str = 'kind = "route"',
    forward: str = USER_SPACE,
    **values: Any,
) -> str:
    """A description of a live router between a bed's generator and sink, as TOML.

    Args:
        io: interface to the kernel for frames.
        policy: which scales it.
        workers: number of workers.
        app: lines of its application.
        forward: place where packets are forwarded. In the kernel, addresses and routes are its own.
        values: others of the first level.
    """
    head = {"schema": 1, "policy": policy, "workers": workers}
    if forward != USER_SPACE:
        ports = [line for port in ROUTER_PORTS for line in ("[[port]]", f'interface = "{port}"')]
        return "\n".join([*_lines(head | {"forward": forward} | values), *ports, ""])
    lines = _lines(head | {"routes": "routes.txt"} | values)
    for port, network in zip(ROUTER_PORTS, NETWORKS, strict=True):
        addresses = json.dumps([pair[0] for pair in network])
        lines += ["[[port]]", f'interface = "{port}"', f'io = "{io}"', f"addresses = {addresses}"]
    return "\n".join([*lines, "[app]", app, ""])


def _lines(values: dict[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]


def routes() -> str:
    """Routes to what is behind the sink."""
    hops = [pair[1].split("/")[0] for pair in NETWORKS[1]]
    return "".join(f"{prefix} via {hop}\n" for prefix, hop in zip(BEHIND_SINK, hops, strict=True))


class Live:
    """``halfwink live router`` in a bed's router namespace, while the context lasts."""

    def __init__(
        self,
        bed: Bed,
        text: str | None = None,
        *,
        route_lines: str | None = None,
        words: Sequence[str] = (),
        cpus: Sequence[int] = (),
        samples_s: float | None = None,
        under: Sequence[str] = (),
        binary: Path | None = None,
    ) -> None:
        """Begins it, and waits until it forwards.

        Args:
            bed: bed to run in; the router's addresses are taken from the kernel, unless that
                forwards.
            text: description of the router (default: `description()`).
            route_lines: routes of the router (default: `routes()`).
            words: more options of the command.
            cpus: CPUs that it may use (default: all).
            under: a command that runs ours, as ``setpriv --clear-groups``.
            samples_s: seconds between two samples of its report, if they are wanted.
            binary: ``halfwink-router``, to run instead of the command.

        Raises:
            RunError: the router does not start; with its message.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="halfwink-bed-")
        self.path = Path(self._folder.name) / "router.toml"
        self.routes = self.path.with_name("routes.txt")
        self.log = self.path.with_name("log.jsonl")
        self._out, self._err = self.path.with_name("out.json"), self.path.with_name("err.txt")
        self.path.write_text(text or description())
        # It may hold keys.
        self.path.chmod(0o600)
        self.routes.write_text(routes() if route_lines is None else route_lines)
        self._samples = self.path.with_name("samples.jsonl")
        if samples_s is not None:
            words = [*words, "--samples", str(self._samples), "--every-s", str(samples_s)]
        if tomllib.loads(self.path.read_text()).get("forward", USER_SPACE) == USER_SPACE:
            bed.hand_over()
        else:
            bed.forward()
        command = [python(), "-m", "halfwink", "live", "router", str(self.path), "-o"]
        if binary is not None:
            command = [str(binary), "--config", str(self.path), "--report"]
        with self._err.open("w") as said:
            self.process: Process = bed.router.start(
                [*under, *command, str(self._out), *words],
                cpus=list(cpus),
                stdin=subprocess.DEVNULL,
                # Its report goes to a file; the table would mix with what our user prints.
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        self._await()

    def _await(self) -> None:
        end = time.monotonic() + BEGIN_S
        while time.monotonic() < end:
            if any(line.endswith("ready") for line in self.said().splitlines()):
                return
            if self.process.popen.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        lines = [line for line in self.said().splitlines() if line] or ["it does not begin"]
        self._folder.cleanup()
        raise RunError(f"live router: {lines[0]}")

    def said(self) -> str:
        """Text that it has written to standard error."""
        return self._err.read_text()

    def samples(self) -> list[dict[str, Any]]:
        """Samples so far; each with ``at_ns``, its time on the machine's monotonic clock."""
        lines = self._samples.read_text().splitlines() if self._samples.exists() else []
        return [json.loads(line) for line in lines]

    def stop(self) -> int:
        """Ends it (SIGTERM): what has arrived is forwarded first. Its exit status."""
        return self.process.stop()

    def result(self) -> dict[str, Any]:
        """Ends it; its report."""
        status = self.stop()
        if status != 0 or not self._out.exists():
            raise RunError(f"live router: status {status}: {self.said().strip()[-300:]}")
        return json.loads(self._out.read_text())

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()
