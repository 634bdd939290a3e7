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
from halfwink.cli import (
    circuits,
    commands,
    hybrid,
    hybrid_year,
    lists,
    live,
    measure,
    pdn,
    preheat,
    replay,
    reproduce,
    router,
    sampling,
    segregation,
    storage,
    switching,
    traces,
)
from halfwink.cli.console import err
from halfwink.errors import HalfwinkError, Interrupted, RunError

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
#: What shells report for a program that Ctrl-C ended.
EXIT_INTERRUPTED = 130
#: What takes a command of the user's after `--`.
RUN_COMMANDS = (commands.capture, live.delegate, live.idle)


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
    app.command(sampling.sample)
    app.command(replay.replay)
    app.command(reproduce.reproduce)
    app.command(commands.capture)
    app.command(traces.app)
    app.command(pdn.pdn)
    app.command(measure.measure)
    app.command(live.app)
    app.command(segregation.app)
    app.command(circuits.app)
    app.command(preheat.app)
    app.command(storage.app)
    app.command(switching.switching)
    app.command(router.router)
    app.command(hybrid.hybrid)
    app.command(hybrid_year.year, name="hybrid-year")
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
        words, own = _before_and_after_dashes(words)
        function, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
        if own is not None:
            if function not in RUN_COMMANDS:
                raise HalfwinkError(
                    "`--` and a command: expected `halfwink capture -- COMMAND` or "
                    "`halfwink live delegate -- COMMAND`"
                )
            bound.arguments["command"] = own
        status = function(*bound.args, **bound.kwargs)
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


def _before_and_after_dashes(words: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """What follows `--` is somebody else's command line: none of it is parsed."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])


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
