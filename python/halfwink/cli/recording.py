"""The command ``halfwink capture``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from halfwink import capture as recorder
from halfwink.cli.console import claimed, err, print_json, print_table, say
from halfwink.errors import HalfwinkError

#: The exit status of a command whose work failed.
EXIT_FAILED = 1
#: Of what a failed program said.
SHOWN_LINES = 10


def record(
    workload: str | None,
    command: list[str],
    *,
    out: Path | None,
    instructions: int | None,
    seed: int,
    time_limit_s: float,
    rootfs: Path | None,
    packages: Sequence[str],
    set_up: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Records a trace, shows how far it is, prints what it holds."""
    if set_up:
        if workload is not None or command:
            raise HalfwinkError("--set-up records nothing: expected no workload and no command")
        return _set_up(packages, quiet=quiet)
    if workload is not None and command:
        raise HalfwinkError(f"a workload ({workload}) and a command: expected one of them")
    if workload is None and not command:
        names = ", ".join(recorder.WORKLOADS)
        raise HalfwinkError(f"no workload was named; there are: {names}; or -- and a command")
    name = workload or Path(command[0]).name
    last = ""

    def show(progress: recorder.Progress) -> None:
        nonlocal last
        line = f"{progress.stage}: {progress.message}"
        if progress.stage == "record" and progress.limit:
            done = progress.instructions / progress.limit
            line += (
                f" {progress.instructions / 1e6:.0f} M of {progress.limit / 1e6:.0f} M ({done:.0%})"
            )
        if err.is_terminal and not quiet:
            err.print(line, end="\r", markup=False)
        elif progress.stage != last:
            say(line, quiet=quiet)
        last = progress.stage

    with claimed(out, Path(f"{name}.hwt"), quiet=quiet) as path:
        result = recorder.capture(
            workload,
            command or None,
            path,
            instructions=instructions,
            seed=seed,
            time_limit_s=time_limit_s,
            rootfs=rootfs,
            packages=packages,
            progress=show,
        )
    if result.exit_status:
        _tell_failure(name, result)
    if as_json:
        document = dataclasses.asdict(result) | {"path": str(result.path)}
        print_json("capture", document)
        return EXIT_FAILED if result.exit_status else 0
    rows = [
        ["file", str(result.path)],
        ["instructions", f"{result.instructions:,}"],
        ["kernel", f"{result.kernel_share:.1%}"],
        ["requests", f"{result.requests:,}"],
        ["size", f"{result.bytes:,} bytes, {result.bytes_per_instruction:.3f} per instruction"],
        ["idle", f"{result.idle_share:.1%} of the recorded CPU's time"],
        ["speed", f"{result.mips:.1f} M instructions/s"],
    ]
    print_table([("captured", "left"), (name, "left")], rows)
    return EXIT_FAILED if result.exit_status else 0


def _tell_failure(name: str, result: recorder.Result) -> None:
    """Also where messages are not wanted: few want the recording of a run that failed."""
    said = result.said[-SHOWN_LINES:]
    says = "; it said:" if said else ", and said nothing"
    say(f"warning: {name} ended with status {result.exit_status}; the recording is kept{says}")
    for line in said:
        say(f"    {line}")


def _set_up(packages: Sequence[str], *, quiet: bool) -> int:
    recorder.set_up(lambda told: say(f"{told.stage}: {told.message}", quiet=quiet), packages)
    say("QEMU and the guest are there", quiet=quiet)
    return 0
