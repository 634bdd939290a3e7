"""Lines for Linux that advice prints, each run in a guest, and what its kernel then does."""

from __future__ import annotations

from pathlib import Path

import idle_guest
import pytest

from halfwink.advice.composition_search import USUAL
from halfwink.advice.idle_gaps import PM_QOS
from halfwink.advice.linux_lines import linux_lines
from halfwink.jobs import Job
from halfwink.runs.comparison import NODE

pytestmark = pytest.mark.qemu

#: What the guest tells after each line: its status, states that are disabled, states used since.
BEGIN = """
cd /sys/devices/system/cpu
states=cpu0/cpuidle
used() { cat $states/state*/usage | tr '\\n' ' '; }
try() {
    name=$1; shift; eval "$*" >/tmp/said 2>&1; status=$?; before=$(used); passed=0
    while [ $passed -lt 20 ]; do sleep 0.02; passed=$((passed + 1)); done
    say "$name|$status|$(cat $states/state*/disable | tr '\\n' ' ')|$before|$(used)"
}
"""
#: States of a server of 2023, and of Skylake and older ones, as Linux is told.
SAPPHIRE_RAPIDS, SKYLAKE = (1, 2, 290), (2, 10, 133)
#: States that each technique leaves, by Linux' number; state 0 polls.
LEFT = {"c1": {0, 1}, "c1e": {0, 1, 2}, "c6": {0, 1, 3}, "always-on": set[int]()}


def _line(technique: str, latencies: tuple[int, ...]) -> str:
    """Returns the command that advice prints for a machine with these states."""
    set_to = [
        (f"idle_states.{name}.{key}", str(us))
        for name, us in zip(("c1", "c1e", "c6"), latencies, strict=True)
        for key in ("exit_us", "residency_us")
    ]
    job = Job(NODE, "nginx@30", "golden-cove-56", USUAL, tuple(set_to))
    (line,) = linux_lines(technique, job)
    command = line.partition(": ")[2].partition(", or boot with")[0].partition(" # ")[0]
    return command.replace("INTERFACE", "eth0")


@pytest.mark.parametrize(
    "latencies", [SAPPHIRE_RAPIDS, pytest.param(SKYLAKE, marks=pytest.mark.full("guests"))]
)
def test_lines_for_idle_states_leave_those_of_the_technique(
    latencies: tuple[int, ...], tmp_path: Path
):
    # Each follows on another: what was disabled before must not stay so.
    order = ["c1", "c1e", "always-on", "c6", "c1e", "c1", "c6"]
    lines = "".join(f"try {name} '{_line(name, latencies)}'\n" for name in order)
    told = idle_guest.run(tmp_path, f"{BEGIN}{lines}say over\n", latencies)
    found = [line.split("|") for line in told if "|" in line]
    assert [name for name, *_ in found] == order
    for name, status, disabled, before, after in found:
        assert status == "0", (name, found)
        left = {n for n, word in enumerate(disabled.split()) if word == "0"}
        assert left == LEFT[name], (name, disabled)
        pairs = zip(map(int, before.split()), map(int, after.split()), strict=True)
        grown = {n for n, (was, now) in enumerate(pairs) if now > was}
        # A kernel without any state left polls.
        assert grown
        assert grown <= (left or {0}), (name, grown)


def test_lines_for_other_settings_are_taken_by_the_kernel(tmp_path: Path):
    teo, haltpoll = _line("teo", SKYLAKE), "haltpoll"
    coalesce = _line("coalesce:hold_us=50", SKYLAKE)
    script = f"""{BEGIN}
governor=cpuidle/current_governor
say "boot $(cat $governor)"
{teo.replace("teo", "menu")}; say "governor $(cat $governor)"
{teo} 2>/dev/null; say "teo $? $(cat $governor)"
echo {haltpoll} >$governor 2>/dev/null; say "haltpoll $? $(cat $governor)"
for f in {PM_QOS}; do echo 10 > $f; done
try limit true
for f in {PM_QOS}; do echo 0 > $f; done
try none true
{_line("busy-poll:usecs=50", SKYLAKE)} >/dev/null
say "busy $(cat /proc/sys/net/core/busy_poll) $(cat /proc/sys/net/core/busy_read)"
{coalesce} 2>/dev/null; say "coalesce $? $(ethtool -c eth0 | grep rx-usecs:)"
{_line("coalesce-adaptive", SKYLAKE)} 2>/dev/null; say "adaptive $?"
say over
"""
    told = idle_guest.run(tmp_path, script, SKYLAKE, "cpuidle.governor=ladder")
    parted = (line.partition(" ") for line in told if "|" not in line)
    facts = {name: value for name, _, value in parted}
    assert facts["boot"] == "ladder"
    assert facts["governor"] == "menu"
    # Debian's kernels have no teo; haltpoll registers in guests of KVM alone.
    assert facts["teo"] == "1 menu"
    assert facts["haltpoll"] == "1 menu"
    assert facts["busy"] == "50 50"
    assert facts["coalesce"].split() == ["0", "rx-usecs:", "50"]
    # The driver has no adaptive moderation, and ethtool rejects what asks for it.
    assert facts["adaptive"] == "1"
    deepest: dict[str, int] = {}
    for line in told:
        if "|" in line:
            name, _, _, before, after = line.split("|")
            deepest[name] = int(after.split()[3]) - int(before.split()[3])
    assert deepest["limit"] == 0
    assert deepest["none"] > 0


def test_kernel_that_boots_with_idle_poll_uses_no_idle_state(tmp_path: Path):
    script = """
say "driver $(cat /sys/devices/system/cpu/cpuidle/current_driver)"
say "states $(ls -d /sys/devices/system/cpu/cpu0/cpuidle/state* 2>/dev/null | wc -l)"
say over
"""
    told = idle_guest.run(tmp_path, script, SKYLAKE, "idle=poll")
    assert "driver none" in told
    assert "states 0" in told
