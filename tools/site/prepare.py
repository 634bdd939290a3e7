"""Gathers the pages of the site in a folder, from which a builder makes HTML.

    .venv/bin/python tools/site/prepare.py FOLDER     writes FOLDER/mkdocs.yml and FOLDER/docs

To docs/ come the pages that stand outside it and those that are generated. Links that hold in the
repository, as GitHub shows it, are pointed at pages of the site. No builder is needed here.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

import reference

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "mkdocs.yml"
REPOSITORY = "https://github.com/halfwink/halfwink/blob/main"
#: Pages of the site that are files outside docs/.
OUTSIDE = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "machines/mcpat/README.md": "mcpat.md",
    "targets/README.md": "targets.md",
}
#: A link or picture of Markdown: what stands before the target, and the target.
LINK = re.compile(r"(\]\()([^)\s]+)(?=[)\s])")
FENCE = re.compile(r"^ *(```+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
#: The list of commands in the order of pages; the commands follow it.
COMMANDS = re.compile(rf"^( *- ){reference.CLI}/index\.md\n", re.MULTILINE)


def prepare(folder: Path) -> None:
    """Writes the pages and the configuration of the builder.

    Raises:
        ValueError: a page links a file that does not exist.
    """
    pages = folder / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("__pycache__"))
    sources = {f"docs/{p.relative_to(pages).as_posix()}": p for p in pages.rglob("*.md")}
    sources |= {source: pages / place for source, place in OUTSIDE.items()}
    generated = reference.pages()
    for source, path in sources.items():
        place = path.relative_to(pages).as_posix()
        text = (ROOT / source).read_text()
        path.write_text(linked(text, source, place, generated.keys()))
    for place, text in generated.items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(text)
    (folder / "mkdocs.yml").write_text(configuration(CONFIG.read_text()))


def configuration(text: str) -> str:
    """Returns the configuration with the commands in the order of pages."""
    commands = reference.command_places()

    def lines(found: re.Match[str]) -> str:
        return found[0] + "".join(f"{found[1]}{name}: {place}\n" for name, place in commands)

    return COMMANDS.sub(lines, text)


def linked(text: str, source: str, place: str, generated: Collection[str] = ()) -> str:
    """Returns a page whose links lead to pages of the site, or else to the repository.

    Args:
        text: the page; what stands between fences is left as it is.
        source: its file, relative to the repository.
        place: its place on the site.
        generated: places of generated pages, which are no files.

    Raises:
        ValueError: a link leads nowhere.
    """

    def point(found: re.Match[str]) -> str:
        return found[1] + moved(found[2], source, place, generated)

    done, last = "", 0
    for fence in FENCE.finditer(text):
        done += LINK.sub(point, text[last : fence.start()]) + fence[0]
        last = fence.end()
    return done + LINK.sub(point, text[last:])


def moved(link: str, source: str, place: str, generated: Collection[str]) -> str:
    """Returns the target of one link; the arguments are those of `linked`."""
    target, mark, anchor = link.partition("#")
    if not target or "://" in target or target.startswith("mailto:"):
        return link
    to = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    inside = to.removeprefix("docs/")
    if to in OUTSIDE:
        to = OUTSIDE[to]
    elif to == "README.md":
        to = "index.md"
    elif to.startswith("docs/") and inside in generated:
        to = inside
    elif not (ROOT / to).exists():
        raise ValueError(f"{source}: {link} leads nowhere")
    elif to.startswith("docs/") and (ROOT / to).is_file():
        to = inside
    elif to.startswith("docs/") and (ROOT / to / "README.md").is_file():
        to = f"{inside}/README.md"
    else:
        return f"{REPOSITORY}/{to}{mark}{anchor}"
    return posixpath.relpath(to, posixpath.dirname(place) or ".") + mark + anchor


def main() -> int:
    """Prepares the folder that is named."""
    try:
        prepare(Path(sys.argv[1]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
