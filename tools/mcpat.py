"""Describes the cores of machines/ to McPAT, and reads energies off what McPAT answers.

    python tools/mcpat.py inputs EV6      writes machines/mcpat/EV6/*.xml
    python tools/mcpat.py run EV6 MCPAT   runs the program MCPAT on each, keeps what it printed
    python tools/mcpat.py table [EV6 ...] prints the derivation as tables

McPAT is linear in its statistics: it adds up the energy of each access times its count. So two runs
that differ in one statistic alone give the energy of that event, whatever the other units do:

    E = (P(run) - P(base)) * cycles / (clock * count)        P: runtime dynamic power

`base` has no events at all. See machines/mcpat/README.md for what each run counts, and why.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from mcpat_inputs import FOLDER, OTHER, ROOT, SHARED, VARIANTS, describe, events, wrong_path_uops


def descriptions(name: str) -> dict[str, str]:
    """McPAT's inputs for a machine, by run."""
    machine = tomllib.loads((ROOT / f"machines/{name}.toml").read_text())
    runs = {run: (stats, {}) for run, stats in events(machine).items()}
    runs |= {run: ({}, changes) for run, changes in VARIANTS.items()}
    runs |= SHARED if name == "ev6" else {}
    return {run: describe(name, stats, changes) for run, (stats, changes) in runs.items()}


def inputs(name: str) -> None:
    """Writes them."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for run, text in descriptions(name).items():
        (folder / f"{run}.xml").write_text(text)


def run(name: str, program: str) -> None:
    """Keeps what `program` prints for each."""
    for path in sorted((FOLDER / name).glob("*.xml")):
        words = [program, "-infile", str(path), "-print_level", "2"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
        path.with_suffix(".txt").write_text(done.stdout)
        print(path.name)


class Answer:
    """What McPAT printed for one run: the watts of a block, by its heading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()

    def watts(self, heading: str, quantity: str) -> float:
        """The first `quantity` below `heading`.

        Raises:
            ValueError: McPAT printed no such thing, with the file.
        """
        pattern = rf"^\s*{re.escape(heading)}\s*$.*?^\s*{re.escape(quantity)} = (\S+) W$"
        found = re.search(pattern, self.text, re.MULTILINE | re.DOTALL)
        if not found:
            raise ValueError(f"{self.path}: no `{quantity}` of `{heading}`")
        return float(found[1])

    def leakage(self, heading: str) -> float:
        both = ("Subthreshold Leakage", "Gate Leakage")
        return sum(self.watts(heading, quantity) for quantity in both)


def answer(name: str, run: str) -> Answer:
    return Answer(FOLDER / name / f"{run}.txt")


def significant(value: float, digits: int = 3) -> float:
    """What a machine file says: no more digits than a model of this kind has."""
    return float(f"{value:.{digits}g}")


def derive(name: str) -> dict[str, Any]:
    """The tables `[power.core]` and `[power.l3]` as McPAT has them; watts and picojoules.

    `leakage_w` is McPAT's: machine files keep the thesis's where it prints one.
    """
    machine = tomllib.loads((ROOT / f"machines/{name}.toml").read_text())
    hz = 1e9 * machine["chip"]["clock_ghz"]
    core, moving = "Core:", "Runtime Dynamic"
    base = answer(name, "base").watts(core, moving)
    pj = {
        event: 1e12 * (answer(name, event).watts(core, moving) - base) / hz
        for event in events(machine)
        if event not in ("base", "latches")
    }
    pj["mispredict"] += wrong_path_uops(machine) * pj["uop"]
    # The shared cache was computed at the clock of ev6; an access costs what it costs there.
    l3, ev6_hz = "Total L3s:", 3.3e9
    idle, busy = (answer("ev6", run).watts(l3, moving) for run in ("l3", "l3_access"))
    return {
        "leakage_w": significant(answer(name, "base").leakage(core)),
        # To a milliwatt: in order McPAT's units take nothing but by events.
        "clock_w": round(base, 3),
        "stalled_clock_w": round(base, 3),
        "event_pj": {event: significant(value) for event, value in pj.items()},
        "l3": {
            "leakage_w": significant(answer("ev6", "l3").leakage(l3)),
            "access_pj": significant(1e12 * (busy - idle) / ev6_hz),
        },
    }


def table(name: str) -> None:
    """Prints the derivation, as the README has it."""
    machine = tomllib.loads((ROOT / f"machines/{name}.toml").read_text())
    ghz = machine["chip"]["clock_ghz"]
    base = answer(name, "base").watts("Core:", "Runtime Dynamic")
    derived = derive(name)
    print(f"\n| {name}, run | W | less base, over {ghz} GHz: pJ | machine file |")
    print("|---|---|---|---|")
    print(f"| `base` | {base:.4g} | - | `clock_w`, `stalled_clock_w` {derived['clock_w']:g} |")
    for event, value in derived["event_pj"].items():
        watts = answer(name, event).watts("Core:", "Runtime Dynamic")
        each = 1e3 * (watts - base) / ghz
        print(f"| `{event}` | {watts:.4g} | {each:.4g} | {value:g} |")
    ours, theirs = derived["leakage_w"], machine["power"]["core"]["leakage_w"]
    print(f"\nleakage: McPAT {ours:g} W, machine file {theirs:g} W, ratio {ours / theirs:.2f}")
    gated = answer(name, "gated")
    left = gated.watts("Core:", "Subthreshold Leakage with power gating")
    left /= gated.watts("Core:", "Subthreshold Leakage")
    short = answer(name, "short-channel").leakage("Core:")
    print(f"gated: {100 * left:.1f} % of the subthreshold leakage is left in McPAT")
    print(f"without long channels: {short:.3g} W")
    if name == "ev6":
        for run in ("l3", "l3-hp", "l3-lstp"):
            leaks = answer(name, run).leakage("Total L3s:")
            area = re.search(r"Total L3s:.*?Area = (\S+) mm", answer(name, run).text, re.DOTALL)
            print(f"{run}: {leaks:.3g} W of leakage, {area[1] if area else '?'} mm2")
        print("machine file, [power.l3]:", derived["l3"])


if __name__ == "__main__":
    if sys.argv[1] == "inputs":
        inputs(sys.argv[2])
    elif sys.argv[1] == "run":
        run(*sys.argv[2:4])
    elif sys.argv[1] == "table":
        for machine_name in sys.argv[2:] or OTHER:
            table(machine_name)
    else:
        sys.exit(__doc__)
