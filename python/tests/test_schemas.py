"""Schemas of the JSON documents. That documents are as they say is checked wherever a test reads
one (`conftest.document`)."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import Halfwink, document, lacking

import halfwink
from halfwink import HalfwinkError, _core, schemas
from halfwink.cli import console
from halfwink.schemas import parts

#: Kinds, and the tables of each command.
EVERY = [*schemas.kinds(), *map(schemas.of_command, schemas.commands())]
CLI = Path(console.__file__).parent
#: Functions that are told a kind, and as which argument.
TOLD = {"print_json": 0, "json_text": 0, "put_json": 0, "serve_until_told": 3}


@pytest.mark.parametrize("command", schemas.commands())
def test_a_document_names_its_schema_by_its_command(command: str):
    assert schemas.schema("tables." + command) == schemas.schema(schemas.of_command(command))


def test_the_error_of_an_unknown_kind_names_those_of_commands_too():
    with pytest.raises(HalfwinkError, match=r"`tables\.nope`.* capture, .* tables\.trace\.info"):
        schemas.schema("tables.nope")


def printed(told: dict[str, int] = TOLD) -> set[str]:
    """Kinds that the command line prints, or commands with tables, as regular expressions."""
    found: set[str] = set()
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in told or path.name == "console.py":
                continue
            kind = node.args[told[node.func.id]]
            if isinstance(kind, ast.Name):
                # Its callers' word.
                continue
            if isinstance(kind, ast.Constant):
                found.add(re.escape(kind.value))
            else:
                assert isinstance(kind, ast.JoinedStr), ast.dump(kind)
                parts = [
                    re.escape(v.value) if isinstance(v, ast.Constant) else "[a-z-]+"
                    for v in kind.values
                ]
                found.add("".join(parts))
    return found


def test_every_kind_that_is_printed_has_a_schema_and_no_other() -> None:
    there = schemas.kinds()
    kinds = printed() | {"tables"}
    for kind in kinds:
        assert any(re.fullmatch(kind, name) for name in there), kind
    for name in there:
        assert any(re.fullmatch(kind, name) for kind in kinds), name


def test_every_command_that_prints_tables_declares_them_and_no_other() -> None:
    there, commands = schemas.commands(), printed({"print_tables": 0, "put_tables": 0})
    for command in commands:
        assert any(re.fullmatch(command, name) for name in there), command
    for name in there:
        assert any(re.fullmatch(command, name) for command in commands), name


@pytest.mark.parametrize("kind", schemas.kinds())
def test_a_schema_is_one_and_names_its_kind(kind: str) -> None:
    found = schemas.schema(kind)
    jsonschema.Draft202012Validator.check_schema(found)
    name = f"halfwink.{kind}/{schemas.VERSION}"
    assert found["title"] == name
    assert found["properties"]["schema"]["const"] == name
    assert "schema" in found["required"]
    assert found["description"].startswith(("halfwink ", "file "))


@pytest.mark.parametrize("kind", EVERY)
def test_every_key_is_described_with_its_unit(kind: str) -> None:
    def check(part: Any) -> None:
        for key, inner in part.get("properties", {}).items():
            about = inner.get("description", "")
            assert re.fullmatch(r"[A-Z0-9`].*\.", about), f"{kind}: {key}: {about}"
            assert parts.unit(key).lower() in about.lower(), f"{kind}: {key}: {about}"
            check(inner)
        for key in ("items", "additionalProperties"):
            if isinstance(part.get(key), dict):
                check(part[key])

    check(schemas.schema(kind))


def world_columns() -> list[tuple[str, str]]:
    """Tables and columns that worlds declare."""
    tables = [(f"{w['name']}.{t}", held) for w in _core.worlds() for t, held in w["tables"].items()]
    return [(table, name) for table, held in tables for name, _ in held]


def test_every_column_of_a_world_is_described() -> None:
    for table, name in world_columns():
        about = parts.described(name)
        assert re.fullmatch(r"[A-Z0-9].*\.", about), f"{table}: {name}: {about}"


def test_every_word_is_a_key_of_a_document_or_a_column() -> None:
    names: set[str] = set()

    def find(part: Any) -> None:
        names.update(part.get("properties", ()))
        below = (part.get("items"), part.get("additionalProperties"))
        for inner in (*part.get("properties", {}).values(), *below):
            if isinstance(inner, dict):
                find(inner)

    for kind in EVERY:
        find(schemas.schema(kind))
    columns = {name for _, name in world_columns()}
    assert set(parts.words()) <= names | columns
    assert set(parts.table_words()) <= names


def test_key_without_description_is_an_error() -> None:
    with pytest.raises(KeyError, match="`mine_j` has no description"):
        parts.part("energy_j", mine_j=parts.NUMBER)
    with pytest.raises(KeyError, match="mine"):
        parts.part("mine")
    about = parts.described("energy_saving_low_pct")
    assert about == "Lower end of the interval of `energy_saving_pct`, in per cent."


def test_a_document_that_is_not_as_it_says_is_found() -> None:
    facts = {"journal": "mine", "changes": []}
    good = {"schema": "halfwink.tables/1", "command": "live resctrl restore"}
    good |= {"tables": {}, "facts": facts, "verdict": []}
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        document(json.dumps(good))
    wrong = good | {"facts": facts | {"nothing": True, "changes": "mine"}}
    with pytest.raises(jsonschema.ValidationError, match="'mine'"):
        document(json.dumps(wrong))
    with pytest.raises(AssertionError):
        document(json.dumps({"schema": 1}))
    with pytest.raises(HalfwinkError, match="no JSON document `mine`"):
        schemas.schema("mine")


#: Commands that are over in seconds, where no other test reads what they print.
QUICK = (
    "list experiments",
    "list mutants",
    "list networks",
    "list workloads",
    "live costs --repeats 1",
    "live idle --seconds 0.1",
    "live sink lo --seconds 0.1",
    "pdn --case awa./..../..../....",
    "preheat simulate nginx --requests 20 --training 5",
    "reproduce switching",
    "switching --calls",
    "trace caches nginx",
    "trace check nginx",
    "trace kernel nginx",
)


@pytest.mark.parametrize("command", QUICK)
def test_a_command_prints_what_its_schema_says(halfwink: Halfwink, command: str) -> None:
    done = halfwink(*command.split(), "--json")
    if "live sink" in command and "CAP_NET_RAW" in done.err:
        lacking(done.complaint, kernel=True)
    assert done.status == 0, done.err
    found = done.json()
    kind = schemas.kind_of(found)
    if kind == "tables":
        assert command.startswith(found["command"])
    else:
        assert command.startswith(str(kind).replace(".", " "))


def test_every_column_of_a_comparison_is_described(halfwink: Halfwink) -> None:
    tables = halfwink("compare", "alu", "-n", "20000", "-t", "tap", "--json").json()["tables"]
    columns = [column for table in tables.values() for column in table["columns"]]
    assert [c["name"] for c in columns if c["about"].startswith("Column that")] == []
    assert {c["kind"] for c in columns} == {"text", "number", "integer"}


def test_columns_have_units_kinds_and_descriptions(halfwink: Halfwink) -> None:
    found = halfwink("preheat", "breakdown", "--json").json()
    columns = {column["name"]: column for column in found["tables"]["steps"]["columns"]}
    assert columns["time_us"] == {
        "name": "time_us",
        "unit": "microseconds",
        "kind": "number",
        "about": "Time, in microseconds.",
    }
    assert (columns["step"]["unit"], columns["step"]["kind"]) == (None, "text")
    for name in ("rows", "columns"):
        broken = json.loads(json.dumps(found))
        broken["tables"]["steps"][name][0].popitem()
        with pytest.raises((jsonschema.ValidationError, AssertionError)):
            document(json.dumps(broken))
    renamed = json.dumps(found).replace('"time_us"', '"time_ns"')
    with pytest.raises(jsonschema.ValidationError, match="time_ns"):
        document(renamed)
    with pytest.raises(HalfwinkError, match="`mine` prints no tables"):
        schemas.filled("mine", {}, {})


#: What a name says of a value: sampled documents whose values were null do not show it.
TEXTS = re.compile(r"(^|_)(fallback|unread|reason|why|path|title|note|mechanism|name)$")


@pytest.mark.parametrize("kind", schemas.kinds())
def test_what_is_text_is_no_number(kind: str) -> None:
    def wrong(part: object, name: str) -> list[str]:
        if not isinstance(part, dict):
            return []
        found = [name] if TEXTS.search(name) and "number" in part.get("type", ()) else []
        for key, inner in part.get("properties", {}).items():
            found += wrong(inner, key)
        for key in ("items", "additionalProperties"):
            found += wrong(part.get(key), name if key == "items" else "")
        return found

    assert wrong(schemas.schema(kind), "") == []


def test_they_can_be_listed(halfwink: Halfwink) -> None:
    done = halfwink("list", "schemas")
    assert "halfwink compare" in done.out
    listed = {
        entry["name"]: entry for entry in halfwink("list", "schemas", "--json").rows("schemas")
    }
    assert listed["capture"]["json_schema"] == schemas.schema("capture")
    assert "required" in listed["tables.compare"]["json_schema"]


def test_the_page_names_them_all() -> None:
    page = (Path(halfwink.__file__).parents[2] / "docs/json.md").read_text()
    for kind in (*schemas.kinds(), *schemas.commands()):
        assert f"`{kind}`" in page, kind
