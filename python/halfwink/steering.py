"""The live steering proxy: requests go to a small machine and a big one, which sleep when they can.

from halfwink.steering import LiveSteer

with LiveSteer("steer.toml") as steer:
    steer.report()["machines"]["big"]["residency"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from halfwink import _core
from halfwink.forwarding import read_log
from halfwink.library import library

__all__ = ["MACHINES", "LiveSteer", "modelled", "read_log", "replay"]

#: The two machines, as reports name them.
MACHINES = ("small", "big")


class LiveSteer:
    """A proxy at work, from its making until :meth:`stop`.

    Args:
        path: its description (TOML).
        log_lines: events of its policy to keep.

    Raises:
        HalfwinkError: the description is wrong.
        RunError: the machine does not allow it.
    """

    def __init__(self, path: str | Path, *, log_lines: int = 0) -> None:
        self._steer = _core.LiveSteer(library(), str(path), log_lines=log_lines)
        self._spec = self._steer.spec(library())
        self.path = Path(path)

    def __enter__(self) -> LiveSteer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where it listens: ``HOST:PORT``."""
        return self._steer.report()["listen"]

    def report(self) -> dict[str, Any]:
        """Counts and measured times since the start; ``modelled``: joules and watts of a model.

        Times in states (``machines.*.residency``) are in seconds, ``on_s`` by the number of
        requests in service; latencies in microseconds.
        """
        report = self._steer.report()
        machines = report["machines"]
        times = {name: machines[name]["residency"] for name in MACHINES}
        report["modelled"] = modelled(self._spec, times, report["duration_s"])
        return report

    def reload(self, path: str | Path | None = None) -> None:
        """Takes limits, machines, certificate and policy anew; no request is lost. Another policy
        begins a new log.

        Raises:
            HalfwinkError: what is wrong; then nothing changes.
        """
        self._steer.reload(library(), str(path or self.path))
        self._spec = self._steer.spec(library())

    def stop(self) -> None:
        """Answers the requests under way, takes no more, wakes who sleeps, and ends."""
        self._steer.stop()

    @property
    def is_running(self) -> bool:
        """Whether all its threads are at work."""
        return self._steer.is_running()

    def log(self) -> list[str]:
        """The event log of its policy, one JSON document per event."""
        return self._steer.log()


def modelled(
    spec: Mapping[str, Any], times: Mapping[str, Mapping[str, Any]], duration_s: float
) -> dict[str, float]:
    """What the described machines would have drawn; nothing here reads a meter.

    A machine draws from idle to maximal power in proportion to the workers in service (Niccolini
    2012, Eq 3.2), shares of its idle power when it changes its state and when it sleeps, and
    nothing when it is lost.

    Args:
        spec: the described server.
        times: for each machine its ``residency`` in seconds.
        duration_s: how long it was.

    Returns:
        ``small_j``, ``big_j``, ``energy_j``; ``always_big_j`` and ``always_on_j``: the big machine
        alone, and both, never asleep, as if idle when they slept; the same in watts (``_w``).
    """
    joules: dict[str, float] = {}
    awake: dict[str, float] = {}
    for name in MACHINES:
        machine, spent = spec[name], times[name]
        idle_w, span_w = machine["idle_w"], machine["max_w"] - machine["idle_w"]
        on_s: Sequence[float] = spent["on_s"]
        workers = max(len(on_s) - 1, 1)
        on_j = sum(s * (idle_w + span_w * busy / workers) for busy, s in enumerate(on_s))
        changing_s = spent["going_down_s"] + spent["waking_s"]
        asleep_s = spent["asleep_s"]
        joules[name] = on_j + idle_w * (
            machine["transition_share"] * changing_s + machine["sleep_share"] * asleep_s
        )
        awake[name] = on_j + idle_w * (changing_s + asleep_s)
    found = {
        "small_j": joules["small"],
        "big_j": joules["big"],
        "energy_j": joules["small"] + joules["big"],
        "always_big_j": awake["big"],
        "always_on_j": awake["small"] + awake["big"],
    }
    watts = {f"{name[:-2]}_w": value / max(duration_s, 1e-9) for name, value in found.items()}
    return {**found, **watts}


def replay(path: str | Path, log: Sequence[str]) -> tuple[int, str] | None:
    """Tells a fresh policy of a description what a log says.

    Returns:
        The first line, from 0, at which it asks for something else, and for what; else none.
    """
    return _core.replay_steer(library(), str(path), list(log))
