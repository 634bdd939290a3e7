"""Long native functions, stopped by Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import TypeVar

from halfwink import _core

T = TypeVar("T")


def stoppable(
    work: Callable[[_core.RunControl], T], progress: Callable[[int], None] | None = None
) -> T:
    """Calls `work` with the control that it heeds, in a thread, so that this one hears Ctrl-C.

    Args:
        work: a native function that looks at its control every now and then.
        progress: told every now and then how much is done.
    """
    control = _core.RunControl()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, control)
        try:
            while True:
                try:
                    return future.result(timeout=0.2)
                except NotYet:
                    if progress is not None:
                        progress(control.done())
        except KeyboardInterrupt:
            control.stop()
            raise
