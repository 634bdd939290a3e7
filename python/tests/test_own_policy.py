"""A user's own policy: a folder from the command, a module from the folder, a result from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import lacking, need

import halfwink as hw
from halfwink.doctor import WASM, _has_target
from halfwink.new_policy import facts, families, new_policy

ROOT = Path(__file__).parents[2]


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a family as the command writes it, with its module in Rust."""

    @cache
    def built(family: str) -> Path:
        need("rustc")
        if not _has_target(WASM):
            lacking(f"the Rust target {WASM} is missing; run: rustup target add {WASM}")
        folder = new_policy("my-gate", family, tmp_path_factory.mktemp(family))
        for words in ((), ("test",)):
            done = make(folder, *words)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "warning" not in done.stderr
        return folder

    return built


@pytest.fixture(scope="module")
def module(folder_of: Callable[[str], Path]) -> Path:
    """The module of gating."""
    return folder_of("gating") / "my-gate.wasm"


#: Where a family is played, its parameter, and the published policy that a column of its runs tells
#: apart.
PLAYED = {
    "gating": (["nginx", "-m", "ev6-4", "-n", "4000000"], "after_us=1000000", "tap", "wakes"),
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


#: Languages beside Rust, by the name of what `make` builds, and how it says what it lacks.
LANGUAGES = {"c": "no wasm-ld: install ", "as": "no asc: install "}
#: Families that are built in AssemblyScript, whose compiler takes four seconds for each.
IN_ASSEMBLYSCRIPT = ("gating", "preheat", "steering")
#: What each family is built in.
BUILT = [
    (family, language)
    for family in sorted(PLAYED)
    for language in LANGUAGES
    if language != "as" or family in IN_ASSEMBLYSCRIPT
]


@dataclass(frozen=True)
class Played:
    """Policies of a family, compared with a published one.

    Attributes:
        family: name of the family.
        folder: working folder of the comparison: modules, logs, and the results in `out`.
        makes: how `make` ended, for each language beside Rust.
        rows: the row of each technique.
    """

    family: str
    folder: Path
    makes: dict[str, subprocess.CompletedProcess[str]]
    rows: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def played_of(
    folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Played]:
    """Each family is played once, whatever the order of its tests."""
    return cache(lambda family: play(family, folder_of, tmp_path_factory))


@pytest.fixture(params=sorted(PLAYED))
def played(request: pytest.FixtureRequest, played_of: Callable[[str], Played]) -> Played:
    return played_of(request.param)


def play(
    family: str, folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Played:
    """One comparison of all languages that this machine can build: most of it is common to all."""
    built, folder = folder_of(family), tmp_path_factory.mktemp("played")
    makes = {language: make(built, language) for of, language in BUILT if of == family}
    for module in built.glob("*.wasm"):
        shutil.copy(module, folder / module.name.replace("my-gate", "own"))
    where, setting, published, _ = PLAYED[family]
    own = [f"./{module.name}" for module in sorted(folder.glob("*.wasm"))]
    chosen = ",".join([published, *own, f"./own.wasm:{setting}"])
    words = ["compare", *where, "-t", chosen, "-o", "out", "--log", "run.log"]
    done = subprocess.run(
        [sys.executable, "-m", "halfwink", *words],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = hw.open(folder / "out").runs
    return Played(family, folder, makes, {row.pop("technique"): row for row in runs.to_dicts()})


def assert_keeps_laws(halfwink, module: Path):
    checked = halfwink("check-policy", str(module), "--seeds", "20")
    assert checked.status == 0, checked.out + checked.err
    assert checked.out.count("pass  ") == 7


def test_own_policy_of_each_family_is_compared_and_replayed(
    halfwink, tmp_path: Path, played: Played
):
    assert sorted(PLAYED) == families()
    assert_keeps_laws(halfwink, played.folder / "own.wasm")
    _, setting, published, column = PLAYED[played.family]
    names = (published, "./own.wasm", f"./own.wasm:{setting}")
    assert len({played.rows[name][column] for name in names}) == 3
    # Logs name the module relative to the working folder. Those of the module in Rust have numbers,
    # since they differ by a parameter alone.
    shutil.copy(played.folder / "own.wasm", tmp_path)
    again = halfwink("replay", str(min(played.folder.glob("run-own-[0-9]*.log"))))
    assert again.status == 0, again.err


@pytest.mark.parametrize(("played", "language"), BUILT, indirect=["played"])
def test_policy_in_another_language_decides_as_the_one_in_rust(
    halfwink, played: Played, language: str
):
    if language == "c":
        need("clang")
    made = played.makes[language]
    if made.stderr.startswith(LANGUAGES[language]):
        # tools/install.sh adds asc by npm, where there is npm and its registry can be reached.
        lacking(made.stderr.splitlines()[0], kernel=language == "as")
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    name = f"own-{language}.wasm"
    assert_keeps_laws(halfwink, played.folder / name)
    assert played.rows[f"./{name}"] == played.rows["./own.wasm"]


def test_policy_of_a_template_takes_little_memory(folder_of: Callable[[str], Path]):
    # A world of 1,000 servers has 1,000 of them.
    assert pages((folder_of("gating") / "my-gate.wasm").read_bytes()) == 2


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


@pytest.fixture(scope="module")
def teo(folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module of the documentation's teo."""
    folder = tmp_path_factory.mktemp("teo") / "my-teo"
    shutil.copytree(folder_of("gating"), folder)
    shutil.copy(ROOT / "docs/examples/teo.rs", folder / "src/lib.rs")
    done = make(folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "my-gate.wasm"


def test_teo_from_comments_of_the_kernel_is_teo(halfwink, tmp_path: Path, teo: Path):
    (tmp_path / "teo.wasm").write_bytes(teo.read_bytes())
    checked = halfwink("check-policy", "./teo.wasm", "--seeds", "20")
    assert checked.status == 0, checked.out + checked.err
    last = "decides as `teo` (Linux, cpuidle/governors/teo.c) in all 20 seeds\n"
    assert checked.out.endswith(last)
    chip = ("compare", "nginx-10pct", "-w", "chip", "-m", "golden-cove-4", "-n", "4000000")
    done = halfwink(*chip, "-t", "menu,teo,./teo.wasm", "-o", "chip")
    assert done.status == 0, done.err
    menu, shipped, own = hw.open(tmp_path / "chip").runs.tail(3).to_dicts()
    assert {name for name in own if own[name] != shipped[name]} == {"technique", "available"}
    assert menu["energy_j"] != shipped["energy_j"]
    # On a server of today both wake for the same gaps; the shipped one wakes for ticks, too.
    node = ("compare", "nginx@10", "-t", "teo,./teo.wasm", "--set", "requests=100000")
    done = halfwink(*node, "-o", "node")
    assert done.status == 0, done.err
    runs = hw.open(tmp_path / "node").runs
    menu, teo_j, own_j = runs["energy_j"].to_list()
    assert abs(own_j / teo_j - 1) < 1e-3 < abs(menu / teo_j - 1)
    # In recorded gaps, which the same code plays.
    gaps = ["cpu,begin_us,end_us", *(f"0,{1e3 * n},{1e3 * n + 1 + n % 900}" for n in range(2000))]
    (tmp_path / "gaps.csv").write_text("\n".join(gaps))
    done = halfwink("idle", "gaps.csv", "-t", "teo,./teo.wasm", "--json")
    assert done.status == 0, done.err
    rows = {row["technique"]: row["energy_j"] for row in done.rows("policies")}
    assert rows["./teo.wasm"] == pytest.approx(rows["teo"], rel=1e-3)


def test_module_of_halts_has_nothing_within_requests(halfwink, tmp_path: Path, module: Path):
    (tmp_path / "own.wasm").write_bytes(module.read_bytes())
    done = halfwink("profile", "nginx-1pct", "-m", "golden-cove", "-t", "./own.wasm", "-q")
    assert done.status == 2, done.err
    assert "`./own.wasm` decides in halts alone, so that no profile has it" in done.complaint
    done = halfwink("compare", "nginx@30", "-t", "./own.wasm+teo")
    assert (done.status, done.err.count("\n")) == (2, 1), done.err
    assert "both decide how an idle core sleeps" in done.complaint


def test_names_of_files_have_characters_that_techniques_have_a_use_for(
    halfwink, tmp_path: Path, module: Path
):
    for path in ("a+b:c@d,e/my gate.wasm", "plain.wasm"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(module.read_bytes())
    text = "./a%2Bb%3Ac%40d%2Ce/my gate.wasm:after_us=2+central-wake-up"
    words = ("compare", "nginx", "-w", "chip", "-n", "200000", "-o", "out", "--log", "run.log")
    done = halfwink(*words, "-t", f"tap,{text},./plain.wasm")
    assert done.status == 0, done.err
    runs = hw.open(tmp_path / "out").runs
    assert runs["technique"].to_list()[-2:] == [text, "./plain.wasm"]
    assert halfwink("replay", str(min(tmp_path.glob("run-a*.log")))).status == 0
    path = tmp_path / "a+b:c@d,e" / "my gate.wasm"
    played = hw.compare("nginx", world="chip", techniques=path, instructions=200_000)
    assert played.runs["technique"].to_list()[-1].endswith("a%2Bb%3Ac%40d%2Ce/my gate.wasm")
    refused = halfwink("compare", "nginx", "-t", "./a+b:c@d,e/my gate.wasm")
    assert refused.status == 2
    assert "`./a`: no file with a policy; in a file's name, write `+` as %2B" in refused.complaint


@pytest.mark.parametrize("family", families())
def test_folder_of_new_policy_is_written_once_and_its_name_is_checked(
    halfwink, tmp_path: Path, family: str
):
    done = halfwink("new-policy", "my-gate", "--family", family)
    assert done.status == 0, done.err
    assert f"halfwink compare {facts(family)['compare']}./my-gate.wasm" in done.out
    made = {str(p.relative_to(tmp_path / "my-gate")) for p in (tmp_path / "my-gate").rglob("*.*")}
    rust = {"src/block.rs", "src/interface.rs", "src/lib.rs"}
    others = {"c/halfwink.h", "c/policy.c", "as/halfwink.ts", "as/policy.ts"}
    assert made == rust | others | {"Cargo.toml", "README.md"}
    assert (tmp_path / "my-gate" / "Makefile").exists()
    texts = [p.read_text() for p in (tmp_path / "my-gate").rglob("*") if p.is_file()]
    assert not any(re.search("@[A-Z]+@", text) for text in texts)
    *others, last = families()
    for words, line in (
        (["my-gate"], "is there already, expected a new folder"),
        (["../my-gate"], "expected up to 40 small letters, digits and hyphens"),
        (
            ["1x"],
            "policy `1x`: expected up to 40 small letters, digits and hyphens, a letter first",
        ),
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
    assert re.search("while messages are late or lost  not played$", done.out, re.MULTILINE)
    assert "decides as" not in done.out
    done = halfwink("check-policy", "tap", "--seeds", "20")
    assert (done.status, done.out.count("pass  ")) == (0, 6)
    assert done.out.count("  20 seeds\n") == 6
    assert done.out.endswith("decides as `tap` (Strong 2013, Sec 2.3.4) in all 20 seeds\n")
    done = halfwink("check-policy", "always-on", "--world", "chip", "--seeds", "2")
    assert done.out.endswith("decides as `always-on` in all 2 seeds: neither ever acts\n")
    done = halfwink("check-policy", "tap:wake=last", "--seeds", "20")
    assert "decides as none of 8 published techniques of its family in all seeds" in done.out
    assert re.search(r"nearest:\s`tap` in \d\d %, `idle-gate` in \d\d %\sof decisions", done.out)
    done = halfwink("check-policy", "tap", "--seeds", "20", "--json")
    assert [law["seeds"] for law in done.rows("laws")] == [20] * 6
    first = done.rows("published")[0]
    assert (first["technique"], first["equal_seeds"], first["seeds"]) == ("tap", 20, 20)
    assert first["equal_decisions"] == first["decisions"] > 0
    for words, said in (
        (["os-static"], "no laws of the family `offload` here, expected gating"),
        (["tapp"], "tapp"),
        (["tap", "--seeds", "0"], "expected 1 seed or more"),
    ):
        done = halfwink("check-policy", *words)
        assert (done.status, done.err.count("\n")) == (2, 1), done.err
        assert said in done.err


def leb(number: int) -> bytes:
    """A number of WebAssembly below 16384."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def number(content: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a place of a module, and the place behind it."""
    found = shift = 0
    while True:
        byte = content[at]
        found, shift, at = found | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return found, at


def pages(module: bytes) -> int:
    """Returns the pages of 64 KiB that the memory of a module begins with."""
    at = 8
    while True:
        kind, (length, at) = module[at], number(module, at + 1)
        if kind == 5:
            # Behind the number of memories and the kind of limits.
            return number(module, at + 2)[0]
        at += length


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


def test_file_that_cannot_be_read_is_named_beside_a_technique_of_servers(halfwink):
    for techniques in ("menu,./none.wasm", "teo+./none.wasm", "./none.wasm+packing"):
        done = halfwink("compare", "nginx", "-t", techniques)
        assert done.status == 2, done.err
        assert done.err == "halfwink: ./none.wasm: No such file or directory\n"
