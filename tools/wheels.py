"""``make wheels``: halfwink as wheels and as sources, in `dist/`.

    halfwink            everything that is not below: compare, reproduce, run
    halfwink-workloads  the recordings that are not in it
    halfwink-live       programs, preload libraries and native module of `halfwink live`
    halfwink-capture    the recorder's sources (GPL)

Programs and the native module are built with the profile `dist`, for the glibc of this machine.
``--profile release`` takes what `make setup` has built. With ``--zig`` they are built against glibc
2.28, by the packages `ziglang` and `cargo-zigbuild` of PyPI. ``--zig --machine aarch64 base``
makes the base wheel for Linux on ARM.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "packaging"))

import wheel_files as files

GLIBC = "2.28"
FEATURE = "halfwink-py/extension-module"
KINDS = ("base", "workloads", "live", "capture", "sdist")
#: What the base wheel must stay under.
LIMIT_MB = 12.0


def run(*words: str | Path) -> None:
    """A command, from the repository's folder."""
    environment = {key: value for key, value in os.environ.items() if key != "CONDA_PREFIX"}
    environment["VIRTUAL_ENV"] = sys.prefix
    subprocess.run(words, check=True, cwd=files.ROOT, env=environment)


def built(profile: str, machine: str, *, zig: bool, live: bool) -> Path:
    """Builds the native module, and the live programs if wanted; returns the folder they are in."""
    packages = (*files.CRATES, *files.LIVE_CRATES) if live else files.CRATES
    chosen = [word for crate in packages for word in ("-p", crate)]
    triple = f"{machine}-unknown-linux-gnu"
    how = ["zigbuild", "--target", f"{triple}.{GLIBC}"] if zig else ["build"]
    if machine != platform.machine():
        # No `strip` of this machine reads what it builds for another one.
        how += ["--config", f'profile.{profile}.strip="symbols"']
    options = ("--profile", profile, "--locked", "--quiet", "--features", FEATURE)
    run("cargo", *how, *options, *chosen)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or files.ROOT / "target")
    return (target / triple if zig else target) / profile


def main() -> int:
    """Builds what is asked for; fails if the base wheel has grown too big."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=files.ROOT / "dist")
    parser.add_argument("--zig", action="store_true", help="for glibc 2.28")
    machines = sorted(files.MACHINES.values())
    parser.add_argument("--machine", choices=machines, default=platform.machine())
    parser.add_argument("--profile", default="dist", help="of Cargo; dist unless said otherwise")
    parser.add_argument("kinds", nargs="*", help=f"of: {', '.join(KINDS)}; all")
    asked = parser.parse_args()
    kinds = asked.kinds or KINDS
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(KINDS)}")
    if asked.machine != platform.machine() and (not asked.zig or {*kinds} != {"base"}):
        parser.error(f"--machine {asked.machine}: expected --zig, and base alone")
    out = files.fresh(asked.out)
    # Where maturin is, which writes the metadata.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if {"base", "live"} & set(kinds):
        folder = built(asked.profile, asked.machine, zig=asked.zig, live="live" in kinds)
        if "base" in kinds:
            files.base(out, folder / "lib_core.so")
        if "live" in kinds:
            files.live(out, folder)
    if "workloads" in kinds:
        files.workloads(out)
    if "capture" in kinds:
        files.capture(out)
    if "sdist" in kinds:
        run("maturin", "sdist", "--out", out)
    for name, size in files.sizes(out):
        print(f"{size:8.2f} MB  {name}")
    sized = [
        size for name, size in files.sizes(out) if name.startswith("halfwink-") and "cp3" in name
    ]
    # Only link-time optimisation makes it as small as what is published.
    if asked.profile == "dist" and any(size >= LIMIT_MB for size in sized):
        print(f"the base wheel must stay under {LIMIT_MB:g} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
