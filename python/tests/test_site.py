"""The site of `make docs`: the order of its pages, the generated ones, and axe-core on some."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import VIEWS, browse, views
from conftest import lacking, need

import halfwink as hw
from halfwink import schemas
from halfwink.cli.examples import EXAMPLES
from halfwink.cli.main import command_of
from halfwink.exports import SUBJECTS
from halfwink.new_policy import families

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools/site"
sys.path.insert(0, str(TOOLS))
prepare = importlib.import_module("prepare")
reference = importlib.import_module("reference")

#: Parts of the order of pages, each a kind of documentation.
KINDS = ["Tutorials", "How-to guides", "Reference", "Explanation"]
#: Pages that stand for all of their kind when the site is looked at.
LOOKED_AT = ["index", "tutorials/first-chart", "reference/cli/compare", "reference/python"]


def order() -> list[str]:
    """Returns the places of the pages in the order that the site shows."""
    text = (ROOT / "mkdocs.yml").read_text()
    return re.findall(r"^ *- (?:[^:\n]+: )?(\S+\.md)$", text.partition("\nnav:\n")[2], re.M)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a builder makes the site of."""
    folder = tmp_path_factory.mktemp("site")
    prepare.prepare(folder)
    return folder


def test_each_page_stands_once_in_the_order():
    here = [p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")]
    generated = ["reference/cli/index.md", "reference/python.md", "reference/schemas/index.md"]
    assert sorted(order()) == sorted([*here, *prepare.OUTSIDE.values(), *generated])


def test_page_that_stands_for_a_part_is_alone_or_first_in_it():
    # The builder shows such a page as the heading of its part, never in its place among others.
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    shown = re.findall(r"^ *- (.+): \S*(?:index|README)\.md$", text, re.M)
    assert shown == ["Home"]


def test_order_has_the_four_kinds():
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert re.findall(r"^  - ([^:\n]+):$", text, re.M) == KINDS


def test_links_hold_on_the_site(pages: Path):
    broken: list[str] = []
    for path in (pages / "docs").rglob("*.md"):
        text = prepare.FENCE.sub("", path.read_text())
        for _, target in prepare.LINK.findall(text):
            bare = target.partition("#")[0]
            if not bare or "://" in bare or bare.startswith("mailto:"):
                continue
            if not (path.parent / bare).is_file():
                broken.append(f"{path.relative_to(pages)}: {target}")
    assert broken == []


def test_link_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"docs/a\.md: gone\.md leads nowhere"):
        prepare.linked("[a](gone.md)", "docs/a.md", "a.md")


@pytest.mark.parametrize(
    ("link", "source", "place", "expected"),
    [
        ("../CHANGELOG.md", "docs/faq.md", "faq.md", "changes.md"),
        ("../../machines/ev6.toml#L3", "docs/techniques/a.md", "techniques/a.md", "blob"),
        ("docs/node.md#a", "CONTRIBUTING.md", "contributing.md", "node.md#a"),
        ("../README.md", "docs/faq.md", "faq.md", "index.md"),
        ("techniques", "docs/faq.md", "faq.md", "techniques/README.md"),
        ("#here", "docs/faq.md", "faq.md", "#here"),
        ("https://a.example/b.md", "docs/faq.md", "faq.md", "https://a.example/b.md"),
    ],
)
def test_link_is_pointed_at_a_page(link: str, source: str, place: str, expected: str):
    if expected == "blob":
        expected = f"{prepare.REPOSITORY}/machines/ev6.toml#L3"
    assert prepare.linked(f"[a]({link})", source, place) == f"[a]({expected})"
    fenced = f"```\n[a]({link})\n```\n"
    assert prepare.linked(fenced, source, place) == fenced


def test_each_command_has_a_page_with_its_options_and_examples(pages: Path):
    for name, place in reference.command_places():
        text = (pages / "docs" / place).read_text()
        assert text.startswith(f"# halfwink {name}\n\n```text\nhalfwink {name}")
        assert "\n**" not in text, name
        for example, _ in EXAMPLES[name]:
            assert f"halfwink {name} {example}".rstrip() in text
        told = command_of(name.split()).help.partition("Parameters\n")[0]
        assert " ".join(told.split()) in " ".join(text.split()), name
    text = (pages / "docs/reference/cli/compare.md").read_text()
    assert "`--machine, -m STR`\n:   Machine, with a number of cores" in text
    assert f"- compare: {reference.CLI}/compare.md\n" in (pages / "mkdocs.yml").read_text()


def test_each_public_name_has_its_docstring(pages: Path):
    text = (pages / "docs/reference/python.md").read_text()
    for name in set(hw.__all__) - {"__version__"}:
        assert f"\n### `{name}`\n" in text, name
    for subject in SUBJECTS:
        _, _, part = text.partition(f"\n## halfwink.{subject}\n")
        for name in importlib.import_module(f"halfwink.{subject}").__all__:
            assert f"\n### `{name}`\n" in part.partition("\n## ")[0], name
    for family in families():
        _, _, part = text.partition(f"\n## halfwink.policies.{family}\n")
        told = importlib.import_module(f"halfwink.policies.{family}").FAMILY
        for of in (told.start, *told.events.values(), *told.actions.values()):
            assert f"\n* `{of.__name__}(" in part.partition("\n## ")[0], of
    assert "* `machine`: name, with a number of cores (`ev6-16`), or a file.\n" in text
    assert "hw.experiment(" in text
    assert ":func:" not in text


def test_each_kind_of_document_has_a_page(pages: Path):
    for kind in schemas.kinds():
        text = (pages / "docs/reference/schemas" / f"{kind}.md").read_text()
        for key in schemas.schema(kind).get("properties", {}):
            assert f"| `{key}` |" in text, (kind, key)


def test_pins_of_builder_agree_with_all_others():
    # All of them go into one environment.
    def pins(name: str) -> dict[str, str]:
        text = (ROOT / name).read_text()
        return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.M))

    built = pins("requirements-docs.lock")
    for other in ("requirements.lock", "requirements-tests.lock"):
        known = pins(other)
        assert {k: v for k, v in built.items() if known.get(k, v) != v} == {}


@pytest.fixture(scope="module")
def site(pages: Path) -> Path:
    """The site as HTML."""
    if find_spec("mkdocs") is None:
        lacking("what builds the site is missing; run: make docs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", pages / "html"]
    done = subprocess.run(
        [*words, "--config-file", pages / "mkdocs.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return pages / "html"


@pytest.mark.full("docs")
def test_site_loads_nothing_from_other_hosts(site: Path):
    found = set()
    for page in site.rglob("*.html"):
        found |= set(
            re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(https?:[^\"> ]+)", page.read_text())
        )
        found |= set(re.findall(r"<link[^>]* href=\"?(https?:[^\"> ]+)", page.read_text()))
    assert found == set()
    assert (site / "search/search_index.js").stat().st_size > 100_000


@pytest.mark.full("docs")
@pytest.mark.browser
def test_search_works_without_server(site: Path, tmp_path: Path):
    shown = browse(site / "index.html", tmp_path, query="?q=wake-up")
    found = re.search(r"(\d+) matching documents", shown)
    assert found is not None, shown[-2000:]
    assert int(found[1]) > 5
    assert "techniques/wake-up.html" in shown


@pytest.mark.full("docs")
@pytest.mark.browser
@pytest.mark.parametrize("name", LOOKED_AT)
def test_page_is_accessible(name: str, site: Path, tmp_path: Path):
    need("chromium")
    screens, _ = views(site / f"{name}.html", tmp_path)
    assert [(view.width, view.dark) for view in screens] == list(VIEWS)
    for view in screens:
        assert view.broken == [], view
        assert view.wider <= 0, view
        assert view.passed > 15
