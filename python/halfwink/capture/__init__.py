"""Recording full-system traces of Linux services: boots a real Debian guest in QEMU.

from halfwink.capture import capture
capture("nginx", None, Path("nginx.hwt"), instructions=None, seed=1, time_limit_s=600,
        rootfs=None, progress=print)
"""

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
from .workload import Workload
from .workloads import WORKLOADS

__all__ = [
    "WORKLOADS",
    "CaptureError",
    "CaptureInterruptedError",
    "GuestError",
    "MissingRequirementError",
    "Progress",
    "Requirement",
    "Result",
    "TimeLimitError",
    "Workload",
    "WrongUseError",
    "available",
    "capture",
    "set_up",
]
