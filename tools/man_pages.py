"""Manual pages of halfwink and of the live programs, from their own help: docs/man.

.venv/bin/python tools/man_pages.py            write them (`make tables`)
.venv/bin/python tools/man_pages.py --check    fail where they are not as they should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs/man"
#: Live programs, by the ends of their names.
PROGRAMS = ("router", "steer", "block", "preheat", "delegate", "circuits")
#: Statuses of every program.
STATUS = {
    "0": "It did what was asked.",
    "1": "It failed; one line on standard error says why.",
    "2": "It was used wrongly, or a description is wrong; the line names the place.",
}
#: An entry of clap's help, as an option or an argument; its text may begin on the same line.
ENTRY = re.compile(r" {2,6}(?P<names>[-A-Z<]\S*(?: \S+)*?)(?: {2,}(?P<text>\S.*))?$")
#: Signs that roff would change or take as its own, and what prints them; the first one comes first.
ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "~": r"\(ti", "^": r"\(ha"}
#: Remarks of the help of a command, and what a page has in their place: a flag or a name that is
#: not given is off or empty.
REMARKS = {
    "[Default: ``False``]": "",
    '[Default: ``""``]': "",
    "[**Required**]": "[required]",
    "``": "`",
}
#: Columns by which the text of an entry is indented at least.
INDENT = 10


#: An entry of the help of a command in reStructuredText: its names, and its text below them.
COMMAND_ENTRY = re.compile(r"^``(.+)``\n((?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)


@dataclass
class Section:
    """Entries under a heading of the help, each with its text.

    Attributes:
        heading: the heading; that of an inner section keeps its case.
        entries: paragraphs of each entry, by its names.
        about: paragraphs before the entries.
        inner: sections below the entries.
    """

    heading: str
    entries: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    about: list[str] = field(default_factory=list[str])
    inner: list[Section] = field(default_factory=list["Section"])

    def lines(self, level: str = "SH") -> Iterator[str]:
        """Yields lines of roff."""
        heading = self.heading.upper() if level == "SH" else self.heading
        yield f".{level} {roff(heading)}"
        for number, paragraph in enumerate(self.about):
            yield from [*([".PP"] if number else []), roff(paragraph)]
        for names, texts in self.entries.items():
            yield from [".TP", rf".B {roff(names)}", roff(texts[0] if texts else "")]
            for text in texts[1:]:
                yield from [".IP", roff(text)]
        for section in self.inner:
            yield from section.lines("SS")


def roff(text: str) -> str:
    """Returns text as a line of roff; what stands in backquotes is bold."""
    for sign, escaped in ESCAPES.items():
        text = text.replace(sign, escaped)
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return rf"\&{text}" if text.startswith(".") else text


def page(
    name: str, about: str, usage: Sequence[str], more: Sequence[str], sections: Sequence[Section]
) -> str:
    """Returns a page: what the program does, how it is called, and its entries by section."""
    what = about[0].lower() + about[1:].rstrip(".")
    lines = [
        rf".\" Written by `make tables` from `{name} --help`.",
        f'.TH {name.upper()} 1 "" halfwink "User Commands"',
        ".SH NAME",
        rf"{name} \- {roff(what)}",
        ".SH SYNOPSIS",
        *(rf".B {roff(line)}" for line in usage),
        ".SH DESCRIPTION",
        roff(about),
    ]
    for paragraph in more:
        lines += [".PP", roff(paragraph)]
    for section in sections:
        lines += section.lines()
    return "\n".join(lines) + "\n"


def read_help(text: str) -> tuple[list[str], list[str], list[Section]]:
    """Returns what a program's help has: paragraphs about it, lines of usage, and sections."""
    about: list[str] = []
    usage: list[str] = []
    sections: list[Section] = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if not sections and not lines[0].startswith("Usage:") and not lines[0].endswith(":"):
            about.append(" ".join(line.strip() for line in lines))
            continue
        if lines[0].startswith("Usage:"):
            usage.append(lines.pop(0).removeprefix("Usage:").strip())
        elif lines[0].endswith(":") and not lines[0].startswith(" "):
            sections.append(Section(lines.pop(0).removesuffix(":")))
        is_new = True
        for line in lines:
            entry = ENTRY.match(line)
            if entry is not None and len(line) - len(line.lstrip()) < INDENT:
                told = [entry["text"]] if entry["text"] else []
                sections[-1].entries[entry["names"]] = told
            elif sections and line.strip():
                texts = next(reversed(sections[-1].entries.values()))
                if is_new or not texts:
                    texts.append(line.strip())
                else:
                    texts[-1] += f" {line.strip()}"
            is_new = False
    return about, usage, sections


def program_page(program: Path) -> str:
    """Returns the page of a live program, from its help."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    (about, *more), usage, sections = read_help(done.stdout)
    see = Section("See also", {"halfwink(1)": ["`halfwink live` runs it, too."]})
    return page(program.name, about, usage, more, [*sections, Section("Exit status", told()), see])


def told() -> dict[str, list[str]]:
    """Returns entries for statuses."""
    return {status: [text] for status, text in STATUS.items()}


def command_section(path: Sequence[str]) -> Section:
    """Returns what the help of a command has: what it does, its arguments, options and examples."""
    from halfwink.cli.examples import EXAMPLES
    from halfwink.cli.main import command_of

    name = " ".join(path)
    text = command_of(path).generate_docs(output_format="rst").replace("``\n\n    ", "``\n    ")
    told, _, listed = text.partition("::\n\n    ")[2].partition(".. contents::")
    usage, _, about = told.partition("\n")
    words = usage.partition(" ")[2]
    found = Section(f"halfwink {name} {words}".rstrip())
    found.about = [" ".join(part.split()) for part in about.strip().split("\n\n")]
    for names, texts in COMMAND_ENTRY.findall(listed):
        for remark, plain in REMARKS.items():
            texts = texts.replace(remark, plain)
        found.entries[names] = [" ".join(part.split()) for part in texts.strip().split("\n\n")]
    for example, why in EXAMPLES[name]:
        found.entries[f"Example: halfwink {name} {example}".rstrip()] = [why]
    return found


def command_page() -> str:
    """Returns the page of the command line: every command with all of its help."""
    from halfwink.cli.main import build, commands

    paths = sorted(path for path, _ in commands(build()))
    inner = [command_section(path) for path in paths]
    names = [" ".join(("halfwink", *path)) for path in paths]
    rows = {name: section.about[:1] for name, section in zip(names, inner, strict=True)}
    options = {
        "-h, --help": ["Show all commands; behind a command, its options and examples."],
        "--version": ["Show the version."],
    }
    home = ["Folder with `machines`, `workloads`, `studies` and `targets`, in place of the ones"]
    home[0] += " that come along."
    return page(
        "halfwink",
        "Low-latency energy saving in servers: compare, reproduce, run.",
        ["halfwink COMMAND [OPTIONS]"],
        ["`halfwink COMMAND --help` shows the options and examples of a command."],
        [
            Section("Commands", rows),
            Section("Options", options),
            Section("Arguments and options of commands", inner=inner),
            Section("Environment", {"HALFWINK_HOME": home}),
            Section("Exit status", {**told(), "130": ["It was ended by Ctrl-C."]}),
            Section("See also", {", ".join(f"halfwink-{n}(1)" for n in PROGRAMS): []}),
        ],
    )


def pages() -> dict[str, str]:
    """Returns each page by its file's name; of the live programs, those that are built."""
    found = {"halfwink.1": command_page()}
    for name in PROGRAMS:
        program = Path(sys.executable).parent / f"halfwink-{name}"
        if program.exists():
            found[f"{program.name}.1"] = program_page(program)
    return found


def main() -> None:
    """Writes the pages, or compares them with what is there."""
    FOLDER.mkdir(exist_ok=True)
    old: list[str] = []
    for name, text in pages().items():
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            old.append(name)
    if old:
        sys.exit(f"docs/man: {', '.join(old)}: not as the help says; run: make tables")


if __name__ == "__main__":
    main()
