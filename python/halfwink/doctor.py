"""Features of this machine, and the line that adds each missing requirement."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from halfwink import _core, bed, capture, installed
from halfwink.capture import recorder
from halfwink.capture.errors import CaptureError
from halfwink.errors import HalfwinkError
from halfwink.library import build_id, library, root
from halfwink.live import block as live_block
from halfwink.live import delegate as live
from halfwink.live import native, served, virtual_circuits
from halfwink.programs import PROGRAMS, which


@dataclass(frozen=True)
class Finding:
    """A requirement of a feature.

    Attributes:
        what: the feature and the thing.
        present: tells whether the machine has it.
        detail: description of what was found.
        fix: the line that adds it; empty if it is there.
    """

    what: str
    present: bool
    detail: str
    fix: str = ""


def findings() -> list[Finding]:
    """Everything that was looked for, in the order of the features."""
    return [
        *_core_findings(),
        *_library_findings(),
        *_capture_findings(),
        _recorder_finding(),
        *_live_findings(),
        *_bed_findings(),
        *_optional_findings(),
    ]


def _core_findings() -> list[Finding]:
    return [
        Finding("halfwink", True, f"{_core.__version__}, build {build_id()}"),
        Finding("python", True, f"{platform.python_version()}, polars {pl.__version__}"),
        Finding("cores for runs", True, f"{os.cpu_count()} ({platform.machine()})"),
        _energy_meter(),
    ]


def _what(error: HalfwinkError) -> str:
    """Returns what is missing, without the way to add it."""
    return str(error).partition("; run:")[0]


def _energy_meter() -> Finding:
    try:
        with installed.only_looking():
            meters, missing = native.energy_meters()
    except HalfwinkError as error:
        return Finding("energy meter", False, _what(error), installed.fix("live"))
    if meters:
        found = ", ".join(meters)
        fix = "run as root" if missing else ""
        return Finding("energy meter", True, f"{found}; not {missing}" if missing else found, fix)
    refused = missing is not None and "denied" in missing
    fix = "run as root" if refused else "not needed: every watt is labelled modelled"
    return Finding("energy meter", False, missing or "none", fix)


def _library_findings() -> list[Finding]:
    try:
        shipped = library().names("workloads", "hwt")
        detail = f"{len(shipped)} recorded workloads in {root()}"
        fix = "" if shipped else "halfwink capture nginx -o workloads/nginx.hwt"
        return [Finding("recorded workloads", bool(shipped), detail, fix)]
    except HalfwinkError as error:
        return [Finding("recorded workloads", False, str(error), "pip install --force halfwink")]


def _capture_findings() -> list[Finding]:
    return [
        Finding(f"capture: {r.name}", r.present, r.detail, "" if r.present else r.fix)
        for r in capture.available()
    ]


def _recorder_finding() -> Finding:
    there, detail = recorder.requirement()
    what = "record: a QEMU for programs, with plugins"
    return Finding(what, there, detail, "" if there else recorder.fix())


def _cache_allocation() -> Finding:
    root = Path("/sys/fs/resctrl")
    if (root / "schemata").exists():
        return Finding("live: cache allocation", True, str(root))
    fix = "a part with CAT, PLZA or MPAM, and: mount -t resctrl resctrl /sys/fs/resctrl"
    known = "resctrl" in Path("/proc/filesystems").read_text()
    detail = "resctrl is not mounted" if known else "this kernel has no resctrl"
    return Finding("live: cache allocation", False, f"{detail}; --root DIR rehearses", fix)


#: The line that adds a live feature, by its name.
LIVE_FIXES = {
    "io_uring": "sysctl kernel.io_uring_disabled=0",
    "switch records": "run as root, or with CAP_PERFMON",
    "router: AF_XDP sockets": "run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
    "router: packet sockets": "run as root, or with CAP_NET_RAW",
    "router: TAP devices": "run as root, or with CAP_NET_ADMIN",
    "router: keys of the kernel": "a kernel with XFRM_USER, as root or with CAP_NET_ADMIN",
    "preheat: lines of the kernel": "run as root, or with CAP_BPF and CAP_PERFMON",
    "preheat: restarts": "run as root, or with CAP_BPF and CAP_PERFMON",
    "preheat: handshakes": "run as root, or with CAP_NET_RAW",
    "preheat: pages of servers": "Linux 6.7",
    "waiting in hardware": "a processor with WAITPKG or MONITORX",
    "constant time-stamp counter": "a machine whose clock source is tsc",
    "preheat: stopped servers": "run as root, or with CAP_SYS_PTRACE",
}


def _live_findings() -> list[Finding]:
    try:
        with installed.only_looking():
            features = native.live_features()
    except HalfwinkError as error:
        return [Finding("live: all of it", False, _what(error), installed.fix("live"))]
    cpus = len(os.sched_getaffinity(0))
    with installed.only_looking():
        try:
            library, built = str(live.preload_library()), True
        except HalfwinkError as error:
            library, built = str(error), False
        try:
            player, made = str(virtual_circuits.player()), True
        except CaptureError as error:
            player, made = str(error), False
        try:
            block, has_block = str(served.program(live_block.SERVER)), True
        except HalfwinkError as error:
            block, has_block = str(error), False
    more = installed.fix("live")
    return [
        Finding("live: block devices", has_block, block, "" if has_block else more),
        _ublk(),
        Finding("live: circuits in virtual time", made, player, "" if made else more),
        Finding("live: preload library", built, library, "" if built else more),
        Finding(
            "live: a CPU for system calls",
            cpus > 1,
            f"{cpus} allowed",
            "" if cpus > 1 else "a second CPU (see taskset -p $$)",
        ),
        *(
            Finding(f"live: {what}", not why, why or "yes", LIVE_FIXES[what] if why else "")
            for what, why in features
        ),
        _cache_allocation(),
        _real_time(),
    ]


def _ublk() -> Finding:
    control, what = live_block.UBLK_CONTROL, "live: disks of this machine (ublk)"
    if not control.exists():
        return Finding(what, False, f"{control} is missing", live_block.UBLK_FIX)
    allowed = os.access(control, os.R_OK | os.W_OK)
    detail = str(control) if allowed else f"{control}: not allowed"
    return Finding(what, allowed, detail, "" if allowed else "run as root")


def _real_time() -> Finding:
    # Circuits can do without, but then what else runs on the machine is in their figures.
    allowed = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_RTPRIO)[0] > 0
    detail = "yes" if allowed else "not allowed"
    fix = "" if allowed else "run as root, or raise the limit (ulimit -r 40)"
    return Finding("live: circuits: real-time priority", allowed, detail, fix)


def _bed_findings() -> list[Finding]:
    # Its programs are on the list of programs.
    return [
        Finding(f"bed: {need.name}", need.present, need.detail, "" if need.present else need.fix)
        for need in bed.needs()
        if need.name not in bed.NEEDS
    ]


def _optional_findings() -> list[Finding]:
    found: list[Finding] = []
    for program in PROGRAMS:
        path = program.path
        detail, fix = (path, "") if path else (f"{program.name} is missing", program.fix)
        found.append(Finding(f"{program.used_by}: {program.name}", path is not None, detail, fix))
    toolchains = (
        (
            "new-policy, checks: policies as WebAssembly",
            _has_target(WASM),
            f"rustup target add {WASM}",
        ),
        ("fuzzing: a nightly Rust toolchain", _has_nightly(), "rustup toolchain add nightly"),
    )
    found += [Finding(w, there, "yes" if there else "no", fix) for w, there, fix in toolchains]
    return found


#: The target of policies of users, and of ours to prove that they are pure.
WASM = "wasm32-unknown-unknown"


def _has_target(name: str) -> bool:
    words = ["rustc", "--print", "target-libdir", "--target", name]
    if which(words[0]) is None:
        return False
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    return done.returncode == 0 and folder.is_dir() and any(folder.iterdir())


def _has_nightly() -> bool:
    named = os.environ.get("RUSTUP_HOME")
    toolchains = (Path(named) if named else Path.home() / ".rustup") / "toolchains"
    return any(toolchains.glob("nightly*"))
