"""Counters of idle time: what sysfs, turbostat, powertop and node_exporter tell, and do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conftest import Halfwink

from halfwink.advice.idle_counters import IdleCounters
from halfwink.advice.idle_readers import counters
from halfwink.errors import HalfwinkError

SYSFS = """\
/sys/devices/system/cpu/cpu0/cpuidle/state0/name:POLL
/sys/devices/system/cpu/cpu0/cpuidle/state0/usage:100
/sys/devices/system/cpu/cpu0/cpuidle/state0/time:1000
/sys/devices/system/cpu/cpu0/cpuidle/state0/above:0
/sys/devices/system/cpu/cpu0/cpuidle/state0/below:40
/sys/devices/system/cpu/cpu0/cpuidle/state1/name:C6
/sys/devices/system/cpu/cpu0/cpuidle/state1/usage:300
/sys/devices/system/cpu/cpu0/cpuidle/state1/time:99000
/sys/devices/system/cpu/cpu0/cpuidle/state1/above:90
/sys/devices/system/cpu/cpu0/cpuidle/state1/below:0
/sys/devices/system/cpu/cpu1/cpuidle/state1/usage:100
/sys/devices/system/cpu/cpu1/cpuidle/state1/time:100000
/sys/devices/system/cpu/cpu1/cpuidle/state1/above:10
/sys/devices/system/cpu/cpu1/cpuidle/state1/below:0
"""
TURBOSTAT = """\
Core\tCPU\tAvg_MHz\tBusy%\tPOLL\tC1\tC6\tPOLL+\tC1+\tC1-\tC6-\tPOLL%\tC1%\tC6%\tCPU%c6
-\t-\t100\t5.00\t10\t200\t400\t5\t50\t1\t300\t0.10\t20.00\t60.00\t55.00
0\t0\t100\t5.00\t5\t100\t100\t3\t25\t1\t100\t0.10\t20.00\t60.00\t55.00
1\t1\t100\t5.00\t5\t100\t300\t2\t25\t0\t200\t0.10\t20.00\t60.00\t55.00
"""


def test_counters_say_how_often_the_kernel_was_wrong(halfwink: Halfwink, tmp_path: Path):
    file = tmp_path / "sysfs.txt"
    file.write_text(SYSFS)
    done = halfwink("idle", str(file))
    assert done.status == 0
    assert done.err == "read as cpuidle counters of sysfs, 2 CPUs; no idle times\n"
    # 100 of 500 stays were too deep, all of them in C6, and 40 too shallow.
    text = " ".join(done.out.split())
    assert "too deep a state in 20.0 % of 500 stays, too shallow a one in 8.0 %" in text
    assert "most of that is C6, wrong in 25 % of its stays" in text
    assert "C6 has 99.5 % of the idle time, 49" in text
    counters = halfwink("idle", str(file), "--json").rows("counters")
    assert [row["seconds"] for row in counters] == pytest.approx([1e-3, 0.199])
    assert [row["rejected"] for row in counters] == [None, None]
    file.write_text(TURBOSTAT)
    done = halfwink("idle", str(file), "--json")
    rows = {row["state"]: row for row in done.rows("counters")}
    assert (rows["C6"]["stays"], rows["C6"]["deep"], rows["C6"]["shallow"]) == (400, 300, 0)
    assert (rows["C1"]["stays"], rows["C1"]["deep"], rows["C1"]["shallow"]) == (200, 1, 50)
    assert rows["C6"]["share_pct"] == pytest.approx(100 * 60 / 80.1)


#: What turbostat 2023.11 prints of two cores with two threads each: the columns of a core stand in
#: the row of its first thread, those of the package in the row of its first core.
TURBOSTAT_THREADS = """\
Core\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tC1\tC6\tC1%\tC6%\tCPU%c1\tCPU%c6\tCoreTmp\tPkgWatt
-\t-\t100\t5.00\t2000\t100\t1000\t10.00\t85.00\t30.00\t65.00\t41\t50.00
0\t0\t100\t5.00\t2000\t10\t100\t10.00\t85.00\t30.00\t65.00\t41\t50.00
0\t2\t100\t5.00\t2000\t20\t200\t10.00\t85.00\t30.00
1\t1\t100\t5.00\t2000\t30\t300\t10.00\t85.00\t30.00\t65.00\t40
1\t3\t100\t5.00\t2000\t40\t400\t10.00\t85.00\t30.00
"""


def test_turbostat_rows_without_columns_of_core_and_package_count():
    found = read(TURBOSTAT_THREADS)
    assert found.cpus == 4
    assert [(state.name, state.stays) for state in found.states] == [("C1", 100), ("C6", 1000)]


def test_turbostat_without_cpus_or_idle_states_is_refused():
    rows = [line.split("\t") for line in TURBOSTAT_THREADS.splitlines()]
    summary = "\n".join("\t".join(row[2:]) for row in rows[:2])
    with pytest.raises(HalfwinkError, match="no CPUs: run it without --Summary"):
        counters(summary, "file")
    busy = "\n".join("\t".join(row[:5]) for row in rows)
    with pytest.raises(HalfwinkError, match="no idle states"):
        counters(busy, "file")


def test_sysfs_under_titles_of_head_and_tail_is_read():
    lines = [line.rpartition(":") for line in SYSFS.splitlines()]
    titled = "\n".join(f"==> {name} <==\n{value}\n" for name, _, value in lines)
    assert read(titled) == read(SYSFS)


@pytest.mark.parametrize("lost", ["usage", "time"])
def test_sysfs_without_stays_or_times_is_refused(lost: str):
    kept = "\n".join(line for line in SYSFS.splitlines() if f"/{lost}:" not in line)
    with pytest.raises(HalfwinkError, match=f"no file `{lost}`: `grep"):
        counters(kept, "file")


#: A report of powertop 2.14 (Debian 12) of a virtual machine of two CPUs, without its other parts.
POWERTOP = """\
____________________________________________________________________
 *  *  *   System Information   *  *  *

PowerTOP Version;2.14 ran at Sat Nov 28 10:19:02 2026

CPU Information;2 AMD EPYC

____________________________________________________________________
 *  *  *   Processor Idle State Report   *  *  *

Package;0
POLL;  0.0%
haltpoll idle; 99.3%
;

CPU;0
POLL;  0.0%;   0.0 ms
haltpoll idle; 98.7%;  30.8 ms
CPU;1
POLL;  0.0%;   0.0 ms
haltpoll idle;100.0%; 142.8 ms
;;

____________________________________________________________________
 *  *  *   Processor Frequency Report   *  *  *

CPU 0
Idle; 100.0%
"""
#: What `report_display_cpu_cstates` of powertop 2.16 (src/cpu/cpu.cpp and
#: src/report/report-formatter-csv.cpp) writes of a package of two cores with two threads each.
POWERTOP_XEON = """\
PowerTOP

# System Information
PowerTOP Version,2.16 ran at Sat Nov 28 10:19:02 2026

# Processor Idle State Report

Package,0
C2 (pc2),  7.5%
C6 (pc6), 12.5%

,Core 0
C6 (cc6), 50.0%
,Core 1
C6 (cc6), 60.0%

,CPU,0,CPU,2
C0 active, 20.0%,, 10.0%,
POLL,  0.0%,   0.0 ms,  0.0%,   0.0 ms
C1, 20.0%,   0.5 ms, 10.0%,   1.0 ms
C6, 60.0%,   2.0 ms, 80.0%,   4.0 ms
,CPU,1,CPU,3
C0 active, 50.0%,, 70.0%,
POLL,  0.0%,   0.0 ms,  0.0%,   0.0 ms
C1, 10.0%,   0.5 ms, 10.0%,   0.5 ms
C6, 40.0%,   1.0 ms, 20.0%,   1.0 ms

# Processor Frequency Report
"""
#: Modes of the collector `cpu` of node_exporter (collector/cpu_linux.go, the same in 1.5 and 1.10).
MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")


def scrape(*cpus: dict[str, float]) -> str:
    """The text of node_exporter 1.5 (Debian 12), with seconds by mode."""
    lines = [
        "# HELP node_cpu_guest_seconds_total Seconds the CPUs spent in guests (VMs) for each mode.",
        "# TYPE node_cpu_guest_seconds_total counter",
        'node_cpu_guest_seconds_total{cpu="0",mode="user"} 3600',
        "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.",
        "# TYPE node_cpu_seconds_total counter",
    ]
    for number, modes in enumerate(cpus):
        lines += [
            f'node_cpu_seconds_total{{cpu="{number}",mode="{mode}"}} {modes.get(mode, 0):g}'
            for mode in MODES
        ]
    lines.append('node_scrape_collector_success{collector="cpu"} 1')
    return "\n".join(lines) + "\n"


BEFORE = scrape({"idle": 900, "user": 100}, {"idle": 500, "iowait": 10, "user": 490})
AFTER = scrape({"idle": 960, "user": 140}, {"idle": 578, "iowait": 12, "user": 510})


def read(text: str) -> IdleCounters:
    found = counters(text, "file")
    assert found is not None
    return found


def said(found: IdleCounters) -> str:
    return " ".join(found.sentences())


def test_powertop_of_a_guest_by_hand():
    found = read(POWERTOP)
    assert (found.format, found.cpus) == ("powertop", 2)
    assert found.idle_pct == {"0": 98.7, "1": 100}
    assert found.package_pct is None, "no hardware counted it"
    poll, halt = found.states
    assert (poll.name, poll.stays, poll.stay_us) == ("POLL", None, None)
    # Stays are as many as time over mean stay: 98.7 / 30.8 and 100 / 142.8 of a unit.
    assert halt.stay_us == pytest.approx(1e3 * 198.7 / (98.7 / 30.8 + 100 / 142.8))
    assert "all are idle at once in 98.7 % of the time" in said(found)
    assert said(found).count("powertop does not tell how often a state was chosen") == 1


def test_powertop_of_threads_and_package_states_by_hand():
    found = read(POWERTOP_XEON)
    assert found.idle_pct == {"0": 80, "2": 90, "1": 50, "3": 30}
    assert [state.name for state in found.states] == ["POLL", "C1", "C6"]
    assert [state.time for state in found.states] == [0, 50, 200]
    stays = 20 / 0.5 + 10 / 1 + 10 / 0.5 + 10 / 0.5
    assert found.states[1].stay_us == pytest.approx(1e3 * 50 / stays)
    assert found.package_pct == 20
    assert found.all_idle_pct() == (0, 30)
    text = said(found)
    assert "4 CPUs are idle 62.5 % of the time in the mean, CPU 3 the least with 30.0 %" in text
    assert "all are idle at once in 0.0 to 30.0 % of the time" in text
    assert "C6 has 80.0 % of the idle time" in text
    assert "Packages slept 20.0 % of the time." in text


def test_stays_too_short_for_powertop_have_no_mean():
    found = read(POWERTOP.replace("  30.8 ms", "   0.0 ms"))
    assert found.states[1].stay_us is None


def test_scrapes_of_node_exporter_by_hand():
    since_start = read(BEFORE)
    assert since_start.format == "node_exporter, one scrape"
    assert since_start.idle_pct == {"0": 90, "1": 51}
    assert "put a second one behind it" in said(since_start)
    between = read(BEFORE + AFTER)
    assert between.format == "node_exporter, between scrapes"
    assert between.idle_pct == {"0": 60, "1": 80}
    # Busy 40 and 20 %: at least 40 % are idle of both.
    assert between.all_idle_pct() == (40, 60)
    assert between.states[0].seconds == 60 + 80
    assert "put a second one" not in said(between)
    assert said(between).count("it does not tell which idle states were chosen") == 1
    # Before version 0.16.
    old = BEFORE.replace("node_cpu_seconds_total", "node_cpu").replace('cpu="', 'cpu="cpu')
    assert read(old).idle_pct == since_start.idle_pct


def test_counters_of_node_exporter_that_step_back_or_are_cut():
    # CPU 1 was off and on again: its counters begin anew.
    again = scrape({"idle": 960, "user": 140}, {"idle": 5, "user": 1})
    found = read(BEFORE + again)
    assert found.idle_pct == {"0": 60}
    assert "CPUs left out, since their counters step back, as after a restart: 1." in found.notes
    # The second scrape ends within CPU 1.
    short = AFTER[: AFTER.index('cpu="1",mode="nice"')]
    found = read(BEFORE + short)
    assert (found.idle_pct, found.cpus) == ({"0": 60}, 1)
    assert "CPUs left out, since their counters are not whole: 1." in found.notes
    assert "The CPU is idle 60.0 % of the time." in found.sentences()
    # A value that is none is no growth.
    for value in ("NaN", "+Inf", "x", "-5"):
        found = read(
            BEFORE + AFTER.replace('cpu="1",mode="user"} 510', f'cpu="1",mode="user"}} {value}')
        )
        assert found.idle_pct == {"0": 60}, value
    with pytest.raises(HalfwinkError, match="file: read as node_exporter, and no CPU has whole"):
        read(BEFORE + BEFORE)
    with pytest.raises(HalfwinkError, match="no CPU has whole"):
        read('node_cpu_seconds_total{cpu="0",mode="user"} 5\n')


def test_two_snapshots_of_sysfs_are_told_apart():
    later = SYSFS.replace("state1/usage:300", "state1/usage:500")
    later = later.replace("time:99000", "time:149000").replace("above:90", "above:100")
    found = read(SYSFS + later)
    c6 = found.states[1]
    assert (c6.stays, c6.time, c6.deep, c6.stay_us) == (200, 50_000, 10, 250)
    # CPU 1 was restarted between them.
    stepped = later.replace("time:100000", "time:7")
    assert stepped != later
    found = read(SYSFS + stepped)
    assert found.cpus == 1
    assert found.notes == ("CPUs left out, since their counters step back: 1.",)
    with pytest.raises(HalfwinkError, match="the counters of every CPU step back"):
        read(SYSFS + stepped.replace("time:149000", "time:1"))


def test_report_without_cpus_is_one_line(halfwink: Halfwink, tmp_path: Path):
    file = tmp_path / "power.csv"
    file.write_text(POWERTOP[: POWERTOP.index("CPU;0")])
    done = halfwink("idle", str(file))
    assert done.status == 2
    assert done.complaint == (f"{file}: read as powertop, and its report of idle states has no CPU")


def test_reports_are_read_by_command(halfwink: Halfwink, tmp_path: Path):
    file = tmp_path / "report.csv"
    file.write_text(POWERTOP_XEON)
    done = halfwink("idle", str(file))
    assert done.err == "read as powertop, 4 CPUs; no idle times\n"
    assert done.out.splitlines()[-1].split() == ["C6", "-", "80.0", "1.82", "ms", "-", "-"]
    facts = halfwink("idle", str(file), "--json").json()["facts"]
    assert (facts["idle_pct"], facts["package_asleep_pct"]) == (62.5, 20)
    assert (facts["all_idle_least_pct"], facts["all_idle_most_pct"]) == (0, 30)
    file.write_text(BEFORE + AFTER)
    rows = halfwink("idle", str(file), "--json").rows("counters")
    assert [(row["stays"], row["seconds"], row["stay_us"]) for row in rows] == [(None, 140, None)]


@pytest.mark.parametrize("text", [SYSFS, TURBOSTAT, POWERTOP, POWERTOP_XEON, BEFORE + AFTER])
def test_damaged_counters_never_end_in_a_traceback(text: str):
    chance = random.Random(41)
    for _ in range(300):
        damaged = list(text[: chance.randrange(1, len(text))])
        for _ in range(chance.randrange(4)):
            damaged[chance.randrange(len(damaged))] = chance.choice('0;,%\n{}"-e9 \x00')
        try:
            found = counters("".join(damaged), "file")
        except HalfwinkError:
            continue
        if found is not None:
            assert found.sentences()
            assert all(0 <= share <= 100 for share in found.idle_pct.values())
