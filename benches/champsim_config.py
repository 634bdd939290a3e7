"""ChampSim configured like a machine of ours: its JSON from a machine file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

#: What this was written for; a newer ChampSim may spell things differently.
COMMIT = "2ff2501158579a5df662cdf30bc3b34296233c63"
LINE = 64
DEVICES = Path(__file__).parent.parent / "crates" / "dram" / "devices"

#: Our direction predictors, and the modules beside this file that are the same.
PREDICTORS = {"bimodal": "halfwink_bimodal", "tournament": "halfwink_tournament"}

#: Bytes of a page. One of 2 MB holds all bits that choose a set of any cache here, so
#: that ChampSim's physical addresses fall into the sets of the recorded ones.
HUGE = 1 << 21


def _bytes(size: str) -> int:
    for suffix, unit in (("KB", 1 << 10), ("MB", 1 << 20)):
        if size.endswith(suffix):
            return int(size.removesuffix(suffix)) * unit
    raise ValueError(f"{size}: expected KB or MB")


#: What a level takes beyond its `hit_latency`, in cycles: measured with loads that depend on each
#: other, in footprints of each level. Of the first level, from a load's issue to its user's.
BEYOND_FIRST = 3
BEYOND = 2


def _cache(section: dict[str, Any], hit: int, wide: int, mshrs: int) -> dict[str, Any]:
    """A cache: queues are wide, since ours has none; `hit`: cycles to look it up."""
    return {
        "sets": _bytes(section["size"]) // LINE // section["ways"],
        "ways": section["ways"],
        "rq_size": 64,
        "wq_size": 64,
        "pq_size": 8,
        "mshr_size": mshrs,
        "hit_latency": max(hit, 1),
        # Ours fills in no time.
        "fill_latency": 1,
        "max_tag_check": wide,
        "max_fill": wide,
        "prefetcher": "no",
        "replacement": "lru",
    }


def _core(machine: dict[str, Any]) -> dict[str, Any]:
    core, branch = machine["core"], machine["branch"]
    width = core["width"]
    return {
        "frequency": round(machine["chip"]["clock_ghz"] * 1000),
        "ifetch_buffer_size": 64,
        "decode_buffer_size": 4 * width,
        "dispatch_buffer_size": 4 * width,
        # Ours renames as far as the window goes.
        "register_file_size": 4 * core["window"],
        "rob_size": core["window"],
        "lq_size": core["load_queue"],
        "sq_size": core["store_queue"],
        "fetch_width": width,
        "decode_width": width,
        "dispatch_width": width,
        "execute_width": width,
        "retire_width": width,
        "lq_width": core["units"]["memory"],
        "sq_width": core["units"]["memory"],
        "scheduler_size": core["integer_queue"],
        "decode_latency": 1,
        "dispatch_latency": 1,
        "schedule_latency": 0,
        # An instruction's user follows a cycle later all the same.
        "execute_latency": 0,
        # Behind it come the first-level instruction cache, decode and dispatch.
        "mispredict_penalty": max(core["refill_cycles"] - machine["l1i"]["latency_cycles"] - 2, 1),
        "branch_predictor": PREDICTORS[branch["predictor"]],
        "btb": "halfwink_targets",
    }


def _memory(memory: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    timing = device["timing"]
    return {
        "data_rate": round(2e6 / device["clock_ps"]),
        "channels": memory["channels"],
        "ranks": memory["ranks"],
        "bankgroups": device["groups"],
        "banks": device["banks"],
        "bank_rows": 65536,
        "bank_columns": device["row_bytes"] // 8,
        "channel_width": 8,
        "wq_size": memory["queue"],
        "rq_size": memory["queue"],
        "tCAS": timing["t_cl"],
        "tRCD": timing["t_rcd"],
        "tRP": timing["t_rp"],
        "tRAS": timing["t_ras"],
        "refresh_period": 64,
        "refreshes_per_period": 8192,
    }


def configuration(
    machine_file: Path, *, name: str, page: int = HUGE, **changes: Any
) -> dict[str, Any]:
    """ChampSim's configuration for a machine file of one core.

    `page` are the bytes of a page; `changes` are put over the core's keys, for experiments.
    """
    machine = tomllib.loads(machine_file.read_text())
    device = tomllib.loads((DEVICES / f"{machine['memory']['device']}.toml").read_text())
    clock = machine["chip"]["clock_ghz"]

    def cycles(section: str) -> int:
        return round(machine[section]["latency_ns"] * clock) - BEYOND

    def first(section: str) -> dict[str, Any]:
        level = machine[section]
        return _cache(level, level["latency_cycles"] - BEYOND_FIRST, 2, level["mshrs"])

    quick = {"rq_size": 16, "wq_size": 16, "pq_size": 0, "mshr_size": 16}
    quick |= {"hit_latency": 1, "fill_latency": 1, "max_tag_check": 8, "max_fill": 8}
    return {
        "executable_name": name,
        "block_size": LINE,
        "page_size": page,
        "heartbeat_frequency": 1_000_000_000,
        "num_cores": 1,
        "ooo_cpu": [_core(machine) | changes],
        "DIB": {"window_size": 16, "sets": 1, "ways": 1},
        "L1I": first("l1i"),
        "L1D": first("l1d"),
        "L2C": _cache(machine["l2"], cycles("l2"), 2, 64),
        "LLC": _cache(machine["l3"], cycles("l3"), 1, 64) | {"frequency": round(clock * 1000)},
        "ITLB": {"sets": 16, "ways": 4} | quick,
        "DTLB": {"sets": 16, "ways": 4} | quick,
        "STLB": {"sets": 128, "ways": 12} | quick,
        "physical_memory": _memory(machine["memory"], device),
        "virtual_memory": {
            "pte_page_size": 4096,
            "num_levels": 5 if page == 4096 else 4,
            "minor_fault_penalty": 1,
            "randomization": 1,
        },
    }


def write(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config, indent=1) + "\n")
