"""Builds ChampSim in configurations, out of a clone, with the libraries of the system."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from champsim_config import COMMIT, write
from halfwink.errors import HalfwinkError

#: Our predictors as modules of ChampSim.
MODULES = Path(__file__).parent / "champsim"
#: Lines of its src/vmem.cc, and what they are here.
CHANGED = (
    # Pages stay where they were recorded: so do sets, rows and banks.
    ("champsim::page_number{vaddr}}, ppage_front())", "champsim::page_number{vaddr}}, vaddr)"),
    # A page table is found by the bits above its index. By the index as well, each entry is a table
    # of its own, and eight neighbours never share a line.
    (
        "pte_table_entry_extent{champsim::address::bits, shamt(level)};",
        "pte_table_entry_extent{champsim::address::bits, shamt(level + 1)};",
    ),
)
NEEDS = "libfmt-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libbz2-dev liblzma-dev"


class Builder:
    """ChampSim's sources at the commit that this was written for, in a folder of ours.

    Args:
        clone: a clone, bare or not, with that commit.
        out: where to build.

    Raises:
        HalfwinkError: it is none.
    """

    def __init__(self, clone: Path, out: Path) -> None:
        self.folder = (out / "source").resolve()
        if not (self.folder / "config.sh").exists():
            self._extract(clone)

    def _extract(self, clone: Path) -> None:
        done = subprocess.run(
            ["git", "-C", clone, "archive", COMMIT], capture_output=True, check=False
        )
        if done.returncode:
            why = done.stderr.decode().strip().splitlines()[0]
            expected = "expected a clone of https://github.com/ChampSim/ChampSim with"
            raise HalfwinkError(f"--champsim {clone}: {why}; {expected} {COMMIT[:12]}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(self.folder, filter="data")
        # Its Makefile looks into each of its tests, which need a library more.
        shutil.rmtree(self.folder / "test", ignore_errors=True)
        vmem = self.folder / "src" / "vmem.cc"
        source = vmem.read_text()
        for theirs, ours in CHANGED:
            if source.count(theirs) != 1:
                raise HalfwinkError(f"{vmem}: expected `{theirs}` once")
            source = source.replace(theirs, ours)
        vmem.write_text(source)
        # It takes its libraries from vcpkg; Debian's command line library is headers alone.
        system = self.folder / "vcpkg_installed" / "system"
        (system / "include").mkdir(parents=True)
        (system / "lib").mkdir()
        subprocess.run(["ar", "rcs", system / "lib" / "libCLI11.a"], check=True)

    def build(self, config: dict[str, Any]) -> Path:
        """A binary of this configuration; what has not changed is not compiled again.

        Raises:
            HalfwinkError: it does not compile.
        """
        name = config["executable_name"]
        file = self.folder / f"{name}.json"
        write(file, config)
        words = ["--module-dir", MODULES.resolve(), "--no-compile-all-modules", file]
        self._run("./config.sh", *words)
        self._run("make", "-j2")
        return self.folder / "bin" / name

    def _run(self, *words: str | Path) -> None:
        done = subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            (self.folder / "build.log").write_text(done.stdout + done.stderr)
            log = self.folder / "build.log"
            raise HalfwinkError(f"ChampSim does not build: {log}; is all there? apt: {NEEDS}")
