"""Completions of a command line: commands, options, and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from halfwink.cli.worlds import world_of

if TYPE_CHECKING:
    from cyclopts import App, Argument

#: What stands between a word and what it is.
BETWEEN = "\t"
#: A line that asks the shell for names of files as well.
FILES = ":files"
#: Arguments of commands whose names are not of a list, or of another than they say.
OTHERWISE = {
    "capture workload": "recorded",
    "circuits advise machine": "fabric",
    "hybrid-year counts": "files",
    "live circuits technique": "technique",
    "live delegate policy": "",
    "trace import file": "files",
}
#: Text that a name follows: others before it stay as they are.
JOINED = {"technique": ",", "policy": ",", "workload": "+", "workloads": "+"}


@dataclass(frozen=True)
class Found:
    """Words, each with what it is; and whether files are meant, too."""

    words: dict[str, str]
    files: bool = False

    def starting(self, text: str) -> Found:
        return Found({w: h for w, h in self.words.items() if w.startswith(text)}, self.files)

    def after(self, before: str) -> Found:
        return Found({before + word: what for word, what in self.words.items()}, self.files)

    def lines(self) -> list[str]:
        told = [f"{w}{BETWEEN}{' '.join(what.split())}" for w, what in self.words.items()]
        return [*told, FILES] if self.files else told


def candidates(words: list[str]) -> Found:
    """Returns the candidates for the last word, which may be empty."""
    from halfwink.cli.main import COMMANDS, build

    *before, current = words
    if not before:
        own = {"--help": "Show all commands.", "--version": "Show the version."}
        commands = {name: summary for name, (_, summary) in COMMANDS.items()}
        return Found(own if current.startswith("-") else commands).starting(current)
    app: App = build(before[0])
    path: list[str] = []
    while before and before[0] in app and not before[0].startswith("-"):
        path.append(before.pop(0))
        app = app[path[-1]]
    if "--" in before:
        return Found({}, files=True)
    inner = _commands(app)
    if inner:
        return Found(inner).starting(current) if not before else Found({})
    return _of_command(app, " ".join(path), before, current)


def _commands(app: App) -> dict[str, str]:
    return {name: app[name].help.split("\n\n")[0] for name in app if not name.startswith("-")}


def _of_command(app: App, path: str, before: list[str], current: str) -> Found:
    arguments = list(app.assemble_argument_collection(parse_docstring=True))
    options = {n: a for a in arguments for n in a.names if n.startswith("-") and a.index is None}
    given = {n: a for a in arguments for n in a.names if n.startswith("-")}
    values: dict[str, str] = {}
    waiting: str | None = None
    place = 0
    for word in before:
        if waiting is not None:
            values[_name(given[waiting])] = word
            waiting = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            if equals and name in given:
                values[_name(given[name])] = value
            elif name in given and given[name].hint is not bool:
                waiting = name
        else:
            place += 1
    world = values.get("world")
    if waiting is not None:
        return _value(given[waiting], path, world, current)
    name, equals, value = current.partition("=")
    if equals and name in options:
        return _value(options[name], path, world, value).after(f"{name}=")
    if current.startswith("-"):
        told = {name: _first_sentence(a.parameter.help) for name, a in options.items()}
        return Found(told | {"--help": "Show what the command takes."}).starting(current)
    for argument in arguments:
        many = get_origin(argument.hint) is tuple
        if argument.index is not None and (argument.index == place or many):
            return _value(argument, path, world, current)
    return Found({})


def _name(argument: Argument) -> str:
    return argument.field_info.name.rstrip("_")


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split()).split(". ")[0]


def _value(argument: Argument, path: str, world: str | None, current: str) -> Found:
    """Returns the candidates for the value of an argument."""
    name = _name(argument)
    hint: Any = argument.hint
    if choices := _choices(hint):
        return Found(dict.fromkeys(choices, "")).starting(current)
    kind = OTHERWISE.get(f"{path} {name}", name)
    own, _, kind = kind.rpartition(" ")
    at = own or world or world_of(path.split()) or "chip"
    files = "Path" in str(hint) or name in ("out", "log", "folder", "study", "workloads")
    files |= kind in ("files", "machine") or (name == "workload" and path.startswith("trace"))
    if path.startswith("trace ") and name == "file" and kind != "files":
        kind = "workload"
    mark = JOINED.get(kind, "") if kind in _LISTS else ""
    head, joint, last = current.rpartition(mark) if mark else ("", "", current)
    listed = _LISTS[kind](at) if kind in _LISTS else {}
    return Found(listed, files).starting(last).after(head + joint)


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    return [choice for part in get_args(hint) for choice in _choices(part)]


def _techniques(world: str) -> dict[str, str]:
    from halfwink import _core

    there = [t for t in _core.techniques() if world in t["worlds"]]
    if not there:
        return {}
    families = dict.fromkeys(f"all-{t['family']}" for t in there)
    titles = {t["name"]: t["title"] for t in there}
    return titles | {"all": "every technique"} | dict.fromkeys(families, "of this family")


def _machines(world: str) -> dict[str, str]:
    from halfwink.library import library

    return dict(library().machines_of(world))


def _workloads(world: str) -> dict[str, str]:
    from halfwink.library import library

    return dict(library().workloads_of(world))


def _worlds(_: str) -> dict[str, str]:
    from halfwink import _core

    return {world["name"]: world["title"] for world in _core.worlds()}


def _names(folder: str) -> Callable[[str], dict[str, str]]:
    def names(_: str) -> dict[str, str]:
        from halfwink.library import library

        return dict.fromkeys(library().names(folder, "toml"), "")

    return names


def _wanted(_: str) -> dict[str, str]:
    """Returns the targets that `halfwink reproduce` takes."""
    from halfwink.library import library, root
    from halfwink.targets.published_figures import load

    targets = library().targets()
    areas = dict.fromkeys(target["area"] for target in targets)
    works = load(root() / "targets" / "figures", targets)
    figures = {f.id: f.title for work in works for f in work.figures}
    known = dict.fromkeys(areas, "an area") | {work.name: "a work" for work in works}
    return known | figures | {"gallery": "pages of all figures"}


def _families(_: str) -> dict[str, str]:
    from halfwink import _core

    return dict.fromkeys((t["family"] for t in _core.techniques()), "")


def _mutants(_: str) -> dict[str, str]:
    from halfwink.library import library

    return {mutant["name"]: mutant["what"] for mutant in library().mutants()}


def _networks(_: str) -> dict[str, str]:
    from halfwink.library import library

    return dict.fromkeys(library().networks(), "")


def _fabrics(_: str) -> dict[str, str]:
    from halfwink.library import library

    return dict.fromkeys(library().fabrics(), "")


def _recorded(_: str) -> dict[str, str]:
    from halfwink.capture.workloads import WORKLOADS

    return dict.fromkeys(WORKLOADS, "")


def _executors(_: str) -> dict[str, str]:
    return {"local": "processors of this machine", "dask": "a cluster of them", "dask://": ""}


#: By the name of an argument: what there is in a world.
_LISTS: dict[str, Callable[[str], dict[str, str]]] = {
    "executor": _executors,
    "fabric": _fabrics,
    "family": _families,
    "machine": _machines,
    "mutant": _mutants,
    "network": _networks,
    "policy": _techniques,
    "recorded": _recorded,
    "study": _names("studies"),
    "technique": _techniques,
    "wanted": _wanted,
    "workload": _workloads,
    "workloads": _workloads,
    "world": _worlds,
}
