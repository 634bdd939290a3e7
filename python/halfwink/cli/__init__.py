"""The command line."""

from halfwink.cli.main import main

__all__ = ["main"]
