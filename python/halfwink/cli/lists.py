"""``halfwink list``: what there is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from halfwink import _core
from halfwink.cli.console import print_json, print_table
from halfwink.library import library

What = Literal["techniques", "machines", "networks", "switching", "workloads", "studies", "targets"]


def list_(
    what: What, /, *, json: Annotated[bool, Parameter(name="--json", negative="")] = False
) -> int:
    """Show what there is.

    Parameters
    ----------
    what
        techniques, machines, networks, switching (models), workloads, studies or targets.
    json
        Print one JSON document.
    """
    document, columns = _TABLES[what]()
    if json:
        print_json(document)
        return 0
    rows = [
        ["" if entry.get(key) is None else str(entry[key]) for key in columns] for entry in document
    ]
    print_table([(key.replace("_", " "), _side(key)) for key in columns], rows)
    return 0


def _side(key: str) -> str:
    return (
        "right"
        if key in ("cores", "clock_ghz", "instructions", "requests", "size", "kernel")
        else "left"
    )


Listing = tuple[list[dict[str, Any]], list[str]]


def _techniques() -> Listing:
    entries: list[dict[str, Any]] = list(_core.techniques())
    for name, title, source in _core.router_policies():
        entries.append({"name": name, "family": "scaling", "title": title, "source": source})
    for name, title, source in _core.server_policies():
        entries.append({"name": name, "family": "steering", "title": title, "source": source})
    return entries, ["name", "family", "title", "source"]


def _machines() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().names("machines", "toml"):
        info = library().machine(name, [])
        entries.append(
            {
                "name": name,
                "world": "chip",
                "cores": info["cores"],
                "clock_ghz": round(info["clock_ghz"], 3),
                "description": info["description"],
                "also": f"{name}-1 to {name}-64",
            }
        )
    for name in library().routers():
        spec = library().router(name, []).spec()
        cores = spec["cores"]
        entries.append(
            {
                "name": name,
                "world": "router",
                "cores": cores["count"],
                "clock_ghz": round(cores["fastest"] * cores["clock_step_mhz"] * 1e-3, 3),
                "description": spec["description"],
                "also": "",
            }
        )
    for name in library().servers():
        spec = library().server(name, []).spec()
        entries.append(
            {
                "name": name,
                "world": "server",
                "cores": spec["small"]["workers"] + spec["big"]["workers"],
                "clock_ghz": None,
                "description": spec["description"],
                "also": "",
            }
        )
    return entries, ["name", "world", "cores", "clock_ghz", "description", "also"]


def _networks() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().networks():
        spec = library().network(name, []).spec()
        entries.append(
            {
                "name": name,
                "cores": spec["grid"]["rows"] * spec["grid"]["columns"],
                "calibrated": ", ".join(spec["calibrated"]),
                "description": spec["description"],
                "also": f"{name}-2x4",
            }
        )
    return entries, ["name", "cores", "calibrated", "description", "also"]


def _switching() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().switchings():
        spec = library().switching(name, []).spec()
        entries.append(
            {
                "name": name,
                "versions": ", ".join(spec["mechanism"]["versions"]),
                "configurations": len(spec["configurations"]),
                "workloads": len(spec["workloads"]),
                "description": spec["description"],
            }
        )
    return entries, ["name", "versions", "configurations", "workloads", "description"]


def _workloads() -> Listing:
    entries: list[dict[str, Any]] = []
    for info in library().workloads():
        entry = {"name": info["name"], "kind": info["kind"], "description": info["description"]}
        if "totals" in info:
            totals = info["totals"]
            entry["instructions"] = f"{totals['instructions'] / 1e6:.1f} M"
            share = totals["kernel_instructions"] / max(totals["instructions"], 1)
            entry["kernel"] = f"{share:.0%}"
            entry["requests"] = totals["requests"]
            entry["size"] = f"{info['bytes'] / 1e6:.2f} MB"
        entries.append(entry)
    keys = ["name", "kind", "instructions", "kernel", "requests", "size", "description"]
    return entries, keys


def _studies() -> Listing:
    entries: list[dict[str, Any]] = []
    for name in library().names("studies", "toml"):
        study = library().study(name)
        entries.append(
            {
                "name": name,
                "title": study["title"],
                "workloads": len(study["workloads"]),
                "machines": ", ".join(study["machines"]),
                "techniques": ", ".join(study["techniques"]),
            }
        )
    return entries, ["name", "workloads", "machines", "techniques", "title"]


def _targets() -> Listing:
    targets = library().targets()
    return targets, ["id", "area", "class", "source", "quantity", "published", "unit"]


_TABLES = {
    "techniques": _techniques,
    "machines": _machines,
    "networks": _networks,
    "switching": _switching,
    "workloads": _workloads,
    "studies": _studies,
    "targets": _targets,
}
