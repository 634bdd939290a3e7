"""Errors of a capture, each with one clear line, and of the kinds that the package has."""

from __future__ import annotations

from halfwink.errors import HalfwinkError, Interrupted, RunError


class CaptureError(Exception):
    """A capture could not be made. The message is one line: what, and what to do."""


class WrongUseError(CaptureError, HalfwinkError):
    """The request itself makes no sense: unknown workload, missing program, and the like."""


class MissingRequirementError(CaptureError, HalfwinkError):
    """The machine lacks something; the message ends with the line that adds it."""


class FailedError(CaptureError, RunError):
    """The capture was begun, and failed."""


class GuestError(FailedError):
    """The recorded machine, or a program in it, did not do its work."""


class TimeLimitError(FailedError):
    """The capture took longer than allowed."""


class CaptureInterruptedError(CaptureError, Interrupted):
    """The user pressed Ctrl-C."""
