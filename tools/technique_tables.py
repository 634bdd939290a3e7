"""The tables of techniques in README.md and docs/techniques/README.md, from the one list.

.venv/bin/python tools/technique_tables.py            write them (`make tables`)
.venv/bin/python tools/technique_tables.py --check    fail where they are not as they should be
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from halfwink import _core

ROOT = Path(__file__).parents[1]
#: What a family is, and the page that tells how its techniques decide.
FAMILIES = {
    "gating": ("memory-access power gating", "gating.md"),
    "dvfs": ("frequency and voltage, to compare gating with", "gating.md"),
    "c-states": ("idle states of today", "c-states.md"),
    "wake-up": ("safe wake-up", "wake-up.md"),
    "offload": ("kernel code on other cores", "offload.md"),
    "segregation": ("kernel and user apart in a cache", "segregation.md"),
    "preheat": ("caches loaded before the request", "preheat.md"),
    "circuits": ("which circuits an optical switch sets up next", "circuits.md"),
    "completion": ("which CPU completes a block I/O", "storage.md"),
    "switching": ("changing cores fast", "core-switching.md"),
    "power-down": ("when idle cores power down, under a way to switch", "core-switching.md"),
    "scaling": ("energy-proportional router", "router.md"),
    "steering": ("hybrid server", "hybrid.md"),
    "idle": ("idle cores of a server of today", "../node.md"),
    "package": ("what cores of a server share", "../node.md"),
    "dispatch": ("how requests come to cores of a server", "../node.md"),
    "input": ("when a server's network card interrupts", "../node.md"),
}
BEGIN, END = "<!-- techniques: written by `make tables` -->", "<!-- end of techniques -->"


def families() -> dict[str, list[dict[str, Any]]]:
    """Techniques by family, in the order of `FAMILIES`; in a family as they are listed."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in FAMILIES}
    for technique in _core.techniques():
        if technique["family"] not in found:
            sys.exit(f"family `{technique['family']}` is not in {__file__}: add its page there")
        found[technique["family"]].append(technique)
    return {name: techniques for name, techniques in found.items() if techniques}


def in_readme(page: str) -> str:
    """The path of a family's page from README.md, which GitHub shows as it stands."""
    return os.path.normpath(f"docs/techniques/{page}")


def overview() -> str:
    """A row for each family."""
    lines = ["| family | worlds | techniques | page |", "|---|---|---|---|"]
    for family, techniques in families().items():
        title, page = FAMILIES[family]
        worlds = ", ".join(dict.fromkeys(world for t in techniques for world in t["worlds"]))
        names = ", ".join(dict.fromkeys(f"`{t['name']}`" for t in techniques))
        lines.append(f"| {title} | {worlds} | {names} | [{family}]({in_readme(page)}) |")
    return "\n".join(lines)


def details() -> str:
    """A section for each family: a row for each technique, then one for each parameter."""
    parts: list[str] = []
    for family, techniques in families().items():
        title, page = FAMILIES[family]
        parts += [f"## {family}: {title}", f"How they decide: [{page}]({page})."]
        rows = ["| technique | worlds | what it does | needs | source |", "|" + "---|" * 5]
        rows += [
            f"| `{t['name']}` | {', '.join(t['worlds'])} | {t['title']} | "
            f"{t['available']}: {t['how']} | {t['source']} |"
            for t in techniques
        ]
        parts.append("\n".join(rows))
        # Two worlds may each have a technique of one name, with parameters of its own.
        named = Counter(t["name"] for t in techniques)
        worlds = {id(t): f" ({', '.join(t['worlds'])})" for t in techniques if named[t["name"]] > 1}
        rows = ["| parameter | unit | default | range | what it is | source |", "|" + "---|" * 6]
        rows += [
            f"| `{t['name']}:{p['name']}`{worlds.get(id(t), '')} | {p['unit']} | "
            f"{p['default']} | {p['range']} | "
            f"{p['title']} | {p['source']} |"
            for t in techniques
            for p in t["parameters"]
        ]
        if len(rows) > 2:
            parts.append("\n".join(rows))
    return "\n\n".join(parts)


TABLES = {"README.md": overview, "docs/techniques/README.md": details}


def main() -> None:
    """Writes or checks."""
    wrong: list[str] = []
    for name, make in TABLES.items():
        path = ROOT / name
        text = path.read_text()
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            sys.exit(f"{name}: no `{BEGIN}` and `{END}`")
        wanted = f"{before}{BEGIN}\n\n{make()}\n\n{END}{after}"
        if wanted != text:
            wrong.append(name)
            if "--check" not in sys.argv:
                path.write_text(wanted)
    if wrong and "--check" in sys.argv:
        sys.exit(f"{', '.join(wrong)}: not the list of techniques; run: make tables")


if __name__ == "__main__":
    main()
