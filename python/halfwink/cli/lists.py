"""``halfwink list``: what there is, in every world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from halfwink import _core, schemas
from halfwink.cli.console import print_listing, print_tables
from halfwink.errors import HalfwinkError
from halfwink.library import library
from halfwink.targets.catalogue import experiments, machines, workloads

What = Literal[
    "worlds",
    "techniques",
    "machines",
    "workloads",
    "studies",
    "experiments",
    "targets",
    "mutants",
    "networks",
    "schemas",
]
#: Of each, in the list of lists.
EXAMPLES = 4
#: Things, and the keys that are shown of them. All that there is to know is in the JSON.
Listing = tuple[list[dict[str, Any]], list[str]]


def list_(
    what: What | None = None,
    /,
    *files: str,
    world: Annotated[str | None, Parameter(name=["-w", "--world"])] = None,
    family: str | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Show what there is; without WHAT, how much of each.

    Parameters
    ----------
    what
        worlds, techniques (with their parameters), machines, workloads, studies, experiments,
        targets, mutants (ways to break the models), networks (of power delivery), or schemas (of
        the JSON documents).
    files
        Files with policies of your own (`list techniques ./my-gate.wasm`): what they say of
        themselves.
    world
        Only what is of this world.
    family
        Only techniques of this family.
    json
        Print one JSON document.
    """
    if what is None:
        return _overview(json)
    if files and what != "techniques":
        raise HalfwinkError(f"{files[0]}: `list {what}` takes no file; `list techniques` does")
    entries, keys = _techniques(files) if files else _LISTINGS[what]()
    entries = _only(entries, "world", world, [w["name"] for w in _core.worlds()])
    entries = _only(entries, "family", family, sorted({e.get("family", "") for e in entries}))
    if json:
        print_tables(f"list {what}", {what: entries})
        return 0
    rows = [[_text(entry.get(key)) for key in keys] for entry in entries]
    print_listing([key.replace("_", " ") for key in keys], rows)
    return 0


def _overview(json: bool) -> int:
    """Prints the number of entries of each list, and the way to see them."""
    counts = {name: [entry[keys[0]] for entry in entries] for name, entries, keys in _all()}
    if json:
        rows = [{"name": n, "entries": len(all_), "names": all_} for n, all_ in counts.items()]
        print_tables("list", {"lists": rows})
        return 0
    rows = [
        [name, str(len(names)), ", ".join(dict.fromkeys(names[:EXAMPLES]))]
        for name, names in counts.items()
    ]
    print_listing(["halfwink list ...", "there are", "such as"], rows)
    return 0


def _all() -> list[tuple[What, list[dict[str, Any]], list[str]]]:
    return [(name, *listing()) for name, listing in _LISTINGS.items()]


def _only(
    entries: list[dict[str, Any]], key: str, wanted: str | None, known: list[str]
) -> list[dict[str, Any]]:
    if wanted is None:
        return entries
    if not any(key in entry or f"{key}s" in entry for entry in entries):
        raise HalfwinkError(f"--{key} {wanted}: what is listed has no {key}")
    if wanted not in known:
        raise HalfwinkError(f"unknown {key} `{wanted}`; there are: {', '.join(known)}")
    return [e for e in entries if wanted == e.get(key) or wanted in e.get(f"{key}s", ())]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _techniques(files: Sequence[str] = ()) -> Listing:
    entries = _core.techniques(list(files) or None)
    for entry in entries:
        entry["settings"] = " ".join(f"{p['name']}={p['default']}" for p in entry["parameters"])
    return entries, ["name", "family", "worlds", "available", "settings", "title"]


def _worlds() -> Listing:
    entries = _core.worlds()
    for entry in entries:
        entry["settings"] = " ".join(option["name"] for option in entry["options"])
    return entries, ["name", "settings", "title"]


def _machines() -> Listing:
    return machines(), ["name", "world", "title"]


def _workloads() -> Listing:
    entries = workloads()
    for entry in entries:
        totals = entry.get("totals")
        if totals is not None:
            share = totals["kernel_instructions"] / max(totals["instructions"], 1)
            counts = f"{totals['instructions'] / 1e6:.1f} M, {share:.0%} kernel"
            entry["instructions"] = counts
    return entries, ["name", "world", "instructions", "title"]


def _studies() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().names("studies", "toml"):
        study = library().study(name)
        kept = {key: study[key] for key in ("world", "workloads", "machines", "techniques")}
        # Of an adaptive one nobody knows.
        adaptive = study["design"]["kind"] == "adaptive"
        runs = None if adaptive else len(library().study_jobs(name))
        entries.append({"name": name, **kept, "runs": runs, "title": study["title"]})
    return entries, ["name", "world", "runs", "machines", "title"]


def _experiments() -> Listing:
    return experiments(), ["name", "title"]


def _mutants() -> Listing:
    targets = library().targets()
    entries: list[dict[str, Any]] = [
        {
            "name": mutant["name"],
            "kills": sum(mutant["name"] in target["killed_by"] for target in targets),
            "title": mutant["what"],
            **mutant,
        }
        for mutant in library().mutants()
    ]
    return entries, ["name", "breaks", "areas", "kills", "title"]


def _networks() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().networks():
        spec = library().network(name, []).spec()
        entries.append(
            {
                "name": name,
                "cores": spec["grid"]["rows"] * spec["grid"]["columns"],
                "calibrated": spec["calibrated"],
                "also": f"{name}-2x4",
                "title": spec["description"],
            }
        )
    return entries, ["name", "cores", "also", "title"]


def _targets() -> Listing:
    return library().targets(), ["id", "area", "class", "published", "unit", "quantity"]


def _schemas() -> Listing:
    entries: list[dict[str, Any]] = []
    for kind in (*schemas.kinds(), *map(schemas.of_command, schemas.commands())):
        found = schemas.schema(kind)
        entries.append({"name": kind, "title": found["description"], "json_schema": found})
    return entries, ["name", "title"]


_LISTINGS: dict[What, Callable[[], Listing]] = {
    "worlds": _worlds,
    "techniques": _techniques,
    "machines": _machines,
    "workloads": _workloads,
    "studies": _studies,
    "experiments": _experiments,
    "targets": _targets,
    "mutants": _mutants,
    "networks": _networks,
    "schemas": _schemas,
}
