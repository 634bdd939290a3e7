"""Tables of the terminal and of the documentation: names are whole, and come from the one list."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import tool
from rich.console import Console

import halfwink as hw
from halfwink.cli.console import print_listing
from halfwink.cli.examples import EXAMPLES
from halfwink.cli.lists import _LISTINGS, _text
from halfwink.cli.main import build, command_of, commands
from halfwink.library import root


@pytest.mark.parametrize("what", list(_LISTINGS))
@pytest.mark.parametrize("width", [80, 120])
def test_a_listing_fits_a_terminal_and_cuts_no_name(what: str, width: int):
    entries, keys = _LISTINGS[what]()  # type: ignore[index]
    shown = io.StringIO()
    rows = [[_text(entry.get(key)) for key in keys] for entry in entries]
    print_listing(keys, rows, to=Console(file=shown, width=width, color_system=None))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    first = {line.split(" ", 1)[0] for line in lines[1:]}
    assert {entry[keys[0]] for entry in entries} <= first
    assert "…" not in shown.getvalue()


@pytest.mark.parametrize("tool", ["technique_tables", "test_table", "man_pages"])
def test_tables_of_the_documentation_are_the_lists(tool: str):
    script = [sys.executable, str(root() / f"tools/{tool}.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_option_of_a_program_stands_in_its_manual_page():
    pages = sorted((root() / "docs/man").glob("*.1"))
    assert len(pages) == 7
    for page in pages:
        program = Path(sys.executable).parent / page.stem
        if not program.exists():
            continue
        told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
        options = set(re.findall(r"(?<![\w`-])--?[a-z][a-z-]*\b", told.stdout))
        assert len(options) >= 2
        plain = page.read_text().replace("\\-", "-")
        assert not {name for name in options if name not in plain}, page.name
        # Pages have no date, so that two builds are the same.
        for checked in (["groff", "-man", "-ww", "-z"], ["mandoc", "-T", "lint", "-W", "error"]):
            if shutil.which(checked[0]) is None:
                continue
            done = subprocess.run([*checked, page], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout + done.stderr) == (0, ""), page.name


def test_each_argument_of_a_command_stands_in_its_section_of_the_manual_page():
    escapes = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\(ti": "~"}
    text = (root() / "docs/man/halfwink.1").read_text()
    for escaped, plain in escapes.items():
        text = text.replace(escaped, plain)
    sections = dict(
        part.split("\n", 1)
        for part in re.split(r"^\.S[SH] ", text.partition(".SH ARGUMENTS")[2], flags=re.MULTILINE)
        if part.startswith("halfwink ")
    )
    by_command = {re.split(r" (?=[A-Z\[-])", head)[0]: body for head, body in sections.items()}
    paths = [path for path, _ in commands(build())]
    assert set(by_command) == {" ".join(("halfwink", *path)) for path in paths}
    for path in paths:
        app, name = command_of(path), " ".join(path)
        entries = re.findall(r"^\.TP\n\.B (.+)\n(.*)", by_command[f"halfwink {name}"], re.MULTILINE)
        known = {word for names, _ in entries for word in re.split(", | ", names)}
        for argument in app.assemble_argument_collection(parse_docstring=True):
            if argument.show:
                assert set(argument.names) <= known, (name, argument.names)
        examples = [names.removeprefix(f"Example: halfwink {name}").strip() for names, _ in entries]
        assert examples[-len(EXAMPLES[name]) :] == [words for words, _ in EXAMPLES[name]]
        assert all(about for _, about in entries), name


def test_a_manual_page_is_read_from_help_of_both_forms():
    man_pages = tool("man_pages")
    page, read_help = man_pages.page, man_pages.read_help
    text = "Does it.\n\nUsage: it [OPTIONS]\n\nArguments:\n  FILE       A file\n\nOptions:\n"
    text += "      --at <PORT>\n          One line of\n          two\n\n          [env: IT=]\n\n"
    text += "  -q, --quiet\n          No `words`\n"
    about, usage, sections = read_help(text)
    assert (about, usage) == (["Does it."], ["it [OPTIONS]"])
    assert [(s.heading, s.entries) for s in sections] == [
        ("Arguments", {"FILE": ["A file"]}),
        (
            "Options",
            {"--at <PORT>": ["One line of two", "[env: IT=]"], "-q, --quiet": ["No `words`"]},
        ),
    ]
    made = page("it", about[0], usage, [], sections).splitlines()
    assert made[made.index(".SH NAME") + 1] == "it \\- does it"
    assert made[-3:] == [".TP", ".B \\-q, \\-\\-quiet", "No \\fBwords\\fR"]


def test_without_a_word_the_list_says_what_can_be_listed(halfwink):
    done = halfwink("list")
    assert done.status == 0, done.err
    assert {line.split()[0] for line in done.out.splitlines()[1:]} >= set(_LISTINGS)
    lists = halfwink("list", "--json").rows("lists")
    names = {row["name"]: row["names"] for row in lists}
    assert [row["entries"] for row in lists] == [len(row["names"]) for row in lists]
    assert names["worlds"] == [world["name"] for world in hw.worlds()]
    assert names["workloads"] == [w["name"] for w in hw.workloads()]
    assert {m["world"] for m in hw.machines("racks")} == {"racks"}
    assert len(hw.machines()) == len(names["machines"])
    with pytest.raises(hw.HalfwinkError, match="nowhere"):
        hw.machines("nowhere")


def test_a_foreign_name_commands_no_terminal_and_keeps_its_brackets(halfwink, tmp_path):
    shown = io.StringIO()
    console = Console(file=shown, width=80, color_system="standard", force_terminal=True)
    print_listing(["name"], [["\x1b[2J\x07[red]mine[/red]\x9b1m"]], to=console)
    assert "\\x1b[2J\\x07[red]mine[/red]\\x9b1m" in shown.getvalue()
    # As the name of a file, in an answer and in a complaint.
    name = tmp_path / "\x1b[1m[1].hwt"
    name.write_bytes((root() / "workloads/gzip.hwt").read_bytes())
    done = halfwink("compare", str(name), "-n", "20000", "-t", "tap", "-o", "out")
    assert "\\x1b[1m[1]" in done.out
    assert "\x1b" not in done.out + done.err
    done = halfwink("compare", "\x1b[1mnone")
    assert "`\\x1b[1mnone`" in done.err
    assert "\x1b" not in done.err
