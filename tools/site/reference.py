"""Generated pages of the site: command line, Python and JSON, from the package itself."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any

import halfwink as hw
from halfwink import schemas
from halfwink.cli.examples import EXAMPLES
from halfwink.cli.main import build, command_of, commands
from halfwink.exports import SUBJECTS
from halfwink.new_policy import families

CLI, PYTHON, SCHEMAS = "reference/cli", "reference/python.md", "reference/schemas"
#: Sections of Google's docstrings, by the word that they have on a page.
SECTIONS = {
    "Args:": "Parameters",
    "Attributes:": "Attributes",
    "Raises:": "Raises",
    "Returns:": "Returns",
    "Yields:": "Yields",
}


def pages() -> dict[str, str]:
    """Returns the text of each generated page, by its place on the site."""
    return dict([*command_pages(), (PYTHON, python_page()), *schema_pages()])


def command_places() -> list[tuple[str, str]]:
    """Returns each command, and the place of its page."""
    return [(" ".join(p), f"{CLI}/{'-'.join(p)}.md") for p, _ in sorted(commands(build()))]


def command_pages() -> Iterator[tuple[str, str]]:
    """Yields a page for each command, and one that lists them."""
    rows: list[str] = []
    for path, _ in sorted(commands(build())):
        name, place = " ".join(path), "-".join(path)
        text = command_of(path).generate_docs(output_format="markdown")
        about = _section(text, "```\n", "**").split("\n\n")[0].replace("\n", " ").strip()
        rows.append(f"| [`{name}`](cli/{place}.md) | {about} |")
        yield f"{CLI}/{place}.md", command_page(name, text)
    lines = [
        "# Command line",
        "This page is for readers who look a command or an option up. Each page below is made from "
        "the program, as `--help` is. `halfwink COMMAND --help` says the same on a terminal.",
        "A command ends with status 0 if it did what was asked, 1 if it failed, 2 if it was used "
        "wrongly, and 130 after Ctrl-C.",
        "\n".join(["| command | what it does |", "|---|---|", *rows]),
    ]
    yield f"{CLI}/index.md", "\n\n".join(lines).replace("](cli/", "](") + "\n"


def command_page(name: str, text: str) -> str:
    """Returns the page of a command, from the text that Cyclopts makes of it."""
    _, _, rest = text.partition("```console\n")
    usage, _, rest = rest.partition("\n```\n")
    rest = re.sub(r"^\*\*(\w[\w ]*)\*\*:$", r"## \1", rest, flags=re.MULTILINE)
    # A list's items of more lines.
    rest = re.sub(r"^\* `([^`]+)`: ", r"`\1`\n:   ", rest, flags=re.MULTILINE)
    rest = re.sub(r"\n(?=`[^`]+`\n:   )", "\n\n", rest)
    words = usage.split(maxsplit=len(name.split()))[-1] if " " in usage else ""
    lines = [f"# halfwink {name}", f"```text\nhalfwink {name} {words}\n```", rest.strip()]
    if name in EXAMPLES:
        rows = [f"# {why}\nhalfwink {name} {example}" for example, why in EXAMPLES[name]]
        lines.append("## Examples\n\n```sh\n" + "\n".join(rows) + "\n```")
    return "\n\n".join(lines) + "\n"


def _section(text: str, begin: str, end: str) -> str:
    """Returns what stands between the last `begin` before `end` and `end`."""
    _, _, rest = text.partition("```console\n")
    return rest.partition(begin)[2].partition(end)[0]


def python_page() -> str:
    """Returns the page of the Python package: every public name with signature and docstring."""
    found = {name: getattr(hw, name) for name in hw.__all__ if name != "__version__"}
    classes = {n: o for n, o in found.items() if inspect.isclass(o)}
    errors = {n: o for n, o in classes.items() if issubclass(o, BaseException)}
    plain = {n: o for n, o in found.items() if n not in classes}
    lines = [
        "# Python",
        "This page is for readers who use halfwink from Python. It is made from the docstrings of "
        "the package; `help(hw.compare)` shows the same. Tables are data frames of polars, charts "
        "are those of Altair.",
        "```python\n" + str(inspect.getdoc(hw)).partition("\n\n")[2] + "\n```",
        "## Functions",
        *(_function(f"hw.{name}", thing, 3) for name, thing in sorted(plain.items())),
        "## Classes",
        *(_class(n, c) for n, c in sorted(classes.items()) if n not in errors),
        "## Errors",
        *(_class(n, c) for n, c in sorted(errors.items())),
        *(_subject(name) for name in sorted((*SUBJECTS, "capture"))),
        *(_family(name) for name in families()),
    ]
    return "\n\n".join(lines) + "\n"


def _subject(name: str) -> str:
    """Returns the part of the page that has the public names of a package of one subject."""
    package = import_module(f"halfwink.{name}")
    found = {n: getattr(package, n) for n in package.__all__ if n not in hw.__all__}
    about = str(inspect.getdoc(package)).partition("\n")[0]
    lines = [f"## halfwink.{name}", about]
    for word, thing in sorted(found.items()):
        if inspect.isclass(thing):
            lines.append(_class(word, thing))
        elif inspect.isroutine(thing):
            lines.append(_function(word, thing, 3))
    return "\n\n".join(lines)


def _family(name: str) -> str:
    """Returns the part of the page that has the events and actions of a family of policies."""
    module = import_module(f"halfwink.policies.{name}")
    family = module.FAMILY
    types = {"Start": [family.start], "Events": family.events.values()}
    types["Actions"] = family.actions.values()
    lines = [f"## halfwink.policies.{name}", " ".join(str(inspect.getdoc(module)).split())]
    for title, members in types.items():
        lines.append(f"**{title}**")
        lines.append("\n".join(map(_member, members)))
    for of in vars(module).values():
        is_enum = inspect.isclass(of) and issubclass(of, IntEnum)
        if not is_enum or of.__module__ != module.__name__:
            continue
        values = ", ".join(f"`{value.name}` {value.value}" for value in of)
        lines.append(f"**{of.__name__}**: {docstring(of)} {values}")
    return "\n\n".join(lines)


def _member(of: Any) -> str:
    """Returns a start, an event or an action as an entry of a list, with its fields below it."""
    about, _, fields = docstring(of).partition("**Attributes**")
    told = f"* `{of.__name__}({', '.join(of.__match_args__)})`: {' '.join(about.split())}"
    return "\n".join([told, *(f"    {line}" for line in fields.strip().splitlines())])


def _signature(name: str, thing: Any) -> str:
    """Returns a function as it is called, a parameter a line where there are many."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(...)"
    found = list(signature.parameters.values())
    if found and found[0].name == "self":
        signature = signature.replace(parameters=found[1:])
    text = _unquoted(f"{name}{signature}")
    if len(text) <= 88:
        return text
    words, bare = [], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not bare:
            words, bare = [*words, "*"], True
        words.append(_unquoted(str(one)))
    returned = signature.return_annotation
    after = "" if returned is signature.empty else f" -> {returned}".replace("'", "")
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){after}"


def _unquoted(text: str) -> str:
    """Returns a signature whose annotations, which are strings, have no quotes."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _function(name: str, thing: Any, level: int) -> str:
    called = thing if inspect.isroutine(thing) else type(thing).__call__
    head = f"{'#' * level} `{name.removeprefix('hw.')}`"
    text = f"```python\n{_signature(name, called)}\n```"
    return "\n\n".join([head, text, docstring(called)]).rstrip()


def _class(name: str, found: type) -> str:
    lines = [f"### `{name}`", docstring(found)]
    for word, thing in vars(found).items():
        if word.startswith("_") or not inspect.getdoc(thing):
            continue
        if isinstance(thing, property):
            lines.append(f"#### `{name}.{word}`\n\n{docstring(thing)}")
        elif inspect.isroutine(thing):
            inner = getattr(thing, "__func__", thing)
            lines.append(_function(f"{name}.{word}", inner, 4))
    return "\n\n".join(line for line in lines if line)


def docstring(thing: Any) -> str:
    """Returns a docstring as Markdown: its sections as lists of what they describe."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text.replace("``", "`"))
    lines: list[str] = []
    section = False
    for paragraph in text.split("\n\n"):
        head, _, body = paragraph.partition("\n")
        if head in SECTIONS and body:
            lines.append(f"**{SECTIONS[head]}**")
            lines.append(_entries(textwrap.dedent(body)))
            section = True
        elif section and paragraph.startswith(" "):
            lines.append(_entries(textwrap.dedent(paragraph)))
        else:
            section = False
            lines.append(paragraph)
    return "\n\n".join(lines)


def _entries(text: str) -> str:
    """Returns the entries of a section as a list, or its text if it has none."""
    joined = re.sub(r"\n +", " ", text)
    entries = [re.fullmatch(r"([\w*., |\[\]]+?): (.*)", line) for line in joined.split("\n")]
    if not all(entries):
        return joined.replace("\n", " ")
    return "\n".join(f"* `{m[1]}`: {m[2]}" for m in entries if m)


def schema_pages() -> Iterator[tuple[str, str]]:
    """Yields a page for each kind of JSON document, and one that lists them."""
    rows: list[str] = []
    for kind in (*schemas.kinds(), *map(schemas.of_command, schemas.commands())):
        schema = schemas.schema(kind)
        about = str(schema.get("description", ""))
        rows.append(f"| [`{kind}`]({kind}.md) | {about} |")
        required = set(schema.get("required", ()))
        table = "\n".join(
            ["| key | type | | |", "|---|---|---|---|", *_properties(schema, "", required)]
        )
        lines = [
            f"# `{schema['title']}`",
            f"This page is for readers of programs' output. Printed by {about}.",
            "Keys of objects inside have dots, those of lists brackets.",
            table.replace("| | |\n", "| always | what it is |\n", 1),
            "## The schema",
            f"```json\n{json.dumps(schema, indent=1)}\n```",
        ]
        yield f"{SCHEMAS}/{kind}.md", "\n\n".join(lines) + "\n"
    text = (
        "# JSON schemas\n\nThis page is for readers of programs' output who look a key up. It is "
        "made from the schemas of the package; [JSON documents](../../json.md) says what holds for "
        "all of them.\n\n"
    )
    table = "\n".join(["| kind | printed by |", "|---|---|", *rows])
    yield f"{SCHEMAS}/index.md", f"{text}{table}\n"


def _properties(schema: dict[str, Any], before: str, required: set[str]) -> Iterator[str]:
    """Yields a row for each key of an object, and for those of objects inside it."""
    for key, held in schema.get("properties", {}).items():
        name = f"{before}{key}"
        is_there = "yes" if key in required else ""
        about = held.get("description", "")
        if "const" in held:
            about = about or f"`{held['const']}`"
        if "enum" in held:
            about += " One of " + ", ".join(f"`{word}`" for word in held["enum"]) + "."
        text = " ".join(about.split()).replace("|", "\\|")
        yield f"| `{name}` | {_type(held)} | {is_there} | {text} |"
        inner, dot = held, "."
        if "items" in held:
            inner, dot = held["items"], "[]."
        if isinstance(inner, dict):
            yield from _properties(inner, f"{name}{dot}", set(inner.get("required", ())))


def _type(held: dict[str, Any]) -> str:
    found = held.get("type", "string" if "const" in held or "enum" in held else "any")
    words = found if isinstance(found, list) else [found]
    if "items" in held and isinstance(held["items"], dict):
        words = [f"array of {_type(held['items'])}" if word == "array" else word for word in words]
    return " or ".join(words)
