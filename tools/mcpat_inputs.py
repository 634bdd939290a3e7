"""Describes the cores of machines/ to McPAT: its inputs, one for each event. See mcpat.py."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "machines/mcpat"
#: Length of every run; each event happens once a cycle, so a watt is a watt per clock.
CYCLES = 1_000_000
SIZES = {"KB": 1 << 10, "MB": 1 << 20}

#: What the machine files do not say, since the timing model does not need it.
#: 21264: Alpha 21264/EV6 hardware reference manual (Compaq, 2000); 21064: Alpha 21064 and 21064A
#: hardware reference manual (Digital, 1996).
OTHER: dict[str, dict[str, Any]] = {
    "ev6": {
        "technology_nm": 32,
        "pipeline": (7, 7),  # 21264: integer stages; as its description in McPAT's examples, FP
        "instruction_buffer": 32,  # assumption
        "registers": (80, 72),  # 21264: physical integer and floating point
        "rename_cam": 1,  # 21264: the map is a CAM
        "tlb_entries": (128, 128),  # 21264
        # 21264: load hit. No array of 32 KB reaches the one cycle of Strong 2013, Table 2.3.
        "l1_cycles": 3,
        "predictor": "tournament",
    },
    "in-order": {
        "technology_nm": 32,
        "pipeline": (7, 10),  # 21064
        "instruction_buffer": 16,  # assumption
        "registers": (32, 32),
        "rename_cam": 0,
        "tlb_entries": (12, 32),  # 21064
        "l1_cycles": 3,  # 21064: load hit
        "predictor": "bimodal",
    },
}
#: Assumption: of six micro-operations one is a branch, of three data accesses one is a store.
BRANCHES_PER_UOP = 1 / 6
STORES_PER_ACCESS = 1 / 3


#: McPAT ends with "no valid data array organizations" on buffers of fewer entries.
FEWEST, FEWEST_MISSES = 16, 4


def size(text: str) -> int:
    return int(text[:-2]) * SIZES[text[-2:]]


def wrong_path_uops(machine: dict[str, Any]) -> float:
    """Micro-operations that a misprediction lets in for nothing.

    Assumption: the front end is half full while it waits for the branch, for as long as a refill.
    """
    return machine["core"]["refill_cycles"] * machine["core"]["width"] / 2


def events(machine: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The statistics of each run, for one event in every cycle: by component and name."""
    core = machine["core"]
    branch, store = BRANCHES_PER_UOP, STORES_PER_ACCESS
    uop = {
        "core.total_instructions": 1,
        "core.int_instructions": 1,
        "core.branch_instructions": branch,
        "core.committed_instructions": 1,
        "core.committed_int_instructions": 1,
        "core.ROB_reads": 1,
        "core.ROB_writes": 1,
        "core.rename_reads": 2,
        "core.rename_writes": 1,
        "core.inst_window_reads": 1,
        "core.inst_window_writes": 1,
        "core.inst_window_wakeup_accesses": 2,
        "core.int_regfile_reads": 2,
        "core.int_regfile_writes": 1,
        "BTB.read_accesses": branch,
        # A share, not a count: McPAT's own definition is the rate over the peak rate.
        "core.pipeline_duty_cycle": 1 / core["width"],
    }
    return {
        "base": {},
        "latches": {"core.pipeline_duty_cycle": 1},
        "uop": uop,
        "alu": {"core.ialu_accesses": 1, "core.cdb_alu_accesses": 1},
        "multiply": {"core.mul_accesses": 1, "core.cdb_mul_accesses": 1},
        "fp": {"core.fpu_accesses": 1, "core.cdb_fpu_accesses": 1},
        "l1i_access": {"icache.read_accesses": 1, "itlb.total_accesses": 1},
        "l1d_access": {
            "core.load_instructions": 1 - store,
            "core.store_instructions": store,
            "dcache.read_accesses": 1 - store,
            "dcache.write_accesses": store,
            "dtlb.total_accesses": 1,
        },
        # As many fills and writes as reads: what misses in the first level and what it throws out.
        "l2_access": {"L2.read_accesses": 0.5, "L2.write_accesses": 0.5},
        "mispredict": {"core.branch_mispredictions": 1, "BTB.write_accesses": 1},
    }


#: Runs that change a parameter instead, for their leakage and what stands beside the thesis.
VARIANTS: dict[str, dict[str, Any]] = {
    "gated": {"power_gating": 1},
    "short-channel": {"longer_channel_device": 0},
}
#: The third level, which is the same on both machines: its devices and its accesses.
SHARED: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "l3": ({}, {"l3s": 1}),
    "l3_access": ({"L3.read_accesses": 0.5, "L3.write_accesses": 0.5}, {"l3s": 1}),
    "l3-hp": ({}, {"l3s": 1, "l3_device_type": 0}),
    "l3-lstp": ({}, {"l3s": 1, "l3_device_type": 1}),
}


def system(machine: dict[str, Any], other: dict[str, Any], changes: dict[str, Any]) -> dict:
    """Parameters of the chip: one core with its private caches, and the shared one."""
    clock_mhz = round(1000 * machine["chip"]["clock_ghz"])
    counts = dict.fromkeys(("L1Directories", "L2Directories", "NoCs"), 0)
    counts |= {"cores": 1, "L2s": 1, "L3s": changes.get("l3s", 0)}
    alike = ["cores", "L2s", "L1Directories", "L2Directories", "L3s", "ccs", "NoCs"]
    return {
        **{f"number_of_{name}": count for name, count in counts.items()},
        "Private_L2": 1,
        **{f"homogeneous_{name}": 1 for name in alike},
        "core_tech_node": other["technology_nm"],
        "target_core_clockrate": clock_mhz,
        "temperature": 360,  # assumption: kelvin, a server under load; McPAT's examples 340 to 380
        "number_cache_levels": 3,
        "interconnect_projection_type": 0,  # aggressive, as all of McPAT's examples
        "device_type": 0,  # high performance
        "longer_channel_device": changes.get("longer_channel_device", 1),
        "power_gating": changes.get("power_gating", 0),
        "machine_bits": 64,
        "virtual_address_width": 64,
        "physical_address_width": 44,  # 21264
        "virtual_memory_page_size": 8192,  # Alpha
    }


def core_parameters(machine: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the core itself."""
    core, units = machine["core"], machine["core"]["units"]
    in_order = core["kind"] == "in-order"
    integer, fp = other["registers"]
    return {
        "clock_rate": round(1000 * machine["chip"]["clock_ghz"]),
        "vdd": 0,  # that of the technology
        "opt_local": 1,
        "instruction_length": 32,
        "opcode_width": 7,
        "x86": 0,
        "micro_opcode_width": 8,
        "machine_type": int(in_order),
        "number_hardware_threads": 1,
        "fetch_width": core["width"],
        "number_instruction_fetch_ports": 1,
        "decode_width": core["width"],
        "issue_width": core["width"],
        "peak_issue_width": core["width"],
        "commit_width": core["width"],
        "fp_issue_width": units["fp"],
        "prediction_width": 1,
        "pipelines_per_core": "1,1",
        "pipeline_depth": "{},{}".format(*other["pipeline"]),
        "ALU_per_core": units["alu"],
        "MUL_per_core": units["multiply"],
        "FPU_per_core": units["fp"],
        "instruction_buffer_size": other["instruction_buffer"],
        "decoded_stream_buffer_size": max(FEWEST, other["instruction_buffer"] // 2),
        "instruction_window_scheme": 0,  # physical registers
        "instruction_window_size": core.get("integer_queue", 0),
        "fp_instruction_window_size": core.get("fp_queue", 0),
        "ROB_size": core.get("window", 0),
        "archi_Regs_IRF_size": 32,
        "archi_Regs_FRF_size": 32,
        "phy_Regs_IRF_size": integer,
        "phy_Regs_FRF_size": fp,
        "rename_scheme": other["rename_cam"],
        "checkpoint_depth": 8 if other["rename_cam"] else 0,
        "register_windows_size": 0,
        "LSU_order": "inorder",
        "store_buffer_size": max(FEWEST, core["store_queue"]),
        "load_buffer_size": core.get("load_queue", 0),
        "memory_ports": units["memory"],
        "RAS_size": max(FEWEST, machine["branch"]["return_entries"]),
        "number_of_BPT": 1,
        "number_of_BTB": 1,
    }


def parts(machine: dict[str, Any], other: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the parts of the core, by their place in McPAT's description."""
    itlb, dtlb = other["tlb_entries"]
    # McPAT knows the 21264's predictor only; the bimodal one is its global part without the rest.
    history = (1024, 4096, 4096) if other["predictor"] == "tournament" else (16, 2048, 16)
    entry = 8  # bytes of a target

    def cache(name: str, width: int) -> str:
        # McPAT reads a whole block of every way at once, so its block is what the core takes at
        # once, as in its own examples (16 bytes for the lines of 64 of the Alpha).
        spec = machine[name]
        return f"{size(spec['size'])},{width},{spec['ways']},1,1,{other['l1_cycles']},{width},1"

    def buffers(name: str) -> str:
        return ",".join([str(max(FEWEST_MISSES, machine[name]["mshrs"]))] * 4)

    return {
        "predictor": {
            "local_predictor_size": "10,3",
            "local_predictor_entries": history[0],
            "global_predictor_entries": history[1],
            "global_predictor_bits": 2,
            "chooser_predictor_entries": history[2],
            "chooser_predictor_bits": 2,
        },
        "itlb": {"number_entries": itlb},
        "icache": {"icache_config": cache("l1i", 32), "buffer_sizes": buffers("l1i")},
        "dtlb": {"number_entries": dtlb},
        "dcache": {"dcache_config": cache("l1d", 16), "buffer_sizes": buffers("l1d")},
        "BTB": {"BTB_config": f"{machine['branch']['indirect_entries'] * entry},{entry},2,1,1,1"},
    }


def shared(machine: dict[str, Any], changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the second and the third level."""
    ghz = machine["chip"]["clock_ghz"]
    l2, l3 = machine["l2"], machine["l3"]
    l2_cycles, l3_cycles = round(ghz * l2["latency_ns"]), round(ghz * l3["latency_ns"])
    busy = round(ghz * l3["occupancy_ns"])
    common = {"clockrate": round(1000 * ghz), "vdd": 0, "ports": "1,1,1"}
    common |= {"buffer_sizes": "16,16,16,16"}
    return {
        "L2": common
        | {"L2_config": f"{size(l2['size'])},64,{l2['ways']},1,{l2_cycles},{l2_cycles},64,1"}
        | {"device_type": 0},
        "L3": common
        | {"L3_config": f"{size(l3['size'])},64,{l3['ways']},{l3['banks']},{busy},{l3_cycles},64,1"}
        # Assumption: 2, low operating power. High performance leaks more than two cores do; low
        # standby power reaches the latency only with arrays of 121 mm2.
        | {"device_type": changes.get("l3_device_type", 2)},
    }


class Xml:
    """Writes nested components as McPAT reads them: by name, and the components in its order."""

    def __init__(self, stats: dict[str, float]) -> None:
        self.stats = {name: round(CYCLES * rate, 3) for name, rate in stats.items()}
        if duty := stats.get("core.pipeline_duty_cycle"):
            self.stats["core.pipeline_duty_cycle"] = duty
        self.lines = ['<?xml version="1.0" ?>']

    def open(self, depth: int, place: str, name: str, params: dict[str, Any]) -> None:
        self.lines.append(f'{"  " * depth}<component id="{place}" name="{name}">')
        for key, value in params.items():
            self.lines.append(f'{"  " * (depth + 1)}<param name="{key}" value="{value}"/>')

    def stat(self, depth: int, part: str, more: dict[str, float] | None = None) -> None:
        """Those of a part that are not zero: McPAT takes what is not there for zero."""
        of_part = {k.split(".")[1]: v for k, v in self.stats.items() if k.startswith(f"{part}.")}
        for key, value in {**(more or {}), **of_part}.items():
            self.lines.append(f'{"  " * (depth + 1)}<stat name="{key}" value="{value:.12g}"/>')

    def close(self, depth: int) -> None:
        self.lines.append(f"{'  ' * depth}</component>")


#: What the whole pipeline moves: shares of its latches that a unit's work clocks.
DUTY = (
    "IFU",
    "LSU",
    "MemManU_I",
    "MemManU_D",
    "ALU",
    "MUL",
    "FPU",
    "ALU_cdb",
    "MUL_cdb",
    "FPU_cdb",
)
#: Components that McPAT looks for in this order, of which this chip has none.
ABSENT = {
    "NoC0": ("noc0", {}),
    "mc": ("mc", {"number_mcs": 0}),
    "niu": ("niu", {"number_units": 0}),
    "pcie": ("pcie", {"number_units": 0}),
    "flashc": ("flashc", {"number_flashcs": 0}),
}


def describe(name: str, stats: dict[str, float], changes: dict[str, Any]) -> str:
    """One of McPAT's inputs."""
    machine = tomllib.loads((ROOT / f"machines/{name}.toml").read_text())
    other = OTHER[name]
    cycles = {"total_cycles": CYCLES, "idle_cycles": 0, "busy_cycles": CYCLES}
    xml = Xml(stats)
    xml.open(0, "root", "root", {})
    xml.open(1, "system", "system", system(machine, other, changes))
    xml.stat(1, "system", cycles)
    xml.open(2, "system.core0", "core0", core_parameters(machine, other))
    duty = {f"{unit}_duty_cycle": 1.0 for unit in DUTY}
    xml.stat(2, "core", {"pipeline_duty_cycle": 0, **cycles, **duty})
    for part, params in parts(machine, other).items():
        xml.open(3, f"system.core0.{part}", "PBT" if part == "predictor" else part, params)
        xml.stat(3, part)
        xml.close(3)
    xml.close(2)
    for level in ("L1", "L2"):
        xml.open(2, f"system.{level}Directory0", f"{level}Directory0", {})
        xml.close(2)
    for level, params in shared(machine, changes).items():
        xml.open(2, f"system.{level}0", f"{level}0", params)
        xml.stat(2, level, {"duty_cycle": 1})
        xml.close(2)
    for place, (label, params) in ABSENT.items():
        xml.open(2, f"system.{place}", label, params)
        xml.close(2)
    xml.close(1)
    xml.close(0)
    return "\n".join([*xml.lines, ""])
