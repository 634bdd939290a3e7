"""Errors of a capture, each with one clear line."""

from __future__ import annotations


class CaptureError(Exception):
    """A capture could not be made. The message is one line: what, and what to do."""


class WrongUseError(CaptureError):
    """The request itself makes no sense: unknown workload, missing program, and the like."""


class MissingRequirementError(CaptureError):
    """The machine lacks something; the message ends with the line that adds it."""


class GuestError(CaptureError):
    """The recorded machine, or a program in it, did not do its work."""


class TimeLimitError(CaptureError):
    """The capture took longer than allowed."""


class CaptureInterruptedError(CaptureError):
    """The user pressed Ctrl-C."""
