"""``halfwink capture``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from halfwink import capture as recorder
from halfwink.cli.console import err, print_json, print_table, say
from halfwink.errors import HalfwinkError, RunError


def record(
    workload: str | None,
    command: list[str],
    *,
    out: Path | None,
    instructions: int | None,
    seed: int,
    time_limit_s: float,
    rootfs: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Records a trace, shows how far it is, prints what it holds."""
    if workload is not None and command:
        raise HalfwinkError(f"a workload ({workload}) and a command: expected one of them")
    if workload is None and not command:
        names = ", ".join(recorder.WORKLOADS)
        raise HalfwinkError(f"no workload was named; there are: {names}; or -- and a command")
    name = workload or Path(command[0]).name
    path = out or Path(f"{name}.hwt")
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

    try:
        result = recorder.capture(
            workload,
            command or None,
            path,
            instructions=instructions,
            seed=seed,
            time_limit_s=time_limit_s,
            rootfs=rootfs,
            progress=show,
        )
    except recorder.CaptureInterruptedError as error:
        raise KeyboardInterrupt from error
    except (recorder.WrongUseError, recorder.MissingRequirementError) as error:
        raise HalfwinkError(str(error)) from error
    except recorder.CaptureError as error:
        raise RunError(str(error)) from error
    if as_json:
        document = dataclasses.asdict(result) | {"path": str(result.path)}
        print_json(document)
        return 0
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
    return 0
