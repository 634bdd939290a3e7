"""``make wheels``: halfwink as wheels and as sources, in `dist/`.

    halfwink            everything that is not below: compare, reproduce, run
    halfwink-workloads  the recordings that are not in it
    halfwink-live       programs and preload libraries of `halfwink live`
    halfwink-capture    the recorder's sources (GPL)

What `make setup` has built is taken as it is, for the glibc of this machine. With ``--zig`` all is
built once more, against glibc 2.28, by the packages `ziglang` and `cargo-zigbuild` of PyPI.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "packaging"))

import wheel_files as files

GLIBC = "2.28"
TARGET = "x86_64-unknown-linux-gnu"
CRATES = ("daemon", "delegate", "preheat-preload", "live-circuits")
KINDS = ("base", "workloads", "live", "capture", "sdist")
#: What the base wheel must stay under.
LIMIT_MB = 12.0


def run(*words: str | Path) -> None:
    """A command, from the repository's folder."""
    environment = {key: value for key, value in os.environ.items() if key != "CONDA_PREFIX"}
    environment["VIRTUAL_ENV"] = sys.prefix
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    subprocess.run(words, check=True, cwd=files.ROOT, env=environment)


def maturin(*words: str | Path) -> None:
    """Maturin of this environment."""
    run(Path(sys.executable).parent / "maturin", *words)


def base(out: Path, *, zig: bool) -> None:
    """The base wheel: maturin's, and data."""
    how = ["--zig", "--target", TARGET, "--compatibility", "manylinux_2_28"] if zig else []
    with tempfile.TemporaryDirectory() as folder:
        common = ["build", "--release", "--locked", "--quiet", "--out", folder]
        maturin(*common, "--interpreter", sys.executable, *how)
        (wheel,) = Path(folder).glob("*.whl")
        files.complete(wheel, out)


def live(out: Path, *, zig: bool) -> None:
    """Programs and preload libraries, built if they are not."""
    packages = [word for crate in CRATES for word in ("-p", f"halfwink-{crate}")]
    how = ["zigbuild", "--target", f"{TARGET}.{GLIBC}"] if zig else ["build"]
    run("cargo", *how, "--release", "--locked", "--quiet", *packages)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or files.ROOT / "target")
    files.live(out, (target / TARGET if zig else target) / "release")


def main() -> int:
    """Builds what is asked for; fails if the base wheel has grown too big."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=files.ROOT / "dist")
    parser.add_argument("--zig", action="store_true", help="for glibc 2.28")
    parser.add_argument("kinds", nargs="*", help=f"of: {', '.join(KINDS)}; all")
    asked = parser.parse_args()
    kinds = asked.kinds or KINDS
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(KINDS)}")
    out = files.fresh(asked.out)
    if "base" in kinds:
        base(out, zig=asked.zig)
    if "live" in kinds:
        live(out, zig=asked.zig)
    if "workloads" in kinds:
        files.workloads(out)
    if "capture" in kinds:
        files.capture(out)
    if "sdist" in kinds:
        maturin("sdist", "--out", out)
    for name, size in files.sizes(out):
        print(f"{size:8.2f} MB  {name}")
    sized = [
        size for name, size in files.sizes(out) if name.startswith("halfwink-") and "cp3" in name
    ]
    if any(size >= LIMIT_MB for size in sized):
        print(f"the base wheel must stay under {LIMIT_MB:g} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
