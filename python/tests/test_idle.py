"""Recorded idle times: what each idle policy would have made of them, and what bad files get."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest
from conftest import Halfwink
from policy_twins import InC1

import halfwink as hw
from halfwink.errors import HalfwinkError

ON = "golden-cove-56"
EXIT = 2**32 - 1
#: Stand below the policies.
LAST = ["recorded", "best"]


def event(us: float, cpu: int, state: int) -> str:
    """A line of perf script."""
    seconds, ns = divmod(round(us * 1e3), 10**9)
    return (
        f"         swapper     0 [{cpu:03}] {65932 + seconds}.{ns:09}:      power:cpu_idle: "
        f"state={state} cpu_id={cpu}\n"
    )


def gaps_of(kind: str, count: int) -> list[tuple[float, float]]:
    """Begin and end of gaps in microseconds, after 30 us of work in the mean."""
    mean = {"busy": 50.0, "quiet": 2000.0}[kind]
    chance, gaps, now = random.Random(kind), [], 10.0
    for _ in range(count):
        now += chance.expovariate(1 / 30)
        length = max(0.5, chance.expovariate(1 / mean))
        gaps.append((now, now + length))
        now += length
    return gaps


def recording(path: Path, kind: str, state: int = 3, count: int = 400) -> Path:
    lines = [event(gap[0], 0, state) + event(gap[1], 0, EXIT) for gap in gaps_of(kind, count)]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    return recording(tmp_path / "busy.txt", "busy")


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    return recording(tmp_path / "quiet.txt", "quiet")


def test_energy_of_states_by_hand(tmp_path: Path):
    file = tmp_path / "gaps.csv"
    file.write_text("cpu,begin_us,end_us\n0,100,150\n0,200,1200\n")
    # C1 takes 1.44 W, wakes in 0.5 to 1 us at 4 W; polling takes 3.2 W and wakes at once.
    found = hw.idle(file, machine=ON, techniques=["c1", "always-on"])
    c1, polls = found.row("c1"), found.row("always-on")
    asleep = 1.44 * 1050e-6
    assert asleep + 2 * 4 * 0.5e-6 <= c1["energy_j"] <= asleep + 2 * 4 * 1e-6
    assert polls["energy_j"] == pytest.approx(3.2 * 1050e-6)
    assert polls["latency_max_us"] == 0
    # Gaps of 50 us are for C1E, of 1 ms for C6: C1 is too shallow in both.
    assert (c1["right_pct"], c1["shallow_pct"], c1["deep_pct"]) == (0, 100, 0)
    assert found.recording["idle_pct"] == pytest.approx(100 * 1050 / 1100)


def test_class_of_ones_own_rests_as_the_native_policy_does(busy: Path):
    found = hw.idle(busy, machine=ON, techniques=["c1", InC1])
    own, native = found.row("InC1()"), found.row("c1")
    assert {name for name in own if own[name] != native[name]} == {"technique"}


def test_best_is_a_bound_and_menu_without_a_limit_is_the_last_row(busy: Path, quiet: Path):
    for file in (busy, quiet):
        found = hw.idle(file, machine=ON)
        best = found.row("best")["energy_j"]
        real = [r for r in found.rows if r["technique"] in ("menu", "teo", "c1", "c1e", "haltpoll")]
        assert all(row["energy_j"] >= best for row in real)
        lost = [row["energy_j"] - best for row in real]
        told = [row["shallow_j"] + row["deep_j"] for row in real]
        # Mistakes cost what stands between a policy and the best states; more only by the idle time
        # in which its CPU was still waking.
        assert all(0 < b < 2 * a for a, b in zip(lost, told, strict=True))
        assert found.limits[-1]["limit_us"] is None
        assert found.limits[-1]["energy_j"] == found.row("menu")["energy_j"]
        assert found.limits[0]["idle_w"] == pytest.approx(3.2), "polling"


def test_short_gaps_ask_for_a_limit_and_long_ones_for_none(tmp_path: Path, quiet: Path):
    busy = recording(tmp_path / "long.txt", "busy", count=14_000)
    short, long = hw.idle(busy, machine=ON), hw.idle(quiet, machine=ON)
    found = short.limit()
    assert found is not None
    assert found["limit_us"] == 2
    assert found["latency_p99_us"] < short.limits[-1]["latency_p99_us"]
    assert any(" set a latency limit of 2 us: it saves" in line for line in short.sentences())
    assert any("echo 2 > $f" in line for line in short.sentences())
    assert "say little" in long.sentences()[1], "0.8 s"
    assert long.limit() is None
    assert any(
        line.startswith("Whether a latency limit pays hangs on") for line in long.sentences()
    )
    # A goal that only shallow states keep.
    strict = hw.idle(quiet, machine=ON, p99_us=5)
    assert strict.limit() is not None
    assert strict.limit()["limit_us"] == 2  # type: ignore[index]
    assert strict.row(strict.best_of_today())["latency_p99_us"] <= 5
    # A goal that only polling keeps is no reason to poll.
    never = hw.idle(quiet, machine=ON, p99_us=0.2)
    assert never.limit() is None
    assert any("No latency limit but polling keeps a p99 of 0.2 us" in s for s in never.sentences())


def test_choices_of_the_kernel_stand_beside(busy: Path):
    found = hw.idle(busy, machine=ON, techniques=["teo"])
    assert found.recording["chosen"] == [{"number": 3, "name": "c6", "gaps": 400}]
    recorded = found.row("recorded")
    assert recorded["agrees_pct"] == 100
    assert recorded["deep_pct"] > 90
    assert recorded["energy_j"] > found.row("menu")["energy_j"]
    other = hw.idle(busy, machine=ON, techniques=["teo"], states=["poll", "c1"])
    assert other.recording["chosen"][0]["name"] is None
    assert all(row["technique"] != "recorded" for row in other.rows)
    assert any("name them by --states" in line for line in other.sentences())


def test_a_busy_cpu_keeps_the_package_awake_and_rows_have_one_base(tmp_path: Path, busy: Path):
    switch = "perf 7 [001] 65932.0005: sched:sched_switch: prev_comm=a prev_pid=7 ==> next_pid=8\n"
    busy.write_text(switch + busy.read_text())
    found = hw.idle(busy, machine=ON, techniques=["pc1a"])
    assert found.recording["cpus"] == 2
    assert found.row("pc1a")["asleep_pct"] == 0
    for row in found.rows:
        known = row["right_pct"] + row["deep_pct"] + row["shallow_pct"]
        assert known + 100 * row["swallowed"] / row["gaps"] == pytest.approx(100)
    idle_s = 2 * found.recording["length_s"] * found.recording["idle_pct"] / 100
    assert [r["idle_w"] for r in found.rows] == pytest.approx(
        [r["energy_j"] / idle_s for r in found.rows]
    )


def test_more_cpus_than_cores_are_said_to_be_threads(busy: Path):
    few = {"server.dies": "1", "server.cores": "1", "server.sockets": "1"}
    busy.write_text(busy.read_text() + event(9e5, 1, 1) + event(9e5 + 5, 1, EXIT))
    found = hw.idle(busy, machine=ON, techniques=["teo"], set=few)
    assert "2 CPUs were recorded and the server has 1 cores" in found.sentences()[-1]


def test_package_sleeps_only_while_all_cpus_are_idle(tmp_path: Path):
    file = tmp_path / "gaps.csv"
    file.write_text("cpu,begin_us,end_us\n0,0,400\n1,100,500\n0,800,900\n1,900,1000\n")
    found = hw.idle(file, machine=ON, techniques=["pc1a"])
    assert found.recording["all_idle_pct"] == pytest.approx(30)
    assert found.row("pc1a")["asleep_pct"] == pytest.approx(30, abs=0.1)
    # 56 % of 80 W of uncore, 71 % of 5.5 W of memory.
    assert found.row("pc1a")["package_saved_j"] == pytest.approx(48.7e-6 * 300, rel=0.01)
    said = next(line for line in found.sentences() if line.startswith("Under pc1a"))
    assert "sleeps 30.0 % of the time, 14.6 W less, while idle cores take" in said
    # The other 54 cores would have to rest in C1 as well.
    more = 28 * (found.row("pc1a")["energy_j"] - found.row("menu")["energy_j"]) / 1e-3
    net = more - 14.6
    assert f": {abs(net):.3g} W less in all" in said
    assert found.row("menu")["asleep_pct"] is None


def test_command_says_the_answer_and_its_json_is_described(halfwink: Halfwink, busy: Path):
    done = halfwink("idle", str(busy), "-m", ON, "-t", "teo,c6a")
    assert done.status == 0
    assert done.err.startswith("read as perf script: idle times 400, CPUs 1, in ")
    lines = done.out.splitlines()
    assert lines[0].startswith(("Set teo: in these gaps it saves ", "Keep menu, Linux' default"))
    assert max(len(line) for line in lines if "pm_qos" not in line) <= 80
    table = lines[lines.index("") + 2 :]
    assert [line.split()[0] for line in table[: table.index("")]] == ["c6a", "teo", "menu", *LAST]
    document = halfwink("idle", str(busy), "-m", ON, "-t", "teo,c6a", "--json").json()
    assert {row["technique"] for row in document["tables"]["policies"]["rows"]} == {
        "menu",
        "teo",
        "c6a",
        "recorded",
        "best",
    }
    assert (
        document["verdict"][0]
        == hw.idle(busy, machine=ON, techniques=["teo", "c6a"]).sentences()[0]
    )


def test_policies_of_today_that_were_not_played_are_asked_for(quiet: Path):
    keep = "Keep menu, Linux' default: "
    said = {
        names: hw.idle(quiet, machine=ON, techniques=names.split(",")).sentences()[0]
        for names in ("c6a,haltpoll", "c6a", "teo,c1")
    }
    none = "in these gaps no other policy of today that was played saves 0.5 % of the idle energy"
    assert said["c6a,haltpoll"] == f"{keep}{none}: add teo."
    assert said["c6a"] == f"{keep}of what runs today only menu was played: add teo."
    assert "add teo" not in said["teo,c1"]


def test_table_has_a_row_for_each_policy(quiet: Path):
    found = hw.idle(quiet, machine=ON, techniques=["teo", "haltpoll"])
    table = found.table()
    assert table["technique"].to_list() == ["menu", "teo", "haltpoll", "recorded", "best"]
    assert {"saved_pct", "c6_s", "idle_w", "latency_p99_us"} <= set(table.columns)
    assert "<table" in found._repr_html_()


def test_packed_files_and_standard_input_are_read(halfwink: Halfwink, busy: Path):
    plain = hw.idle(busy, machine=ON, techniques=["teo"]).rows
    packed = busy.with_suffix(".txt.gz")
    packed.write_bytes(gzip.compress(busy.read_bytes()))
    assert hw.idle(packed, machine=ON, techniques=["teo"]).rows == plain


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-t", "tap"], "`tap`: in recorded gaps only idle policies and package states"),
        (["-t", "packing"], "`packing`: in recorded gaps only idle policies"),
        (["-t", "tao"], "unknown technique `tao`"),
        (["-t", "c1e", "-m", "zen4-96"], "c1e: zen4-96 has no state `c1e`"),
        (["--limit", "0.5us"], "no idle state of golden-cove-56 has an exit within 0.5 us"),
        (["--limit", "2us", "-t", "c6"], "c6: golden-cove-56 has no state `c6`"),
        (["--states", "poll,c9"], "--states: golden-cove-56 has no state `c9`"),
        (["--ignore", "all"], "ignore: `all`, expected bad-lines"),
        (["--p99", "soon"], "`soon`"),
    ],
)
def test_wrong_use_is_refused_with_its_reason(
    halfwink: Halfwink, busy: Path, words: list[str], complaint: str
):
    done = halfwink("idle", str(busy), *([] if "-m" in words else ["-m", ON]), *words)
    assert done.status == 2
    assert complaint in done.complaint


def test_files_that_are_no_recordings(halfwink: Halfwink, busy: Path, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cases = {
        tmp_path / "none.txt": None,
        fifo: None,
        tmp_path: None,
        tmp_path / "empty.txt": "",
        tmp_path / "words.txt": "hello\nworld\n",
        tmp_path / "half.csv": "cpu,begin_us\n0,5\n",
        tmp_path / "open.txt": event(1, 0, 1),
    }
    for file, text in cases.items():
        if text is not None:
            file.write_text(text)
        done = halfwink("idle", str(file), "-m", ON)
        assert done.status == 2, file
        assert len(done.complaint.splitlines()) == 1, file
        assert str(file) in done.complaint, file


def test_many_bad_lines_are_refused_and_can_be_left_out(busy: Path):
    bad = "<idle>-0 [000] d..1 123: power:cpu_idle: state=1 cpu_id=0\n"
    busy.write_text(busy.read_text() + 200 * bad)
    with pytest.raises(HalfwinkError, match=r"200 of 1000 lines are bad, .*; `--ignore bad-l"):
        hw.idle(busy, machine=ON)
    found = hw.idle(busy, machine=ON, ignore=["bad-lines"])
    assert found.recording["left_out"]["bad_lines"] == 200
    assert any("200 lines that cannot be read" in line for line in found.sentences())


def test_watch_is_recorded_and_read(halfwink: Halfwink, tmp_path: Path):
    words = ["live", "idle", "--record", "gaps.csv", "--json", "--seconds", "0.5"]
    done = halfwink(*words)
    if "switch records are not allowed" in done.err:
        pytest.skip("switch records are not allowed here")
    assert done.status == 0
    watched = done.rows("cpus")
    file = tmp_path / "gaps.csv"
    lines = file.read_text().splitlines()
    assert lines[0] == "cpu,begin_ns,end_ns"
    ended = [line.split(",") for line in lines[1:] if not line.startswith("#")]
    if not ended:
        pytest.skip("no CPU was idle: needs a quiet machine")
    found = hw.idle(file, machine=ON)
    # Idle times that had not ended are in the watch alone.
    idle_s = found.recording["idle_pct"] / 100 * found.recording["length_s"]
    idle_s *= found.recording["cpus"]
    assert idle_s <= sum(cpu["exact_s"] for cpu in watched) * 1.0001
    assert found.recording["gaps"] >= sum(cpu["periods"] for cpu in watched) - 2 * len(watched)


def test_record_that_cannot_be_written_is_one_line(halfwink: Halfwink, tmp_path: Path):
    done = halfwink("live", "idle", "--record", "no/such/folder.csv", "--seconds", "0.1")
    assert done.status == 2
    assert "no/such/folder.csv" in done.complaint
    done = halfwink("live", "idle", "--record", "x.csv", "--by", "spinners", "--seconds", "0.1")
    assert done.status == 2
    assert done.complaint.startswith("spinners cannot record; expected switch-records")
