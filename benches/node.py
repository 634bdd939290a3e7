"""The chip against the node, on recordings of nginx at three loads.

.venv/bin/python benches/node.py [--core golden-cove] [--json FILE]

The chip plays `nginx-1pct`, `-10pct` and `-50pct` on one core, instruction by instruction.
The node plays the profile that `nginx-1pct` gives, on one core of the same watts that halts in C1
without a wake-up time, at the rate at which each recording's requests came, by a Poisson process.
Mean latency and core energy of a request are compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import halfwink as hw
from halfwink.models import RequestProfile

RECORDINGS = ("nginx-1pct", "nginx-10pct", "nginx-50pct")


def chip(recording: str, core: str) -> dict[str, Any]:
    """What the chip says of a recording on one core."""
    found = hw.compare(recording, techniques=["always-on"], machine=f"{core}-1")
    run = found.runs.row(0, named=True)
    cores = found.ledger.filter(pl.col("component").str.starts_with("core"))
    busy = cores.filter(pl.col("state").is_in(["active", "stalled"]), pl.col("mode") != "idle")
    idle = cores.filter(state="idle")
    return {
        "per_s": run["requests"] / run["duration_s"],
        "mean_us": run["latency_mean_us"],
        "core_uj": 1e6 * float(cores["energy_j"].sum()) / run["requests"],
        "busy_us": 1e6 * float(busy["time_s"].sum()) / run["requests"],
        "halted_w": float(idle["energy_j"].sum()) / float(idle["time_s"].sum()),
    }


def node(profile: RequestProfile, told: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the node says at that rate."""
    service, server = folder / "nginx.toml", folder / "one.toml"
    profile.write(service)
    server.write_text(
        f'schema = 1\ndescription = "one core"\ncore = "{profile.core}"\nrest_w = 0.0\n'
        "[server]\nsockets = 1\ndies = 1\ncores = 1\n"
        f"[power]\nactive_w = {profile.full_w}\npoll_w = {profile.full_w}\n"
        f"waking_w = {profile.full_w}\n"
        '[[idle_states]]\nname = "c1"\nexit_us = 0.0\nresidency_us = 0.0\nwake_us = [0.0, 0.0]\n'
        f"core_w = {told['halted_w']}\n"
        "[kernel]\ntick_us = 4000.0\ntick_work_us = 0.0\nnext_timer_us = 1e6\n"
        "background_per_s = 0.0\nbackground_us = 0.0\n"
    )
    found = hw.compare(
        f"{service}@{told['per_s']:.6f}/s",
        world="node",
        machine=str(server),
        techniques=["c1"],
        set={"requests": 200_000},
    )
    run = found.runs.filter(technique="c1").row(0, named=True)
    core = float(found.ledger.filter(component="core0", technique="c1")["energy_j"].sum())
    return {
        "mean_us": run["latency_mean_us"],
        "core_uj": 1e6 * core / run["units"],
        "busy_us": 1e4 * run["busy_pct"] / run["per_s"],
    }


def main() -> None:
    """Plays both and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", default="golden-cove")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    profile = hw.profile("nginx-1pct", core=asked.core)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for recording in RECORDINGS:
            told = chip(recording, asked.core)
            ours = node(profile, told, Path(folder))
            row: dict[str, Any] = {"recording": recording, "per_s": told["per_s"]}
            for name in ("mean_us", "core_uj", "busy_us"):
                row |= {f"chip_{name}": told[name], f"node_{name}": ours[name]}
                row[f"{name}_pct"] = 100 * (ours[name] / told[name] - 1)
            rows.append(row)
    table = pl.DataFrame(rows)
    with pl.Config(tbl_cols=-1, tbl_width_chars=200, float_precision=1):
        print(table)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
