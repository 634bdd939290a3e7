"""Ctrl-C, from the first moment to the last: one line, status 130, and never a traceback.

While halfwink starts and while it ends there is nothing to keep: the process ends at once. Between
the two `KeyboardInterrupt` is raised, as ever, and what is open is closed. A native function that
does not come back never lets it be raised: the process then ends without it.

This module is imported before anything else and imports nothing that Python has not loaded yet:
until `starting` is called, Ctrl-C is Python's, which prints a traceback.
"""

from __future__ import annotations

# What `signal` is made of; that one imports enumerations first, for some milliseconds.
import _signal as signal  # pyright: ignore
import os
import sys

#: What shells report for a program that Ctrl-C ended.
STATUS = 130
#: How long a native function may take to come back, in seconds.
PATIENCE_S = 2.0
SAID = "halfwink: interrupted; finished runs are kept, the same command goes on\n"


def starting() -> None:
    """Lets Ctrl-C end the process at once from here on, unless the shell has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _at_once)


def running() -> None:
    """Lets Ctrl-C raise `KeyboardInterrupt` in the main thread from here on.

    Does nothing if `starting` did nothing: the handler is somebody else's.
    """
    if signal.getsignal(signal.SIGINT) is not _at_once:
        return
    import threading

    raised = threading.Event()

    def interrupted(*_: object) -> None:
        raised.set()
        raise KeyboardInterrupt

    heard, bell = os.pipe()
    os.set_blocking(bell, False)

    def watch() -> None:
        # Rung by the signal itself, whatever the main thread does.
        while os.read(heard, 1) != b"":
            mine = signal.getsignal(signal.SIGINT) is interrupted
            if mine and not raised.wait(PATIENCE_S):
                _at_once()

    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="interrupts", daemon=True).start()
    sys.unraisablehook = _unraisable
    signal.signal(signal.SIGINT, interrupted)


def ending() -> None:
    """Lets Ctrl-C end the process at once again, if the handler is one of ours."""
    handler = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__module__", None) == __name__:
        signal.signal(signal.SIGINT, _at_once)


def _at_once(*_: object) -> None:
    try:
        os.write(2, SAID.encode())
    finally:
        os._exit(STATUS)


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    """Handles exceptions that Python can only print, such as in a destructor."""
    if isinstance(what.exc_value, KeyboardInterrupt):
        _at_once()
    sys.__unraisablehook__(what)
