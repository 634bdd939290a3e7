"""Errors that a user meets, each one line."""

from pathlib import Path

from halfwink._core import HalfwinkError, Interrupted, RunError

__all__ = ["FileError", "HalfwinkError", "Interrupted", "RunError"]


class FileError(HalfwinkError):
    """A value of a file is wrong.

    Attributes:
        path: the file.
        where: the entry and its key, or the key of the file.
        found: the value that is wrong.
        expected: the values that are allowed.
    """

    def __init__(self, path: Path, where: str, found: str, expected: str) -> None:
        super().__init__(f"{path}: {where}: found {found}, expected {expected}")
        self.path, self.where, self.found, self.expected = path, where, found, expected
