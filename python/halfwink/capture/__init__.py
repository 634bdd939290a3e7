"""Recording full-system traces of Linux services: boots a real Debian guest in QEMU.

import halfwink as hw

hw.capture("nginx")  # into nginx.hwt
hw.capture(command=["./program", "--its-option"], out="mine.hwt", instructions=50_000_000)
hw.compare("mine.hwt")

The module can be called, as it is a name of the package's: so `halfwink.capture` is the function,
whether or not somebody has imported the module.
"""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from pathlib import Path as _Path
from types import ModuleType as _ModuleType

from halfwink.checked import checked as _checked

from .api import Result, available, capture, set_up
from .errors import (
    CaptureError,
    CaptureInterruptedError,
    GuestError,
    MissingRequirementError,
    TimeLimitError,
    WrongUseError,
)
from .host import Requirement
from .progress import Progress
from .recorder import Recording
from .workload import Workload
from .workloads import WORKLOADS

__all__ = [
    "WORKLOADS",
    "CaptureError",
    "CaptureInterruptedError",
    "GuestError",
    "MissingRequirementError",
    "Progress",
    "Recording",
    "Requirement",
    "Result",
    "TimeLimitError",
    "Workload",
    "WrongUseError",
    "available",
    "capture",
    "set_up",
]


class _Module(_ModuleType):
    """The module as a function."""

    def _call(
        self,
        workload: str | None = None,
        *,
        command: _Sequence[str] | None = None,
        out: _Path | str | None = None,
        instructions: int | None = None,
        seed: int = 1,
        time_limit_s: float = 1800.0,
        rootfs: _Path | str | None = None,
        packages: str | _Sequence[str] = (),
        progress: _Callable[[Progress], None] | None = None,
    ) -> Result:
        """Records a workload, or a command of your own, into a trace.

        Args:
            workload: name of the workload, as in `halfwink.capture.WORKLOADS`.
            command: a program and its arguments, instead.
            out: the file; ``NAME.hwt`` if none, which must not be there.
            instructions: largest number of instructions to record; default: the workload's own
                number, or the whole run.
            seed: seed of all randomness in the guest.
            time_limit_s: timeout in seconds.
            rootfs: a root file system of your own.
            packages: Debian packages that the command needs.
            progress: is told how far it is.

        Raises:
            WrongUseError: the request is invalid; one line.
            CaptureError: the capture failed.
        """
        if (workload is None) == (not command):
            raise WrongUseError("expected a workload or a command")
        name = workload or _Path(next(iter(command or ()))).name
        path = _Path(out) if out is not None else _Path(f"{name}.hwt")
        if out is None and path.exists():
            raise WrongUseError(f"{path} is there: expected out=; out={str(path)!r} replaces it")
        return capture(
            workload,
            list(command) if command else None,
            path,
            instructions=instructions,
            seed=seed,
            time_limit_s=time_limit_s,
            rootfs=_Path(rootfs) if rootfs is not None else None,
            packages=[packages] if isinstance(packages, str) else packages,
            progress=progress or (lambda _: None),
        )

    __call__ = _checked(_call, "capture")


_sys.modules[__name__].__class__ = _Module
