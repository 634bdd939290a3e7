"""Bills of materials of wheels in CycloneDX 1.5 (PEP 770): the crates that are linked into them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def bill(name: str, version: str, crates: Sequence[str], target: str) -> bytes:
    """Returns the bill of a wheel that holds these crates of the workspace, built for a target.

    Crates that only build or test others are left out. Two bills of the same lock file are equal.
    """
    words = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    roots = sorted(i for i in found["workspace_members"] if packages[i]["name"] in crates)
    linked = _linked(roots, nodes)
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    used = sorted(linked, key=lambda i: (packages[i]["name"], packages[i]["version"]))
    wheel = f"pkg:pypi/{name}@{version}"
    tree = [{"ref": wheel, "dependsOn": [_ref(packages[i]) for i in roots]}]
    tree += [
        {"ref": _ref(packages[i]), "dependsOn": sorted(_ref(packages[d]) for d in linked[i])}
        for i in used
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": wheel,
                "name": name,
                "version": version,
                "purl": wheel,
            }
        },
        "components": [_component(packages[i], sums) for i in used],
        "dependencies": tree,
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _linked(roots: Sequence[str], nodes: dict[str, Any]) -> dict[str, list[str]]:
    """Returns each package that is linked into some, with the packages that it links itself."""
    linked: dict[str, list[str]] = {}
    waiting = list(roots)
    while waiting:
        package = waiting.pop()
        if package in linked:
            continue
        kinds = {
            dep["pkg"]: {kind["kind"] for kind in dep["dep_kinds"]}
            for dep in nodes[package]["deps"]
        }
        linked[package] = [dep for dep, found in kinds.items() if None in found]
        waiting += linked[package]
    return linked


def _ref(package: dict[str, Any]) -> str:
    """Returns what names a package in a bill: its address if a registry has it."""
    name = f"{package['name']}@{package['version']}"
    return f"pkg:cargo/{name}" if package["source"] else name


def _component(package: dict[str, Any], sums: dict[tuple[str, str], str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "library", "bom-ref": _ref(package)}
    found |= {key: package[key] for key in ("name", "version")}
    if package["source"]:
        found["purl"] = _ref(package)
    if package["license"]:
        # The form that Cargo had before it took expressions of SPDX.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := sums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found
