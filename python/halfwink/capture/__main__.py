"""`python -m halfwink.capture nginx -o nginx.hwt`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from . import WORKLOADS, CaptureError, Progress, Result, WrongUseError, available, capture, set_up


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m halfwink.capture",
        description="Record a full-system trace. Workloads: " + ", ".join(WORKLOADS),
    )
    parser.add_argument("workload", nargs="?", help="name of a workload")
    parser.add_argument("-o", "--out", type=Path, help="file to write (default: WORKLOAD.hwt)")
    parser.add_argument("-n", "--instructions", type=int, help="how many to record")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=1800.0, metavar="SECONDS")
    parser.add_argument("--rootfs", type=Path, help="a root file system of your own")
    parser.add_argument("--json", action="store_true", help="print the recorder's report")
    parser.add_argument("--set-up", action="store_true", help="install and build, record nothing")
    parser.add_argument("--package", action="append", default=[], help="that a command needs")
    parser.add_argument("--doctor", action="store_true", help="tell what is missing")
    return parser


def _show(progress: Progress) -> None:
    share = ""
    if progress.stage == "record":
        share = f" {progress.instructions / 1e6:.0f} M"
        if progress.limit:
            share += f" of {progress.limit / 1e6:.0f} M instructions"
    print(f"{progress.stage}: {progress.message}{share}", file=sys.stderr, flush=True)


def _table(result: Result) -> str:
    rows = {
        "file": str(result.path),
        "instructions": f"{result.instructions:,}",
        "kernel share": f"{result.kernel_share:.1%}",
        "requests": f"{result.requests:,}",
        "size": f"{result.bytes:,} bytes, {result.bytes_per_instruction:.3f} per instruction",
        "speed": f"{result.mips:.1f} M instructions/s",
        "idle": f"{result.idle_share:.1%} of {result.virtual_ns / 1e6:.1f} ms",
        "unexplained": f"{result.unexplained}",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _doctor() -> int:
    needed = available()
    for requirement in needed:
        line = f"{'ok' if requirement.present else 'missing'}  {requirement.detail}"
        print(line if requirement.present else f"{line}; run: {requirement.fix}")
    return 0 if all(requirement.present for requirement in needed) else 1


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    command: list[str] | None = None
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    options = _parser().parse_args(words)
    if options.doctor:
        return _doctor()
    try:
        if options.set_up:
            set_up(_show, options.package)
            return 0
        name = options.workload or (Path(command[0]).name if command else "trace")
        result = capture(
            options.workload,
            command,
            options.out or Path(f"{name}.hwt"),
            instructions=options.instructions,
            seed=options.seed,
            time_limit_s=options.time_limit,
            rootfs=options.rootfs,
            packages=options.package,
            progress=_show,
        )
    except CaptureError as error:
        print(f"halfwink capture: {error}", file=sys.stderr)
        return 2 if isinstance(error, WrongUseError) else 1
    if options.json:
        print(json.dumps(dataclasses.asdict(result), default=str))
    else:
        print(_table(result))
    if result.exit_status:
        print(f"halfwink capture: {name} ended with status {result.exit_status}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
