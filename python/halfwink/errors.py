"""Errors that a user meets, each one line."""

from halfwink._core import HalfwinkError, Interrupted, RunError

__all__ = ["HalfwinkError", "Interrupted", "RunError"]
