"""What can be captured by name, and that the guest has what it takes."""

import subprocess

import pytest

from halfwink.capture import WORKLOADS, WrongUseError, guest, paths
from halfwink.capture.image import load_arguments
from halfwink.capture.workloads import find


def test_names_are_found_and_near_misses_helped() -> None:
    assert find("nginx").is_server
    with pytest.raises(WrongUseError, match="did you mean memcached"):
        find("memcache")
    with pytest.raises(WrongUseError, match="there are nginx"):
        find("zzz")


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
def test_workloads_are_consistent(workload) -> None:
    recipe = guest.recipe()
    assert (paths.sources() / "guest/workloads" / f"{workload.script}.sh").is_file()
    assert set(workload.layers) <= set(recipe.layers)
    assert (workload.kind == "open") == (workload.rate_per_s is not None)
    assert workload.is_server == bool(workload.protocol) == (workload.connections > 0)
    assert workload.unit_of_work == ("request" if workload.is_server else "instruction")
    assert workload.cpus == (2 if workload.is_server else 1)
    assert workload.command
    assert workload.warmup > 0


def test_load_arguments() -> None:
    assert load_arguments(find("nginx-10pct"), 7)[-2:] == ["--rate", "1650"]
    assert "--rate" not in load_arguments(find("redis"), 7)


def test_guest_scripts_are_valid_shell() -> None:
    folder = paths.sources() / "guest"
    for script in [folder / "init.sh", folder / "prepare.sh", *folder.glob("workloads/*.sh")]:
        done = subprocess.run(
            ["sh", "-n", str(script)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
