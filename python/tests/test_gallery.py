"""The gallery: published figures with ours beside, as files, pages, pictures and a command."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import altair as alt
import pytest
from browser import probed, views
from conftest import Halfwink
from test_figures import faults

from halfwink import HalfwinkError
from halfwink.cli import gallery as commands
from halfwink.library import library, root
from halfwink.report.figures import POINTS, STYLES, WIDTHS, Figure, scene
from halfwink.report.figures import specification as drawn
from halfwink.report.gallery import sentences, write_gallery
from halfwink.report.gallery_chart import (
    KINDS,
    LABELS,
    OURS,
    is_logarithmic,
    is_number,
    panels,
    specification,
)
from halfwink.targets import targets as published
from halfwink.targets.published_figures import FigureError, Work, costs, home, load, mentioned

HEAD = 'schema = 1\nwork = "tap"\n'


def target(name: str, source: str) -> dict[str, Any]:
    return {"id": f"tap/{name}", "source": f"Tap 2013, {source}", "compute": None}


def entry(name: str, published: Any = 20.0, ours: Any = 19.0, **changes: Any) -> dict[str, Any]:
    made = {
        "id": f"tap/{name}",
        "area": "gating",
        "quantity": f"saving of {name}",
        "unit": "claim" if isinstance(published, bool) else "%",
        "published": published,
        "ours": ours,
        "verdict": "match",
        "held_out": False,
        "null": {"text": "no gates", "value": 0.0, "met": False},
        "killed_by": [],
        "note": "",
    }
    return made | changes


def figures(folder: Path, text: str, *targets: dict[str, Any]) -> list[Work]:
    (folder / "tap.toml").write_text(HEAD + text)
    return load(folder, targets)


def one_figure(folder: Path, *names: str) -> list[Work]:
    those = [target(name, "Fig 2.1") for name in names]
    return figures(folder, '[[figure]]\nname = "F2.1"\ntitle = "savings"\n', *those)


@pytest.mark.parametrize(
    ("source", "named", "belongs"),
    [
        ("Fig 2.13, Sec 2.5.1", ["F2.13"], "F2.13"),
        ("Sec 2.1.2, Fig 2.2", ["F2.2"], "F2.2"),
        ("Table 3.4(a)", ["Table3.4"], "Table3.4"),
        ("Table 4", ["Table4"], "Table4"),
        ("Fig 4.9 to 4.11, Sec 4.7.1", ["F4.9", "F4.10", "F4.11"], "F4.9"),
        ("Fig 4.6, Fig 4.12", ["F4.6", "F4.12"], "F4.6"),
        ("Sec 2.3.4", [], "Text2"),
        ("Ch. 4 introduction", [], "Text4"),
        ("abstract, Ch. 5", [], "Abstract"),
        ("workshop paper 2010, abstract", [], "Papers"),
    ],
)
def test_source_names_figures_and_one_home(source: str, named: list[str], belongs: str):
    made = target("a", source)
    assert mentioned(made) == [f"tap/{name}" for name in named]
    assert home(made) == f"tap/{belongs}"


def test_every_target_belongs_to_one_figure_that_one_picture_holds():
    works, targets = commands.works(), library().targets()
    every = [f for work in works for f in work.figures]
    found = Counter(id for figure in every for id in figure.targets)
    assert found == Counter(t["id"] for t in targets)
    assert all(f.id == home(t) for f in every for t in targets if t["id"] in f.targets)
    numbers = {t["id"]: is_number(t["published"]) for t in targets}
    assert max(sum(numbers[id] for id in figure.targets) for figure in every) <= commands.MOST
    # Tables are printed whole; what a picture shows is known from the text alone.
    drawn_only = [f for f in every if re.match(r"F\d", f.anchor)]
    assert [f.id for f in drawn_only if not f.known] == []
    priced = costs(root() / "targets/costs.csv", works, targets)
    assert priced.keys() == {figure.id for figure in every}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "tap/F2.1: found no entry, expected a title, as tap/a stands in it"),
        ('[[figure]]\nname = "F2.2"\ntitle = "x"\n', "tap/F2.2: found no target of it"),
        ('[[figure]]\nname = "F2.1"\n', "tap/F2.1: found it twice or untitled"),
        ('[[figure]]\nname = "F2.1"\ntitel = "x"\n', "tap/F2.1: found `titel`, expected name, ti"),
        ('lots = "x"\n', "the file: found `lots`, expected schema, work, lost, figure"),
    ],
)
def test_wrong_file_of_figures_is_refused(text: str, expected: str, tmp_path: Path):
    with pytest.raises(FigureError, match=re.escape(f"{tmp_path / 'tap.toml'}: {expected}")):
        figures(tmp_path, text, target("a", "Fig 2.1"))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            [
                entry("a"),
                entry("c", ours=9.0, verdict="miss"),
                entry("b", ours=1.0, verdict="miss"),
            ],
            "1 of 3 predictions are met; a model without the mechanism meets none. Not met: saving "
            "of b (printed 20 %, here 1 %); saving of c (printed 20 %, here 9 %).",
        ),
        ([entry("a")], "The one prediction is met; a model without the mechanism misses it."),
        (
            [entry("a", True, False, verdict="fails")],
            "The one prediction is missed; a model without the mechanism misses it. Not met: the "
            "statement that saving of a.",
        ),
        (
            [entry("a", verdict="calibrated", null=None), entry("b", ours=None, verdict="not-yet")],
            "No prediction: 1 calibrated, 1 not-yet. 1 of 2 has no value here.",
        ),
    ],
)
def test_sentences_say_what_holds_and_what_fails(entries: list[Any], expected: str):
    assert " ".join(sentences(entries)) == expected


def test_page_shows_each_target_once_and_escapes_its_text(tmp_path: Path):
    hostile = '</script><b>bold</b> & "quoted"'
    entries = [
        entry("a", quantity=f"{hostile} of a", note=hostile),
        entry("b", ours=None, verdict="undetermined"),
        entry("c", True, True),
    ]
    pages = write_gallery(tmp_path / "new", one_figure(tmp_path, "a", "b", "c"), entries, {})
    assert [page.name for page in pages] == ["tap.html", "index.html"]
    text = pages[0].read_text()
    assert re.findall(r'class="id">(tap/\w)<', text) == ["tap/a", "tap/b", "tap/c"]
    assert text.count('<section id="F2.1"') == 1
    assert "<b>bold" not in text
    assert text.count("</script>") == 1
    assert "never computed" in text
    assert "halfwink reproduce tap/F2.1 --fresh" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert 'href="tap.html#F2.1"' in pages[1].read_text()


def test_chart_has_a_mark_for_each_value_within_its_axes():
    entries = published.kept(["strong/F4.3", "strong/Table3.12", "strong/Table3.16"])
    numbers = [e for e in entries if is_number(e["published"])]
    found = [(row, e) for panel in panels(entries) for row in panel.rows for e in row.entries]
    assert sorted(e["id"] for _, e in found) == sorted(e["id"] for e in numbers)
    figure = Figure(
        lambda size, font, _: alt.Chart.from_dict(specification(entries, size[0], font) or {}),
        "",
        1 + LABELS,
    )
    graph = scene(drawn(figure, STYLES["dark"], WIDTHS["column"]))
    assert abs(graph["width"] - WIDTHS["column"] * POINTS) <= 1.5
    assert faults(graph) == []
    assert outside(graph) == []
    ours = sum(is_number(e["ours"]) for e in numbers)
    nulls = sum(bool(e["null"]) for e in numbers)
    assert len(symbols(graph)) == len(numbers) + ours + nulls


def symbols(graph: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every point of the charts, with the group that it stands in."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def walk(mark: dict[str, Any], group: dict[str, Any]) -> None:
        for item in mark.get("items", ()):
            if mark.get("marktype") == "symbol" and mark.get("role") == "mark":
                found.append((item, group))
            for inner in item.get("items", ()):
                walk(inner, item if item.get("width") else group)

    walk(graph["scenegraph"], {})
    return found


def outside(graph: dict[str, Any]) -> list[tuple[float, float]]:
    """Points that do not stand between the axes."""
    return [
        (item["x"], item["y"])
        for item, group in symbols(graph)
        if not (-0.5 <= item["x"] <= group["width"] + 0.5)
        or not (-0.5 <= item["y"] <= group["height"] + 0.5)
    ]


def test_axis_is_logarithmic_where_values_span_decades():
    assert is_logarithmic([1.0, 31.0])
    assert not is_logarithmic([1.0, 29.0])
    assert not is_logarithmic([0.0, 1000.0])
    assert not is_logarithmic([-1.0, 1000.0])


def test_every_verdict_has_a_kind_of_mark():
    verdicts = [verdict for those in OURS.values() for verdict in those]
    assert sorted(verdicts) == sorted(published.VERDICTS)
    assert set(OURS) < set(KINDS)


def test_gallery_of_a_figure_is_written_by_the_command(halfwink: Halfwink, tmp_path: Path):
    done = halfwink("reproduce", "gallery", "strong/F4.3", "-o", str(tmp_path / "g"))
    assert (done.status, done.out) == (0, "")
    assert done.err == f"2 pages; open {tmp_path / 'g/index.html'}\n"
    text = (tmp_path / "g/strong.html").read_text()
    assert text.count("<section id=") == 1


def test_figure_is_drawn_for_print_with_its_caption(halfwink: Halfwink, tmp_path: Path):
    path = tmp_path / "figure.svg"
    done = halfwink("reproduce", "strong/F4.3", "--plot", str(path), "--style", "talk")
    assert done.status == 0
    assert "caption: Fig 4.3, Bandwidth and round-trip time by duty cycle. Rings: pub" in done.err
    assert path.read_text().startswith("<svg")
    assert "currentColor" not in path.read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gallery"], "reproduce gallery: expected a folder for the pages, such as -o gallery"),
        (["gallery", "strong/F2.133", "-o", "x"], "no target, figure, area or work `strong/F2.133"),
        (["gallery", "-o", "x", "--fresh"], "gallery goes with works, areas, figures, ids, -o and"),
        (["strong/Fig2.13"], "`strong/Fig2.13`; did you mean `strong/F2.13`"),
        (["nellans/Tabel5.1"], "did you mean `nellans/Table5.1`"),
        (["strong", "-o", "x"], "-o goes with gallery"),
        (["--plot", "x.svg"], "all works has 1,8"),
        (["strong/F2.6", "--plot", "x.svg"], "strong/F2.6: its targets are statements without"),
        (["strong/F4.3", "--plot", "x.gif"], "x.gif: expected a name that ends in .pdf"),
        (["strong/F4.3", "--plot", "x.svg", "--scores"], "--plot goes without"),
    ],
)
def test_mistake_is_told_in_one_line(
    halfwink: Halfwink, words: list[str], expected: str, tmp_path: Path
):
    done = halfwink("reproduce", *[str(tmp_path / w) if w == "x" else w for w in words])
    assert done.status == 2
    assert expected in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_told(tmp_path: Path, halfwink: Halfwink):
    (tmp_path / "file").write_text("")
    done = halfwink("reproduce", "gallery", "strong/F4.3", "-o", str(tmp_path / "file/g"))
    assert (done.status, done.out) == (2, "")
    assert done.err == f"halfwink: {tmp_path / 'file/g'}: Not a directory\n"


def test_value_that_was_not_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets/ours.csv").write_text("id,ours\ngottschlag/T61.1/warm,1\n")
    monkeypatch.setattr(published, "root", lambda: tmp_path)
    with pytest.raises(HalfwinkError, match=r"no value of gottschlag/T61\.1/cold and of \d+ more"):
        published.kept("strong/F4.3")


#: Which tables are wider than what shows them.
BESIDE = """<script>ready.then(() => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const wide = [...document.querySelectorAll(".wide")];
  const beside = wide.filter((part) => part.scrollWidth > part.clientWidth);
  show({width: innerWidth, beside: beside.map((part) => part.ariaLabel)});
})</script>"""


@pytest.mark.browser
def test_pages_are_accessible_and_fit(tmp_path: Path):
    works = commands.works()
    entries = published.kept(["strong/F4.18", "strong/Table3.7", "strong/F2.6"])
    write_gallery(tmp_path, works, entries, {})
    for name in ("strong.html", "index.html"):
        screens, paper = views(tmp_path / name, tmp_path)
        assert [view.broken for view in [*screens, paper]] == [[]] * 5
        assert [view.wider for view in screens] == [0] * 4
        assert paper.clipped == []
        # Nothing of a table lies beside a telephone's screen.
        assert probed(tmp_path / name, BESIDE, tmp_path, 360) == {"width": 360, "beside": []}


def test_every_missed_value_has_a_note_that_names_real_mutants():
    entries = published.kept()
    missed = [e for e in entries if e["verdict"] in published.FAILURES]
    assert [e["id"] for e in missed if not e["note"]] == []
    known = {mutant["name"] for mutant in library().mutants()}
    named = [name for e in entries for name in re.findall(r"\(mutants? ([a-z-]+)", e["note"])]
    assert named
    assert set(named) <= known
