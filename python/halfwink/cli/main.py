"""``halfwink``: parsing of words, errors in one line, exit status."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from inspect import BoundArguments
from itertools import pairwise
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError

from halfwink import __version__, interrupts
from halfwink.cli.completion import answer, asked
from halfwink.cli.console import complain, err
from halfwink.cli.worlds import world_of
from halfwink.errors import HalfwinkError, Interrupted, RunError

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
#: Shows where an error comes from that nothing else tells of.
TRACEBACK = "HALFWINK_TRACEBACK"
#: What takes a command of the user's after `--`: module, function.
RUN_COMMANDS = (
    ("halfwink.cli.commands", "capture"),
    ("halfwink.cli.record", "record"),
    ("halfwink.cli.live", "delegate"),
    ("halfwink.cli.live", "idle"),
)
#: Options that take a file: `-` is standard input there, and would be an option to the parser.
FILE_OPTIONS = ("--counts", "--day", "--load", "--log", "--profile-pps", "--replay", "-l")
#: In which list the names of something are.
LISTED = {
    "application": "workloads",
    "fabric": "machines",
    "hybrid server": "machines",
    "machine": "machines",
    "network": "networks",
    "router": "machines",
    "server": "machines",
    "study": "studies",
    "switching model": "machines",
    "technique": "techniques",
    "workload": "workloads",
}
#: Options that commands over `compare` no longer have, and what to write instead.
MOVED_EVERYWHERE = {"--policy": "`--technique`", "--seed": "`--set seed=N`"}
MOVED = {
    "compare": MOVED_EVERYWHERE,
    "circuits simulate": MOVED_EVERYWHERE
    | {
        "--day": "`--technique round-robin:day_us=61`",
        "--tokens": "`--set tokens=NAME` (`halfwink run circuits` plays all of them)",
        "--mtu": "`--set hosts.frame_bytes=BYTES`",
        "--transport": "`--set transport=NAME`",
        "--congestion": "`--set congestion=NAME`",
        "--offload": "`--set offload=on`",
        "--duration-ms": "`--set duration_ms=MS`",
    },
    "hybrid": MOVED_EVERYWHERE
    | {
        "--workload": "the workload itself, as `count@30`",
        "--accuracy": "`--set accuracy=SHARE` (0.01 is one per cent)",
        "--requests": "`--set requests=N`",
        "--servers": "`--set servers=N`",
        "--dispatch": "`--set dispatch=NAME`",
        "--slot-s": "`--set slot_s=SECONDS --table slots`",
        "--proportionality": "`--table proportionality`",
        "--time-column": "`--load log:time-column=NAME:FILE`",
        "--time-unit": "`--load log:time-unit=ms:FILE`",
        "--ignore": "`--load log:ignore=bad-lines:FILE`",
    },
    "storage simulate": MOVED_EVERYWHERE
    | {
        "--issuers": "`--load 1..20`",
        "--through": "`--set through=NAME`",
        "--depth": "`--set depth=N`",
        "--rate": "`--set rate_kiops=K` (thousands a second)",
        "--ios": "`--set ios=N --set warm_up=N`",
    },
    "router": MOVED_EVERYWHERE | {"--app": "the workload itself, as `ipsec@30`"},
}
#: A name that is not there, where no other one is near.
UNKNOWN = re.compile(rf"unknown ({'|'.join(LISTED)}) `([^`]*)`$")
#: Every command: where it is, and the first line of its own help. A command is imported when it is
#: used: data frames alone take longer to import than help takes to print.
COMMANDS = {
    "compare": (
        "commands:compare",
        "Run techniques on workloads: one table, one chart, one report.",
    ),
    "advise": (
        "advise:advise",
        "Find what to set for a service: the cheapest composition of techniques that keeps a goal.",
    ),
    "verify": (
        "verify:verify",
        "Measure this machine, and lay the prediction of an advice beside it.",
    ),
    "idle": (
        "idle:idle",
        "Say what each idle policy would have made of the idle times of a recording.",
    ),
    "run": (
        "commands:run",
        "Run a study of any world: workloads, machines, techniques and sweeps that a file "
        "describes.",
    ),
    "profile": (
        "profile:profile",
        "Say what a request costs a core: from a recording, or from what you know of your service.",
    ),
    "sample": (
        "sampling:sample",
        "Sample a long workload: windows of it in detail, each figure with its 95 % interval.",
    ),
    "new-policy": (
        "own_policy:new",
        "Write what a policy of your own begins with.",
    ),
    "check-policy": (
        "own_policy:check",
        "Check that a policy keeps the laws of its family, whatever its world sends it.",
    ),
    "replay": (
        "replay:replay",
        "Tell fresh policies what an event log says: the same actions, or where they differ.",
    ),
    "reproduce": ("reproduce:reproduce", "Show published numbers beside ours."),
    "record": (
        "record:record",
        "Record what a program executes on this machine: in seconds, without a guest, without "
        "root.",
    ),
    "capture": ("commands:capture", "Boot a real Linux in QEMU and record a full-system trace."),
    "trace": ("traces:app", "Look at, check and convert trace files."),
    "pdn": ("pdn:pdn", "Find the shortest wake-ups that a chip's power delivery allows."),
    "measure": (
        "measure:measure",
        "Measure what this machine charges for each way to hand work to another core.",
    ),
    "calibrate": ("calibrate:app", "Make a machine of what was measured."),
    "live": ("live:app", "Run techniques on this machine."),
    "segregation": ("segregation:app", "Keep kernel and user apart in the second-level cache."),
    "circuits": ("circuits:app", "Optical circuits that racks use by turns."),
    "preheat": ("preheat:app", "Load caches before the request arrives, simulated."),
    "storage": ("storage:app", "Block I/Os on machines of several sockets."),
    "switching": (
        "switching:switching",
        "Show what moving threads between cores inside system calls costs and saves.",
    ),
    "router": (
        "router:router",
        "Show what a software router draws, delays, loses and reorders under each technique.",
    ),
    "hybrid": (
        "hybrid:hybrid",
        "Show what a hybrid server draws and delays under each technique.",
    ),
    "hybrid-year": (
        "hybrid_year:year",
        "Show what a fleet of hybrid servers draws and delays over a year of counts.",
    ),
    "list": ("lists:list_", "Show what there is; without WHAT, how much of each."),
    "query": (
        "query:query",
        "Ask the tables of a finished run, in SQL; without SQL, show what they hold.",
    ),
    "report": (
        "commands:report",
        "Draw the HTML report of a finished run again, or a page that links those of many.",
    ),
    "completion": (
        "completion:completion",
        "Print a script that completes commands, options and names in a shell.",
    ),
    "doctor": (
        "commands:doctor",
        "Tell what this machine can do, and the line that adds what it lacks.",
    ),
}


def build(command: str | None = None) -> App:
    """The commands; one that is named brings all of its own help."""
    app = App(
        name="halfwink",
        help="Low-latency energy saving in servers: compare, reproduce, run.",
        version=__version__,
        help_on_error=False,
        suppress_keyboard_interrupt=False,
    )
    for name, (place, summary) in COMMANDS.items():
        app.command(f"halfwink.cli.{place}", name=name, help=None if name == command else summary)
    return app


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Yields every command that has none of its own, with its words."""
    for name in app:
        if name.startswith("-"):
            continue
        inner = app[name]
        if any(not word.startswith("-") for word in inner):
            yield from commands(inner, (*path, name))
        else:
            yield (*path, name), inner


def command_of(path: Sequence[str]) -> App:
    """Returns a command by its words, with all of its own help."""
    app = build(path[0])
    for word in path:
        app = app[word]
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    interrupts.running()
    if asked():
        answer(list(sys.argv[1:] if arguments is None else arguments))
        sys.exit(0)
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        # Once more, while the first one was being told of.
        status = interrupts.STATUS
    interrupts.ending()
    sys.exit(status)


def _run(words: list[str]) -> int:
    app = build(next((word for word in words if not word.startswith("-")), None))
    try:
        words, own = _before_and_after_dashes(words)
        words = _with_standard_input(words)
        function, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
        if own is not None:
            if (function.__module__, function.__name__) not in RUN_COMMANDS:
                raise HalfwinkError(
                    "`--` and a command: expected `halfwink record -- COMMAND`, "
                    "`halfwink capture -- COMMAND` or `halfwink live delegate -- COMMAND`"
                )
            bound.arguments["command"] = own
        status = _called(function, bound)
        if {"--help", "-h"} & set(words):
            from halfwink.cli.examples import shown

            if examples := shown(words):
                print(examples)
        return status if isinstance(status, int) else 0
    except CycloptsError as error:
        _complain(_usage(app, error))
        return EXIT_WRONG_USE
    except HalfwinkError as error:
        _complain(_with_list(str(error), words))
        return EXIT_WRONG_USE
    except RunError as error:
        _complain(str(error))
        return EXIT_FAILED
    except (KeyboardInterrupt, Interrupted):
        interrupts.ending()
        err.print(interrupts.SAID, end="", markup=False)
        return interrupts.STATUS
    except BrokenPipeError:
        # The reader has seen enough; Python would complain once more while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return EXIT_FAILED
    except Exception as error:
        # Nothing that is handed in may end in a traceback; whoever mends this wants one.
        if os.environ.get(TRACEBACK):
            raise
        _complain(_unexpected(error))
        return EXIT_FAILED


def _unexpected(error: Exception) -> str:
    """What nothing else told of, in one line, with the way to see more."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = str(error).partition("\n")[0][:200]
    return (
        f"unexpected {type(error).__name__}{where}: {text}; {TRACEBACK}=1 before the command shows "
        "where it comes from; please report it"
    )


def _called(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """A command's own result; of a number that nothing counts in, one line.

    Raises:
        HalfwinkError: a whole number is negative or does not fit 64 bits, or what it is for.
    """
    try:
        return function(*bound.args, **bound.kwargs)
    except (OverflowError, TypeError) as error:
        if not isinstance(error, OverflowError) and not isinstance(error.__cause__, OverflowError):
            raise
        for name, value in bound.arguments.items():
            if isinstance(value, int) and not 0 <= value < 2**64:
                option = f"--{name.replace('_', '-')}"
                raise HalfwinkError(f"{option} {value}: expected 0 to {2**64 - 1}") from error
        raise HalfwinkError(f"a number is out of range: {error}") from error


def _before_and_after_dashes(words: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Splits at `--`: the words after it are another program's command line, and are not parsed."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])


def _with_standard_input(words: list[str]) -> list[str]:
    """Joins `--day -` to `--day=-`, for options that take a file; a dash that is an argument goes
    behind the end of options."""
    joined: list[str] = []
    arguments: list[str] = []
    for word in words:
        if word == "-" and joined and joined[-1] in FILE_OPTIONS:
            option = joined.pop()
            joined.append(f"{option}=-" if option.startswith("--") else f"{option}-")
        elif word == "-":
            arguments.append(word)
        else:
            joined.append(word)
    return [*joined, "--", *arguments] if arguments else joined


def _complain(message: str) -> None:
    complain(" ".join(message.split()))


def _with_list(message: str, words: list[str]) -> str:
    """Adds the command that lists valid names to a message on an unknown name."""
    found = UNKNOWN.search(message)
    if found is None:
        return message
    what = LISTED[found[1]]
    world = world_of([word for word in words if not word.startswith("-")])
    named = (after for word, after in pairwise(words) if word in ("-w", "--world"))
    if (world := next(named, world)) is not None and what != "studies":
        if what == "workloads" and found[2] in _machines(world):
            return f"{message}; it is a machine: write `-m {found[2]}`"
        if what == "workloads" and found[2] in _workloads(world):
            others = f"`halfwink list machines -w {world}` shows others"
            return f"{message} on this machine; {others}"
        what += f" -w {world}"
    return f"{message}; `halfwink list {what}` shows what there is"


def _workloads(world: str) -> list[str]:
    from halfwink.library import workload_names

    return workload_names(world)


def _machines(world: str) -> list[str]:
    from halfwink.library import machines

    return [machine["name"] for machine in machines(world)]


def _usage(app: App, error: CycloptsError) -> str:
    """A mistake on the command line in one line, with the nearest name."""
    if isinstance(error, UnknownCommandError):
        word = str(error.unused_tokens[0]) if error.unused_tokens else ""
        asked = error.app or app
        known = [name for name in asked if not name.startswith("-")]
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; there are: {', '.join(known)}"
        return f"unknown command `{word}`{hint}"
    if isinstance(error, UnknownOptionError):
        token: Any = error.token
        word = token.keyword or token.value
        known = _options(error)
        option = word.partition("=")[0]
        moved = MOVED.get(" ".join(error.command_chain or ()), {})
        if option in moved:
            return f"unknown option `{option}`; write {moved[option]} now"
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        return f"unknown option `{word}`{hint}"
    return str(error)


def _options(error: CycloptsError) -> list[str]:
    collection: Any = getattr(error, "argument_collection", None)
    return [name for argument in collection or () for name in argument.names]
