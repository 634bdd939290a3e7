"""``halfwink profile``: what a request costs a core, for the node."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_tables, say
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import split_techniques
from halfwink.errors import HalfwinkError
from halfwink.models import request_profile as profiles
from halfwink.models.request_profile import RequestProfile
from halfwink.models.response_times import read_times, time_us


def profile(
    workload: str | None = None,
    *,
    machine: Annotated[str, Parameter(name=["-m", "--machine"])] = "golden-cove",
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    instructions: Annotated[int | None, Parameter(name=["-n", "-i", "--instructions"])] = None,
    service_mean: str | None = None,
    cv: float = 1.0,
    log: Path | None = None,
    unit: str | None = None,
    busy_w: Annotated[float | None, Parameter(name="--busy-w")] = None,
    name: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Say what a request costs a core: from a recording, or from what you know of your service.

    Parameters
    ----------
    workload
        A recorded server: nginx-1pct, memcached, a file.
    machine
        Kind of core (golden-cove, zen4, neoverse-v2), or a server of it.
    technique
        Techniques that work within a request, comma-separated: of each the profile says what a
        request costs under it. Joined by + (tap+way-partition) they are played together. Default:
        tap,mapg-counter,dvfs-mean,tap+dvfs-mean,way-partition,bank-partition; none leaves them out.
    instructions
        Instructions to play, at most.
    service_mean
        Without a recording: mean time that a core is busy with a request, as 200us.
    cv
        Its coefficient of variation: 0 fixed, 1 exponential, above 1 a heavy tail.
    log
        Without a recording: file of response times, one a line or a CSV column (duration_us), or
        an access log of halfwink live steer.
    unit
        Unit of the times in the file: us, ms or s.
    busy_w
        Watts of a core while busy; otherwise the server's file says.
    name
        Name of the service in the profile.
    out
        The profile; NAME.profile.toml if not said.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    given = [workload is not None, service_mean is not None, log is not None]
    if sum(given) != 1:
        raise HalfwinkError("expected one of a WORKLOAD, --service-mean 200us and --log FILE")
    figure.check()
    if figure.plot is not None and workload is None:
        raise HalfwinkError("--plot is for profiles of a recording: it shows cold caches")
    if workload is not None:
        if busy_w is not None or unit is not None:
            raise HalfwinkError("--busy-w and --unit are for profiles without a recording")
        say("one run warm, one for each depth of sleep and each technique", quiet=quiet)
        found = profiles.profile(
            workload,
            core=machine,
            techniques=split_techniques(technique) or profiles.WITHIN,
            name=name,
            instructions=instructions,
        )
    else:
        if technique is not None or instructions is not None:
            raise HalfwinkError("-t and -n are for profiles of a recording")
        found = _stated(service_mean, cv, log, unit, busy_w, name)
    file = out or Path(f"{found.workload}.profile.toml")
    found.write(file)
    if json:
        _print(found, file)
    else:
        for line in _lines(found):
            stdout.print(line, markup=False)
    if figure.plot is not None:
        from halfwink.report.profile_chart import profile_figure

        save(profile_figure(found), figure, quiet=quiet)
    shown = file if file.is_absolute() else f"./{file}"
    say(f"written: {file}; next: halfwink compare {shown} --load 10,30,50,70%", quiet=quiet)
    return 0


def _stated(
    service_mean: str | None,
    cv: float,
    log: Path | None,
    unit: str | None,
    busy_w: float | None,
    name: str | None,
) -> RequestProfile:
    if log is not None:
        times = read_times(log, unit)
        made = f"halfwink profile --log {log.name}"
        return profiles.stated_profile(
            name or log.stem, times_us=times, busy_w=busy_w, made_by=made
        )
    mean = time_us(service_mean or "")
    made = f"halfwink profile --service-mean {service_mean} --cv {cv:g}"
    return profiles.stated_profile(
        name or "service", mean_us=mean, cv=cv, busy_w=busy_w, made_by=made
    )


def _lines(found: RequestProfile) -> list[str]:
    on = "any core" if found.core == profiles.ANY else f"a {found.core} core"
    first = f"A request of {found.workload} keeps {on} busy for {found.mean_us:.4g} us in the mean"
    if found.user_share is not None:
        first += f", {100 * found.user_share:.0f} % of it in user code"
    lines = [f"{first}."]
    for cold in found.cold:
        line = f"A sleep that loses {', '.join(cold.loses)} adds {cold.extra_us:.3g} us"
        if cold.preheated_us is not None:
            line += f", {cold.preheated_us:.3g} after {cold.load_us:.3g} us of preheating"
        lines.append(f"{line}.")
    if not found.cold:
        lines.append("What a sleep that loses caches adds is not known.")
    if found.busy_w is not None:
        lines.append(f"A busy core takes {found.busy_w:.3g} W (modelled or stated, not measured).")
    for variant in found.variants:
        time, power = 100 * (variant.time - 1), 100 * (variant.power - 1)
        line = f"Under {variant.technique} it takes {time:+.2f} % time, {power:+.2f} % watts"
        if (moved := variant.moved) is not None:
            line += f", and visits a core of the kernel {moved.visits:.3g} times"
            line += f" for {moved.visit_us:.3g} us"
        lines.append(f"{line}.")
    longer = found.longer()
    if longer is not None:
        lines.append(
            f"The mean is known to ±{found.half_pct:.0f} %: a recording {longer:.1f} times as long "
            "gives 5 %."
        )
    return lines


def _print(found: RequestProfile, file: Path) -> None:
    facts = {
        "file": str(file),
        "workload": found.workload,
        "core": found.core,
        "requests": found.requests,
        "service_mean_us": found.mean_us,
        "user_share": found.user_share,
        "apart_us": found.apart_us,
        "busy_w": found.busy_w,
        "shared_uj": found.shared_uj,
        "half_pct": found.half_pct,
    }
    tables = {
        "cold": [asdict(cold) for cold in found.cold],
        "variants": [asdict(variant) for variant in found.variants],
    }
    print_tables("profile", tables, facts)
