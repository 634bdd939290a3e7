"""``halfwink``: parsing of words, errors in one line, exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError

from halfwink import __version__
from halfwink.cli import commands, lists, traces
from halfwink.cli.console import err
from halfwink.errors import HalfwinkError, Interrupted, RunError

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
#: What shells report for a program that Ctrl-C ended.
EXIT_INTERRUPTED = 130


def build() -> App:
    """The commands."""
    app = App(
        name="halfwink",
        help="Low-latency energy saving in servers: compare, reproduce, run.",
        version=__version__,
        help_on_error=False,
        suppress_keyboard_interrupt=False,
    )
    app.command(commands.compare)
    app.command(commands.run)
    app.command(commands.reproduce)
    app.command(commands.capture)
    app.command(traces.app)
    app.command(lists.list_, name="list")
    app.command(commands.report)
    app.command(commands.doctor)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(words: list[str]) -> int:
    app = build()
    try:
        status = app(words, print_error=False, exit_on_error=False, result_action="return_value")
        return status if isinstance(status, int) else 0
    except CycloptsError as error:
        _complain(_usage(app, error))
        return EXIT_WRONG_USE
    except HalfwinkError as error:
        _complain(str(error))
        return EXIT_WRONG_USE
    except RunError as error:
        _complain(str(error))
        return EXIT_FAILED
    except (KeyboardInterrupt, Interrupted):
        _complain("interrupted; finished runs are kept, the same command goes on")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; Python would complain once more while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return EXIT_FAILED


def _complain(message: str) -> None:
    line = " ".join(message.split())
    err.print(f"halfwink: {line}", markup=False)


def _usage(app: App, error: CycloptsError) -> str:
    """A mistake on the command line in one line, with the nearest name."""
    if isinstance(error, UnknownCommandError):
        word = str(error.unused_tokens[0]) if error.unused_tokens else ""
        known = [name for name in app if not name.startswith("-")]
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; there are: {', '.join(known)}"
        return f"unknown command `{word}`{hint}"
    if isinstance(error, UnknownOptionError):
        token: Any = error.token
        word = token.keyword or token.value
        known = _options(error)
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        return f"unknown option `{word}`{hint}"
    return str(error)


def _options(error: CycloptsError) -> list[str]:
    collection: Any = getattr(error, "argument_collection", None)
    return [name for argument in collection or () for name in argument.names]
