"""Jobs by the thousand: small, prepared at once, run in any order, each kept by itself."""

from __future__ import annotations

import _thread
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from conftest import wait_until

from halfwink import HalfwinkError, Interrupted, Job, LocalExecutor, RunError
from halfwink.jobs import names, pairs, plan
from halfwink.results.results import collect
from halfwink.results.store import HOST, RunStore, Tables
from halfwink.runs import executors
from halfwink.runs.batch import Progress, run_jobs
from halfwink.runs.executors import executor_named, executor_of, run_job

MACHINE, WORKLOAD = "machine", "exponential@30"


def toy(technique: str = "always-on", **options: object) -> Job:
    """A job that takes a millisecond."""
    return Job("toy", WORKLOAD, MACHINE, technique, options={"requests": 100} | options)


def test_a_lone_text_is_one_name_and_values_are_a_mapping():
    assert names("tap") == ["tap"]
    assert names(["tap", "oracle"]) == ["tap", "oracle"]
    assert names(None) == []
    assert pairs({"a.b": 1.5, "c": True}) == (("a.b", "1.5"), ("c", "true"))
    # As the command line has it: without blanks, which stand between values.
    assert pairs({"machines": ["small", "big"], "at": (1, 2.5, True)}) == (
        ("machines", '["small","big"]'),
        ("at", "[1,2.5,true]"),
    )
    job = Job("chip", "nginx", "ev6-4", "tap", set={"gating.wake_up_ns": 16})
    assert job == Job("chip", "nginx", "ev6-4", "tap", set=(("gating.wake_up_ns", "16"),))


def test_a_job_is_small_and_travels():
    job = Job("chip", "nginx", "ev6-16", "tap:wake=last", {"gating.wake_up_ns": 16})
    data = pickle.dumps(job)
    assert len(data) <= 160
    assert pickle.loads(data) == job


def test_errors_keep_their_type_when_they_travel():
    for kind in (HalfwinkError, RunError, Interrupted):
        assert kind.__module__ == "halfwink._core"
        again = pickle.loads(pickle.dumps(kind("one line")))
        assert (type(again), str(again)) == (kind, "one line")


def test_a_job_runs_in_another_process_and_its_error_comes_back():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        there = pool.submit(run_job, toy()).result()
        wrong = pool.submit(run_job, Job("toy", WORKLOAD, MACHINE, "idle-gat"))
        with pytest.raises(HalfwinkError, match="did you mean `idle-gate`"):
            wrong.result()
    assert _result(there) == _result(run_job(toy()))


def _result(tables: Tables) -> str:
    return json.dumps({name: columns for name, columns in tables.items() if name != HOST})


def test_equal_jobs_give_equal_bytes_and_host_facts_stand_apart(tmp_path: Path):
    jobs = [toy(), toy("idle-gate")]
    for folder in ("one", "two"):
        run_jobs(jobs, RunStore(tmp_path / folder))
    one, two = ({p.name: p for p in (tmp_path / f).glob("*.json")} for f in ("one", "two"))
    assert len(one) == 2
    assert one.keys() == two.keys()
    for name, path in one.items():
        assert path.read_bytes() == two[name].read_bytes()
        assert HOST not in json.loads(path.read_text())["tables"]
    taken = RunStore(tmp_path / "one").hosts()
    assert {f"{key}.json" for key in taken} == set(one)
    assert all({c[0]: c[2] for c in columns}["host_s"][0] > 0 for columns in taken.values())


def test_equal_jobs_run_once_and_results_keep_the_order(tmp_path: Path):
    jobs = [toy(t) for t in ("idle-gate", "always-on", "idle-gate")]
    store = RunStore(tmp_path)
    planned = run_jobs(jobs, store, executor=LocalExecutor(2))
    results = collect(jobs, planned, store, "always-on")
    assert results.runs["technique"].to_list() == ["idle-gate", "always-on", "idle-gate"]
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert len((tmp_path / "host.jsonl").read_text().splitlines()) == 2


def test_a_result_that_was_cut_off_is_run_again(tmp_path: Path):
    store = RunStore(tmp_path)
    planned = run_jobs([toy()], store)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run_jobs([toy()], store)
    assert path.read_bytes() == whole
    path.write_bytes(b"{" + whole[len(whole) // 2 :])
    with pytest.raises(RunError, match="not a whole result"):
        collect([toy()], planned, store, "always-on")


@pytest.mark.parametrize("where", [0, 12, 30, 100, -40, -1])
def test_a_result_with_a_flipped_digit_is_computed_again_and_said(
    where: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    store = RunStore(tmp_path)
    run_jobs([toy()], store)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[where] ^= 1
    path.write_bytes(changed)
    planned = run_jobs([toy()], store)
    assert path.read_bytes() == whole
    assert f"{path}: is not what was written; computed again" in caplog.text
    caplog.clear()
    run_jobs([toy()], store)
    assert not caplog.text
    path.write_bytes(changed)
    with pytest.raises(RunError, match=re.escape(str(path))):
        collect([toy()], planned, store, "always-on")


def test_what_is_there_is_not_run_again_unless_fresh(tmp_path: Path):
    class Counting(LocalExecutor):
        ran = 0

        def run(self, shares, progress):
            for number, tables in super().run(shares, progress):
                Counting.ran += 1
                yield number, tables

    jobs, store = [toy(seed=n) for n in range(5)], RunStore(tmp_path)
    for fresh, ran in ((False, 5), (False, 5), (True, 10)):
        run_jobs(jobs, store, executor=Counting(2), fresh=fresh)
        assert Counting.ran == ran


def test_jobs_of_one_pace_share_a_run_and_have_the_results_of_their_own(tmp_path: Path):
    shared: list[list[str]] = []

    class Seeing(LocalExecutor):
        def run(self, shares, progress):
            shares = list(shares)
            shared.extend([job.technique for _, job in share] for share in shares)
            yield from super().run(shares, progress)

    techniques = ("always-on", "mapg-counter", "idle-gate", "tap", "oracle")
    limit = {"instructions": 20_000}
    jobs = [Job("chip", "gzip", "in-order-1", t, options=limit) for t in techniques]
    planned = run_jobs(jobs, RunStore(tmp_path / "together"), executor=Seeing(1))
    assert shared == [["always-on", "idle-gate", "tap", "oracle"], ["mapg-counter"]]
    for job in jobs:
        run_jobs([job], RunStore(tmp_path / "alone"))
    for plan_of in planned:
        one, two = (tmp_path / f / f"{plan_of.key}.json" for f in ("together", "alone"))
        assert one.read_bytes() == two.read_bytes()


def test_progress_is_of_jobs_and_of_the_worlds_own_work(tmp_path: Path):
    told: list[Progress] = []
    jobs = [toy(seed=n) for n in range(20)]
    run_jobs(jobs[:5], RunStore(tmp_path))
    run_jobs(jobs, RunStore(tmp_path), progress=told.append)
    assert {p.unit for p in told} == {"requests"}
    assert (told[0].jobs_done, told[0].jobs) == (5, 20)
    assert (told[0].work_done, told[0].work) == (0, 15 * 100)
    assert told[-1].jobs_done == 20
    assert told[-1].work_done == told[-1].work
    counts = [p.jobs_done for p in told]
    assert counts == sorted(counts)


def test_closing_an_executor_stops_what_runs(tmp_path: Path):
    endless = toy(requests=10**12)
    runs = LocalExecutor(2).run(
        [[(n, job)] for n, job in enumerate([toy(), endless, endless])], lambda _: None
    )
    number, _ = next(runs)
    assert number == 0
    # Comes back only when the others have stopped.
    runs.close()


def test_an_interrupt_at_any_time_ends_a_batch():
    # Inside `concurrent.futures.wait` it left locks taken, and the workers waited for ever.
    program = Path(__file__).parent / "programs" / "interrupted_batches.py"
    command = [sys.executable, str(program), "400", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_an_interrupt_while_a_batch_ends_leaves_no_worker_behind(monkeypatch: pytest.MonkeyPatch):
    # One that came there left workers without the news that there is nothing to come.
    before, left = _thread._count(), [1]

    class Interrupted(SimpleQueue[object]):
        def put(self, item: object, block: bool = True, timeout: float | None = None):
            if item is None and sys._getframe(1).f_code.co_name == "stop" and left:
                left.pop()
                raise KeyboardInterrupt
            super().put(item, block, timeout)

    monkeypatch.setattr(executors, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(LocalExecutor(2).run([], lambda _: None))
    assert not left
    wait_until(lambda: _thread._count() == before)


def test_a_job_that_fails_ends_the_batch_and_keeps_what_was_finished(tmp_path: Path):
    class Failing(LocalExecutor):
        def run(self, shares, progress):
            for number, tables in super().run(shares, progress):
                yield number, tables
                raise RunError("the second one failed")

    with pytest.raises(RunError, match="the second one failed"):
        run_jobs([toy(seed=1), toy(seed=2)], RunStore(tmp_path), executor=Failing(1))
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_an_executor_is_named_or_said_to_be_missing():
    assert executor_named("local:3") == LocalExecutor(3)
    for wrong in ("cloud://x", "local:0", "local:", "dask:", "dask://"):
        with pytest.raises(HalfwinkError, match=f"unknown executor `{wrong}`; expected local"):
            executor_named(wrong)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2"])
def test_workers_are_a_whole_number(workers: Any):
    with pytest.raises(HalfwinkError, match=r"workers .*: expected a whole number of 1 or more"):
        LocalExecutor(workers)


@pytest.mark.parametrize("given", [LocalExecutor, ProcessPoolExecutor])
def test_a_class_is_no_executor(given: Any):
    with pytest.raises(HalfwinkError, match=f"executor {given.__name__} is a class; expected"):
        executor_of(given)


def test_without_dask_one_line_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(HalfwinkError, match="dask is not installed; run: pip install"):
        executor_named("dask://localhost:8786")


#: In a process of its own, whose limits are its own.
MANY = """
import json, resource, sys, tempfile
from pathlib import Path
from halfwink.runs.batch import run_jobs
from halfwink.jobs import Job, plan
from halfwink.library import library
from halfwink.results.results import collect
from halfwink.results.store import RunStore

def most_mib():
    # Of this program alone: ru_maxrss begins with what the process that started it had.
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

descriptors, toys, traced = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
traces = library().names("workloads", "hwt")
played = [
    Job("chip", traces[n % len(traces)], "ev6-4", "tap", {"gating.wake_up_ns": n})
    for n in range(traced)
]
before, least_mib = resource.getrusage(resource.RUSAGE_SELF), most_mib()
keys = {job.key for job in plan(played)}
after, prepared_mib = resource.getrusage(resource.RUSAGE_SELF), most_mib() - least_mib
jobs = [
    Job("toy", "exponential@30", "machine", technique, {"seed": seed}, {"requests": 10})
    for seed in range(toys // 2)
    for technique in ("always-on", "idle-gate")
]
with tempfile.TemporaryDirectory() as folder:
    store = RunStore(Path(folder))
    results = collect(jobs, run_jobs(jobs, store), store, "always-on")
    files = len(list(Path(folder).iterdir()))
print(json.dumps({
    "keys": len(keys),
    "runs": results.runs.height,
    "files": files,
    "prepare_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    "prepared_mib": prepared_mib,
    "mib": most_mib(),
}))
"""


def many(descriptors: int, toys: int, traced: int) -> dict[str, float]:
    words = [sys.executable, "-c", MANY, *map(str, (descriptors, toys, traced))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_thousand_jobs_need_few_descriptors():
    found = many(64, 2_000, 2_000)
    assert (found["runs"], found["keys"]) == (2_000, 2_000)
    # Packs, and what the host took.
    assert found["files"] == 3
    assert found["mib"] < 500


@pytest.mark.full("long")
def test_ten_thousand_jobs_on_all_traces():
    found = many(64, 10_000, 10_000)
    assert (found["runs"], found["keys"]) == (10_000, 10_000)
    assert found["files"] == 11
    assert found["mib"] < 500
    # Prepared jobs are not kept.
    assert found["prepared_mib"] < 100


def test_keys_are_of_content(tmp_path: Path):
    copy = tmp_path / "mine.toml"
    copy.write_text((library_root() / "machines/ev6.toml").read_text())
    first, second = plan(
        [
            Job("chip", "alu", machine, "tap", {}, {"instructions": 10})
            for machine in ("ev6", str(copy))
        ]
    )
    assert first.key == second.key
    other = Job("chip", "alu", "ev6", "tap", {"gating.wake_up_ns": 3}, {"instructions": 10})
    assert plan([other])[0].key != first.key


def library_root() -> Path:
    from halfwink.library import root

    return root()
