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

#: Bytes of a page.
PAGE = 4096


def _bytes(size: str) -> int:
    for suffix, unit in (("KB", 1 << 10), ("MB", 1 << 20)):
        if size.endswith(suffix):
            return int(size.removesuffix(suffix)) * unit
    raise ValueError(f"{size}: expected KB or MB")


#: What a level takes beyond its `hit_latency`, in cycles: measured with loads that depend on each
#: other, in footprints of each level. Of the first level, from a load's issue to its user's; it
#: must be told 2 or more, since translation, which is beside the look-up, takes as long.
BEYOND_FIRST = 3
BEYOND = 2
#: A cache that is told `n` look-ups a cycle begins `n` times its `hit_latency` in one cycle more
#: than that latency: for the two that a core asks for, and a store's, it must be told four.
FIRST_LOOK_UPS = 4
#: A second level of translations takes three more.
BEYOND_TLB = 3
#: From the cycle in which a branch completes to the dispatch of what follows, beyond the penalty
#: and the instruction cache: to fetch (2), decode and dispatch (1 each). Measured too.
BEYOND_PENALTY = 3


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
        "mispredict_penalty": core["refill_cycles"]
        - machine["l1i"]["latency_cycles"]
        - BEYOND_PENALTY,
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


def _tlb(section: dict[str, Any], hit: int) -> dict[str, Any]:
    """Translations of one level."""
    queues = {"rq_size": 32, "wq_size": 32, "pq_size": 0, "mshr_size": 16}
    rates = {"hit_latency": hit, "fill_latency": 1, "max_tag_check": 8, "max_fill": 8}
    return {"sets": section["entries"] // section["ways"], "ways": section["ways"]} | queues | rates


def _walker(tlb: dict[str, Any]) -> dict[str, Any]:
    """Page walks through the second level, with a cache for each level above the leaves."""
    caches = {f"pscl{level}_set": 1 for level in (2, 3, 4, 5)}
    caches |= {f"pscl{level}_way": tlb["walk_cache_entries"] for level in (2, 3, 4, 5)}
    return caches | {"lower_level": "cpu0_L2C", "mshr_size": tlb["walkers"]}


def configuration(machine_file: Path, *, name: str, **changes: Any) -> dict[str, Any]:
    """ChampSim's configuration for a machine file of one core.

    `changes` are put over the core's keys, for experiments.
    """
    machine = tomllib.loads(machine_file.read_text())
    device = tomllib.loads((DEVICES / f"{machine['memory']['device']}.toml").read_text())
    clock = machine["chip"]["clock_ghz"]

    def cycles(section: str) -> int:
        return round(machine[section]["latency_ns"] * clock) - BEYOND

    def first(section: str) -> dict[str, Any]:
        level = machine[section]
        hit = level["latency_cycles"] - BEYOND_FIRST
        return _cache(level, hit, FIRST_LOOK_UPS, level["mshrs"])

    tlb = machine["tlb"]
    return {
        "executable_name": name,
        "block_size": LINE,
        "page_size": PAGE,
        "heartbeat_frequency": 1_000_000_000,
        "num_cores": 1,
        "ooo_cpu": [_core(machine) | changes],
        "DIB": {"window_size": 16, "sets": 1, "ways": 1},
        "L1I": first("l1i"),
        "L1D": first("l1d"),
        "L2C": _cache(machine["l2"], cycles("l2"), 2, 64),
        "LLC": _cache(machine["l3"], cycles("l3"), 1, 64) | {"frequency": round(clock * 1000)},
        "ITLB": _tlb(tlb["l1i"], 1),
        "DTLB": _tlb(tlb["l1d"], 1),
        "STLB": _tlb(tlb["l2"], tlb["l2"]["latency_cycles"] - BEYOND_TLB),
        "PTW": _walker(tlb),
        "physical_memory": _memory(machine["memory"], device),
        "virtual_memory": {
            "pte_page_size": 4096,
            "num_levels": 5,
            "minor_fault_penalty": 1,
            "randomization": 1,
        },
    }


def write(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config, indent=1) + "\n")
