"""BigHouse head to head, in one command: its reference experiment, capped servers of a DNS.

git clone https://github.com/meisner/BigHouse
.venv/bin/python benches/bighouse.py --bighouse BigHouse [--servers 100] [--seed 1] [--json FILE]

CPU seconds are those of whole processes, with the start of Java and of Python. Ours runs as long
a simulated time as BigHouse did, and until its confidence is the wanted one.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from halfwink import programs
from halfwink.cli.console import print_table

WHERE = "https://github.com/meisner/BigHouse"
#: Epochs that BigHouse drops and calibrates on before it counts a cap, one each simulated second.
LEFT_OUT = 10_000
#: Runs one of ours in a process of its own, importing what it needs.
OURS = """
import json, sys, time
from halfwink.models import capping
start = time.process_time()
found = capping.run(**json.loads(sys.argv[1]))
print(json.dumps(found | {"simulation_cpu_s": time.process_time() - start}))
"""


def main() -> int:
    """Runs both, prints the table; 0 if they agree, or if there is no BigHouse."""
    told = arguments()
    common = {"workload": told.workload, "servers": told.servers, "seed": told.seed}
    rows = []
    theirs = bighouse(told)
    if theirs:
        rows.append(("BigHouse", theirs))
        rows.append(("halfwink, same simulated time", ours(common | {"epochs": theirs["epochs"]})))
    rows.append(("halfwink, until 5 % at 95 %", ours(common)))
    rows.append(("halfwink, if capped means slower", ours(common | {"rule": "slower"})))
    show(rows)
    if told.json:
        told.json.write_text(json.dumps(dict(rows), indent=2) + "\n")
    return 1 if theirs and not agree(theirs, rows[1][1]) else 0


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bighouse", type=Path, help=f"its sources, cloned from {WHERE}")
    parser.add_argument("--workload", default="csedns", help="csedns, newman, search, shell, www")
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="ours; BigHouse has its own")
    parser.add_argument("--json", type=Path, help="file for all results")
    return parser.parse_args()


def timed(command: list[str], folder: Path | None = None) -> tuple[str, float]:
    """What a program printed, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(settings: dict[str, Any]) -> dict[str, Any]:
    """One of our runs."""
    text, cpu_s = timed([sys.executable, "-c", OURS, json.dumps(settings)])
    return json.loads(text) | {"cpu_s": cpu_s}


def bighouse(told: argparse.Namespace) -> dict[str, Any] | None:
    """BigHouse's run; nothing if it is not there, or there is no Java."""
    if told.bighouse is None or not (told.bighouse / "src/experiment").is_dir():
        print(f"no BigHouse: git clone {WHERE} and give its folder (--bighouse)", file=sys.stderr)
        return None
    if programs.find("javac").path is None:
        print(programs.find("javac").missing, file=sys.stderr)
        return None
    source = told.bighouse.resolve()
    with tempfile.TemporaryDirectory() as out:
        files = [str(f) for f in sorted(source.glob("src/**/*.java")) if "/test/" not in str(f)]
        jar = str(source / "ssj.jar")
        compiled = ["javac", "-nowarn", "-d", out, "-cp", jar, *files]
        subprocess.run(compiled, check=True, capture_output=True)
        name = "experiment.PowerCappingExperiment"
        words = ["java", "-cp", f"{out}:{jar}", name, f"{source}/", told.workload]
        text, cpu_s = timed([*words, str(told.servers)])
    return parse(text, told) | {"cpu_s": cpu_s}


def parse(text: str, told: argparse.Namespace) -> dict[str, Any]:
    """What BigHouse prints, which is neither half widths nor how long it played.

    It stops the cap at a half width of 5 %; the time follows from the samples that takes.
    """

    def value(label: str) -> float:
        found = re.search(rf"{label} ?: (\S+)", text)
        if not found:
            raise SystemExit(f"BigHouse printed no {label}")
        return float(found.group(1))

    cap = value("Average Server Cap")
    steady = re.findall(r"(\w+) entered steady state, .* of (\d+)", text)
    lags = {name: int(lag) for name, lag in steady}
    lag = lags["SERVER_LEVEL_CAP"]
    # At least what its test of the quantile asks for: 1.96 q^2 / sqrt(n) below 5 % of the mean.
    samples = (1.96 * 0.95**2 / (0.05 * cap)) ** 2
    return {
        "response_s": value("Response Mean"),
        "response_p95_s": value("Response 95"),
        "cap_w": cap,
        "cap_w_half_width": 0.05 * cap,
        "epochs": LEFT_OUT + int(samples * lag),
        "lags": lags,
    }


def agree(theirs: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether responses differ by less than 5 %, and caps by less than both half widths."""
    near = all(
        abs(found[name] / theirs[name] - 1) < 0.05 for name in ("response_s", "response_p95_s")
    )
    both = (found["cap_w_half_width"] ** 2 + theirs["cap_w_half_width"] ** 2) ** 0.5
    return near and abs(found["cap_w"] - theirs["cap_w"]) < both


def show(rows: list[tuple[str, dict[str, Any]]]) -> None:
    """One table."""
    first = rows[0][1]["cpu_s"] if rows[0][0] == "BigHouse" else None

    def cell(row: dict[str, Any], name: str, digits: int, factor: float = 1.0) -> str:
        half = row.get(f"{name}_half_width")
        known = "" if half is None else f" +- {half * factor:.{digits}f}"
        return f"{row[name] * factor:.{digits}f}{known}"

    lines = [
        [
            label,
            f"{row['cpu_s']:.2f}",
            "-" if "simulation_cpu_s" not in row else f"{row['simulation_cpu_s']:.3f}",
            "-" if first is None else f"{first / row['cpu_s']:.1f}",
            "-" if "events" not in row else f"{row['events'] / row['simulation_cpu_s'] / 1e6:.1f}",
            f"{row['epochs']:,}",
            cell(row, "response_s", 2, 1e3),
            cell(row, "response_p95_s", 2, 1e3),
            cell(row, "cap_w", 3),
        ]
        for label, row in rows
    ]
    heads = ["CPU s", "of it simulation", "times less", "M events/s", "epochs"]
    heads += ["response ms", "p95 ms", "cap W"]
    print_table([("run", "left"), *((head, "right") for head in heads)], lines)


if __name__ == "__main__":
    sys.exit(main())
