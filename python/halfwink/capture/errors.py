"""What can go wrong, each with one clear line."""

from __future__ import annotations


class CaptureError(Exception):
    """A capture could not be made. The message is one line: what, and what to do."""


class WrongUse(CaptureError):
    """The request itself makes no sense: unknown workload, missing program, and the like."""


class MissingRequirement(CaptureError):
    """The machine lacks something; the message ends with the line that adds it."""


class GuestFailed(CaptureError):
    """The recorded machine, or a program in it, did not do its work."""


class TimeLimit(CaptureError):
    """The capture took longer than allowed."""


class Interrupted(CaptureError):
    """The user pressed Ctrl-C."""
