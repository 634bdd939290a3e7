"""``python benches/champsim_replacement.py --champsim DIR``: LRU, DRRIP and SHiP beside ChampSim's.

Recorded workloads are exported as ChampSim records. ChampSim plays them with each policy in its
second level, configured like benches/champsim/matched.toml, and halfwink with the technique of that
name. ChampSim's own DRRIP and SHiP hear of no fill and learn in no set (docs/techniques/
segregation.md): beside them stand modules of the published rules (benches/champsim/replacement).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import champsim_build
import champsim_config
from champsim import MACHINE, Played, champsim, convert
from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, pairs

WORKLOADS = ["nginx", "apache", "gcc"]
#: Ours, and ChampSim's modules: the one to agree with, then its own.
POLICIES = {
    "lru": ("lru",),
    "drrip": ("halfwink_drrip", "drrip"),
    "ship": ("halfwink_ship", "ship"),
}


def ours(trace: Path, technique: str, instructions: int) -> int:
    """Misses of our second level, from cold caches."""
    limit = {"instructions": str(instructions)}
    job = Job("chip", str(trace), str(MACHINE), technique, (), pairs(limit)).prepare()
    tables = job.run(_core.RunControl())
    columns = (values for _, _, values in tables["counters"])
    rows = zip(*columns, strict=True)
    return sum(user + kernel for _, what, user, kernel in rows if what == "l2.misses")


def builds(builder: champsim_build.Builder) -> dict[str, Path]:
    """A binary for each of ChampSim's modules."""
    found = {}
    for module in (module for modules in POLICIES.values() for module in modules):
        config = champsim_config.configuration(MACHINE, name=f"l2-{module}")
        config["L2C"]["replacement"] = module
        found[module] = builder.build(config)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--champsim", type=Path, required=True, help="a clone of ChampSim")
    parser.add_argument("--out", type=Path, default=Path("halfwink-out/champsim"))
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    asked = parser.parse_args()
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        binaries = builds(champsim_build.Builder(asked.champsim, asked.out))
        print(f"{'misses of L2':<12}{'policy':<8}{'ours':>9}{'ChampSim':>10}{'':>8}{'its own':>9}")
        for workload in asked.workloads:
            records, trace = convert(workload, asked.instructions, asked.out)
            for technique, modules in POLICIES.items():
                own = ours(trace, technique, asked.instructions)
                theirs: list[Played] = [
                    champsim(binaries[module], records, asked.instructions) for module in modules
                ]
                share = 100 * (own / theirs[0].l2 - 1)
                row = f"{workload:<12}{technique:<8}{own:>9,}{theirs[0].l2:>10,}{share:>+7.1f}%"
                print(row + "".join(f"{played.l2:>9,}" for played in theirs[1:]), flush=True)
            records.unlink()
    except (HalfwinkError, subprocess.CalledProcessError, OSError) as error:
        print(f"champsim: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
