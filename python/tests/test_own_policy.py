"""A user's own policy: a folder from the command, a module from the folder, a result from it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import lacking, need

import halfwink as hw
from halfwink.doctor import WASM, _has_target
from halfwink.new_policy import facts, families, new_policy


def built(family: str, parent: Path) -> Path:
    """The module of a folder as the command writes it."""
    need("rustc")
    if not _has_target(WASM):
        lacking(f"the Rust target {WASM} is missing; run: rustup target add {WASM}")
    folder = new_policy("my-gate", family, parent)
    for words in (["make"], ["make", "test"]):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stderr
    return folder / "my-gate.wasm"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module of gating."""
    return built("gating", tmp_path_factory.mktemp("own"))


#: A family beside gating: where it is played, its parameter, and the published policy that a column
#: of its runs tells apart.
OTHERS = {
    "scaling": (["-w", "router", "ipv4@ramp:5,80,10"], "polls=1000", "polling", "c0_pct"),
    "steering": (
        ["-w", "server", "count@30", "--set", "requests=5000"],
        "threshold=8",
        "always-on",
        "big_asleep_pct",
    ),
    "offload": (
        ["-w", "chip", "syscalls", "-n", "200000"],
        "threshold=5",
        "os-always",
        "moved_invocations",
    ),
    "completion": (
        ["-w", "storage", "random-read@8"],
        "waiting=0",
        "single-thread",
        "latency_mean_us",
    ),
    "preheat": (
        ["-w", "preheat", "nginx-2016@100", "--set", "requests=200"],
        "cores=1",
        "wake-only",
        "load_us",
    ),
    "circuits": (["-w", "fabric", "all-to-all"], "day_us=200", "static-circuits", "host_gbps"),
    "segregation": (
        ["-w", "chip", "nginx", "-m", "ev6", "-n", "1000000"],
        "least=7",
        "lru",
        "l2_mpki",
    ),
}


@pytest.mark.parametrize("family", OTHERS)
def test_own_policy_of_another_family_is_compared_and_replayed(
    halfwink, tmp_path: Path, family: str
):
    (tmp_path / "built").mkdir()
    module = built(family, tmp_path / "built")
    (tmp_path / "own.wasm").write_bytes(module.read_bytes())
    where, setting, published, column = OTHERS[family]
    checked = halfwink("check-policy", "./own.wasm", "--seeds", "20")
    assert checked.status == 0, checked.out + checked.err
    assert checked.out.count("pass  ") == 7
    chosen = f"{published},./own.wasm,./own.wasm:{setting}"
    done = halfwink("compare", *where, "-t", chosen, "-o", "out", "--log", "run.log")
    assert done.status == 0, done.err
    found = dict(hw.open(tmp_path / "out").runs.select("technique", column).iter_rows())
    assert len({found[name] for name in (published, "./own.wasm", f"./own.wasm:{setting}")}) == 3
    again = halfwink("replay", str(min(tmp_path.glob("run-own*.log"))))
    assert again.status == 0, again.err


def test_own_policy_is_compared_in_folder_of_its_own(halfwink, tmp_path: Path, module: Path):
    (tmp_path / "my-gate.wasm").write_bytes(module.read_bytes())
    chosen = "tap,./my-gate.wasm,./my-gate.wasm:after_us=1000000"
    words = ("compare", "nginx", "-m", "ev6-4", "-t", chosen, "-o", "out")
    done = halfwink(*words, "--log", "run.log")
    assert done.status == 0, done.err
    runs = hw.open(tmp_path / "out").runs
    saved = dict(runs.select("technique", "wakes").iter_rows())
    # It gates in halts; after a second it never does, as no halt is so long.
    assert saved["./my-gate.wasm"] > 0
    assert saved["./my-gate.wasm:after_us=1000000"] == 0
    log = min(tmp_path.glob("run-my-gate*.log"))
    again = halfwink("replay", str(log))
    assert again.status == 0, again.err
    # Another content under the same name is another technique.
    (tmp_path / "my-gate.wasm").write_bytes(module.read_bytes() + b"\0\2\1x")
    changed = halfwink("replay", str(log))
    assert changed.status == 2
    assert "its content has changed" in changed.err


@pytest.mark.parametrize("family", families())
def test_folder_of_new_policy_is_written_once_and_its_name_is_checked(
    halfwink, tmp_path: Path, family: str
):
    done = halfwink("new-policy", "my-gate", "--family", family)
    assert done.status == 0, done.err
    assert f"halfwink compare {facts(family)['compare']}./my-gate.wasm" in done.out
    made = {str(p.relative_to(tmp_path / "my-gate")) for p in (tmp_path / "my-gate").rglob("*.*")}
    sources = {"src/block.rs", "src/interface.rs", "src/lib.rs", "c/halfwink.h", "c/policy.c"}
    assert made == sources | {"Cargo.toml", "README.md"}
    assert (tmp_path / "my-gate" / "Makefile").exists()
    texts = [p.read_text() for p in (tmp_path / "my-gate").rglob("*") if p.is_file()]
    assert not any(re.search("@[A-Z]+@", text) for text in texts)
    *others, last = families()
    for words, line in (
        (["my-gate"], "is there already, expected a new folder"),
        (["../my-gate"], "expected up to 40 small letters, digits and hyphens"),
        (
            ["other", "--family", "flying"],
            "family `flying`: expected " + " or ".join([", ".join(others), last]),
        ),
        (
            ["other", "--family", "common"],
            "family `common`: expected " + " or ".join([", ".join(others), last]),
        ),
    ):
        done = halfwink("new-policy", *words)
        assert done.status == 2, done.err
        assert line in done.err
        assert done.err.count("\n") == 1


def test_broken_law_is_named_and_sets_status(halfwink, tmp_path: Path):
    (tmp_path / "loops.wasm").write_bytes(looping())
    done = halfwink("check-policy", "./loops.wasm", "--seeds", "4")
    assert done.status == 1, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("FAIL")]
    assert line.startswith("FAIL  stays within the limits of a module")
    assert "seed 0, event 0" in line
    assert "fuel" in line
    done = halfwink("check-policy", "tap", "--seeds", "20")
    assert (done.status, done.out.count("pass  ")) == (0, 6)
    for words, said in (
        (["os-static"], "no laws of the family `offload` here, expected gating"),
        (["tapp"], "tapp"),
        (["tap", "--seeds", "1"], "expected 2 seeds or more"),
    ):
        done = halfwink("check-policy", *words)
        assert (done.status, done.err.count("\n")) == (2, 1), done.err
        assert said in done.err


def leb(number: int) -> bytes:
    """A number of WebAssembly below 16384."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def section(kind: int, *entries: bytes) -> bytes:
    """A section of a module: its entries."""
    content = leb(len(entries)) + b"".join(entries)
    return bytes([kind]) + leb(len(content)) + content


def looping() -> bytes:
    """A policy that is one in all but that its `decide` never returns."""
    about = b'{"family": "gating", "title": "loops"}\0'
    bodies = (b"\x41\x01", b"\x41\x80\x20", b"\x41\x80\x08", b"\x03\x40\x0c\x00\x0b")
    names = ("halfwink_abi", "halfwink_about", "halfwink_block", "halfwink_decide")
    exports = [leb(len(n)) + n.encode() + b"\0" + leb(at) for at, n in enumerate(names)]
    codes = [leb(len(body) + 2) + b"\0" + body + b"\x0b" for body in bodies]
    return (
        b"\0asm\1\0\0\0"
        + section(1, b"\x60\x00\x01\x7f", b"\x60\x00\x00")
        + section(3, b"\0", b"\0", b"\0", b"\1")
        + section(5, b"\x00\x01")
        + section(7, b"\x06memory\x02\x00", *exports)
        + section(10, *codes)
        + section(11, b"\0\x41\x80\x20\x0b" + leb(len(about)) + about)
    )


def test_hostile_file_ends_with_one_line_and_status_two(halfwink, tmp_path: Path):
    (tmp_path / "loop.wasm").write_bytes(looping())
    (tmp_path / "text.wasm").write_text("no module\n")
    (tmp_path / "folder.wasm").mkdir()
    os.mkfifo(tmp_path / "fifo.wasm")
    with (tmp_path / "huge.wasm").open("wb") as huge:
        huge.truncate(1 << 30)
    for name, line in {
        "loop.wasm": "at 0 ps, told `start`, it used up its fuel",
        "text.wasm": "is no WebAssembly module",
        "folder.wasm": "expected a regular file",
        "fifo.wasm": "expected a regular file",
        "huge.wasm": "is sparse",
        "none.wasm": "no such file",
    }.items():
        done = halfwink("compare", "nginx", "-t", f"./{name}", "-n", "20000", timeout=120)
        said = [text for text in done.err.splitlines() if name in text]
        assert done.status == 2, done.err
        assert len(said) == 1, done.err
        assert line.lower() in said[0].lower()
        assert "Traceback" not in done.err
