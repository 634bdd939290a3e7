"""What can be captured by name, and that the guest has what it takes."""

import subprocess
from pathlib import Path

import pytest

from halfwink.capture import WORKLOADS, MissingRequirementError, WrongUseError, guest, paths
from halfwink.capture.guest import Guest
from halfwink.capture.image import Plan, environment, load_arguments, write
from halfwink.capture.workloads import find


def test_names_are_found_and_near_misses_helped() -> None:
    assert find("nginx").is_server
    with pytest.raises(WrongUseError, match="did you mean memcached"):
        find("memcache")
    with pytest.raises(WrongUseError, match="there are nginx"):
        find("zzz")


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
def test_workloads_are_consistent(workload) -> None:
    recipe = guest.recipe(workload.guest)
    assert (paths.sources() / "guest/workloads" / f"{workload.script}.sh").is_file()
    assert set(workload.layers) <= set(recipe.layers)
    assert (workload.kind == "open") == (workload.rate_per_s is not None)
    assert workload.is_server == bool(workload.protocol) == (workload.connections > 0)
    assert workload.unit_of_work == ("request" if workload.is_server else "instruction")
    assert workload.cpus == (2 if workload.is_server or workload.issuers else 1)
    assert workload.recorded in range(workload.cpus)
    assert workload.command
    starts_late = workload.record_after_s is not None or workload.marks_start
    assert (workload.warmup > 0) != starts_late
    assert not workload.source or (paths.programs() / workload.source).is_file()


def test_programs_are_recorded_in_their_main_phase() -> None:
    late = [w for w in WORKLOADS.values() if w.record_after_s is not None]
    assert len(late) >= 16
    for workload in late:
        script = paths.sources() / "guest/workloads" / f"{workload.script}.sh"
        assert ". /halfwink/later.sh\n" in script.read_text(encoding="utf-8")
        assert "    record_later\n}\n" in script.read_text(encoding="utf-8")
        assert workload.guest in (guest.PROGRAMS, guest.STORAGE)


def test_both_recordings_of_two_cpus_are_of_one_run() -> None:
    def run(name: str) -> tuple[object, ...]:
        found = find(name)
        return found.description, found.command, found.variables, environment(Plan(found, 1))

    for name in ("null-blk-one", "null-blk-many"):
        assert run(name) == run(f"{name}-other")
        assert (find(name).recorded, find(f"{name}-other").recorded) == (1, 0)


def test_a_late_start_is_told_to_the_guest(tmp_path: Path) -> None:
    for layer in ("base", "perl", "busybox"):
        (tmp_path / f"{layer}.cpio").touch()
    (tmp_path / "busybox").touch()
    (tmp_path / "load").touch()
    built = Guest(tmp_path, "6.1", {})

    def image(name: str) -> bytes:
        out = tmp_path / f"{name}.out"
        write(Plan(find(name), 1), built, tmp_path / "load", out)
        return out.read_bytes()

    late = image("lemon")
    for part in (b"OWN_START=--own-start\n", b"WARMUP=0\n", b"RECORD_AFTER=4\n", b"network.pl"):
        assert part in late
    assert b"record_later()" in late
    assert b"RECORD_AFTER" not in image("gzip")


def test_a_program_from_source_comes_along(tmp_path: Path) -> None:
    for layer in ("base", "gcc", "busybox", "load"):
        (tmp_path / f"{layer}.cpio").touch()
    (tmp_path / "busybox").touch()
    (tmp_path / "load").touch()
    out = tmp_path / "out"
    write(Plan(find("mcf-2"), 1), Guest(tmp_path, "6.1", {}), tmp_path / "load", out)
    image = out.read_bytes()
    for part in (
        b"OWN_START=--own-start\n",
        b"WARMUP=0\n",
        b"SOURCE=mcf.c\n",
        b"ARGUMENTS='trips 40000 3000000 1 900000'\n",
        b"static void pivot(Arc *in)",
        b"static inline void start_recording(void)",
        b'/usr/bin/gcc -O2 -static -o /tmp/program "/halfwink/$SOURCE" -lm',
    ):
        assert part in image


def test_a_clone_without_programs_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture/Cargo.toml").touch()
    monkeypatch.setenv("HALFWINK_CAPTURE_SOURCES", str(tmp_path / "capture"))
    with pytest.raises(MissingRequirementError, match="workloads/programs"):
        paths.programs()


def test_every_guest_has_a_recipe() -> None:
    servers, programs = guest.recipe(), guest.recipe(guest.PROGRAMS)
    java, storage = guest.recipe(guest.JAVA), guest.recipe(guest.STORAGE)
    assert len({servers.key, programs.key, java.key, storage.key}) == 4
    assert (java.drivers, storage.drivers) == (guest.DRIVERS, ("msr", "null_blk"))
    assert {"perl", "liblemon-utils", "gromacs"} <= set(programs.packages)
    assert programs.layer_of("usr/bin/dimacs-solver") == "base"
    assert programs.layer_of("usr/share/perl/5.36.0/strict.pm") == "perl"
    assert programs.layer_of("usr/lib/gcc/x86_64-linux-gnu/12/cc1") is None


def test_load_arguments() -> None:
    assert load_arguments(find("nginx-10pct"), 7)[-2:] == ["--rate", "1650"]
    assert "--rate" not in load_arguments(find("redis"), 7)


def test_guest_scripts_are_valid_shell() -> None:
    folder = paths.sources() / "guest"
    for script in [*folder.glob("*.sh"), *folder.glob("*/*.sh")]:
        done = subprocess.run(
            ["sh", "-n", str(script)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
