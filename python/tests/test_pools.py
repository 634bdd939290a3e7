"""Jobs in other processes: pools with `submit`, and a Dask cluster whose parts are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed
import pytest
from conftest import quiet, wait_until

from halfwink import Dask, HalfwinkError, Job, LocalExecutor, Pool, RunError
from halfwink.results.store import RunStore
from halfwink.runs import studies
from halfwink.runs.batch import run_jobs
from halfwink.runs.executors import executor_of

SPAWN = multiprocessing.get_context("spawn")
ENDLESS = 10**12
#: Twenty jobs of about a hundred milliseconds: long enough to be killed in mid-sweep.
STUDY = """
schema = 1
world = "toy"
title = "many"
workloads = ["exponential@30"]
machines = ["machine"]
techniques = ["always-on", "idle-gate"]

[options]
requests = 2_000_000

[sweep]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""


def toy(**options: object) -> Job:
    return Job("toy", "exponential@30", "machine", "always-on", options={"requests": 100} | options)


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def until_kept(runs: Path, count: int) -> None:
    """Until so many results are there."""
    wait_until(lambda: len(kept(runs)) >= count, 600)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What twelve jobs find here."""
    folder = tmp_path_factory.mktemp("here")
    run_jobs(TWELVE, RunStore(folder))
    return kept(folder)


TWELVE = [toy(seed=n) for n in range(12)]


@pytest.mark.parametrize(
    "pool", [lambda: ProcessPoolExecutor(2, mp_context=SPAWN), lambda: ThreadPoolExecutor(2)]
)
def test_any_pool_with_submit_gives_the_same_bytes(
    pool: Callable[[], Any], here: dict[str, bytes], tmp_path: Path
):
    with pool() as workers:
        run_jobs(TWELVE, RunStore(tmp_path), executor=workers)
        assert kept(tmp_path) == here
        # It stays the caller's.
        assert workers.submit(len, "abc").result() == 3


def test_what_is_no_executor_is_said():
    ours = LocalExecutor(1)
    assert executor_of(ours) is ours
    assert isinstance(executor_of(None), LocalExecutor)
    with pytest.raises(HalfwinkError, match="executor int: expected an object with submit"):
        executor_of(3)  # type: ignore[arg-type]


def begun(pool: Pool) -> None:
    """Plays two endless jobs beside a short one until they tell how far they are, and stops."""
    said: list[int] = []

    def progress(done: int) -> None:
        said.append(done)
        if done > 0:
            raise KeyboardInterrupt

    runs = pool.run([[(0, toy())], [(1, toy(requests=ENDLESS, seed=2))]], progress)
    with pytest.raises(KeyboardInterrupt):
        list(runs)
    assert said[-1] > 0


def test_a_process_pool_tells_how_far_it_is_and_stops_what_it_has_begun(tmp_path: Path):
    with ProcessPoolExecutor(1, mp_context=SPAWN) as workers:
        begun(Pool(workers))
        # It would wait for ever if the job were still played.
        assert workers.submit(os.getpid).result() != os.getpid()


def test_a_pool_whose_process_dies_says_so_and_keeps_what_was_finished(tmp_path: Path):
    with ProcessPoolExecutor(1, mp_context=SPAWN) as workers:
        pid = workers.submit(os.getpid).result()

        def progress(told: Any) -> None:
            if told.jobs_done == 2:
                os.kill(pid, signal.SIGKILL)

        jobs = [toy(seed=1), toy(seed=2), toy(requests=ENDLESS)]
        with pytest.raises(RunError, match=r"BrokenProcessPool.*the same command goes on"):
            run_jobs(jobs, RunStore(tmp_path), executor=workers, progress=progress)
    assert len(kept(tmp_path)) == 2


def test_a_pool_that_was_shut_down_says_so_in_one_line(tmp_path: Path):
    workers = ThreadPoolExecutor(1)
    workers.shutdown()
    with pytest.raises(RunError) as error:
        run_jobs(TWELVE, RunStore(tmp_path), executor=workers)
    line = str(error.value)
    assert "cannot schedule new futures after shutdown; finished runs are kept" in line
    assert "\n" not in line


class Broken(ThreadPoolExecutor):
    """Workers that die before they begin."""

    def submit(self, function: Any, *more: Any) -> Any:
        del function, more
        future: Future[None] = Future()
        future.set_exception(BrokenProcessPool("terminated abruptly"))
        return future


def test_a_program_that_is_no_file_is_why_processes_do_not_start(monkeypatch: pytest.MonkeyPatch):
    def said() -> str:
        with pytest.raises(RunError) as error:
            list(Pool(Broken(1)).run([[(0, toy())]], lambda _: None))
        return str(error.value)

    assert said().startswith("executor Broken: BrokenProcessPool: terminated abruptly; ")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    assert "again, and <stdin> is no file; save it as one; finished runs are kept" in said()


def test_a_cluster_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def fail(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "Client", fail)
    with pytest.raises(HalfwinkError) as error:
        Dask()
    said = "executor dask: Nanny failed to start. A program that starts a cluster is a file, and"
    assert str(error.value) == f'{said} does so under `if __name__ == "__main__":`'


class Elsewhere(ThreadPoolExecutor):
    """Workers that find another job under the same names, as other versions do."""

    def submit(self, function: Any, jobs: list[Job], *more: Any) -> Any:
        return super().submit(function, [toy(seed=99) for _ in jobs], *more)


def test_results_of_other_code_or_files_are_refused(tmp_path: Path):
    with Elsewhere(1) as workers, pytest.raises(RunError, match="is not what it is here"):
        run_jobs([toy(seed=1)], RunStore(tmp_path), executor=workers)
    assert not kept(tmp_path)


@dataclass
class Cluster:
    """A scheduler and workers, processes of this test's, on ports that were free."""

    folder: Path
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        at = self.folder / "scheduler.json"
        with (self.folder / "log").open("ab") as log:
            where = ("--scheduler-file", str(at), "--host", "127.0.0.1")
            pages = ("--dashboard-address", "127.0.0.1:0")
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:], *where, *pages],
                stdout=log,
                stderr=log,
            )

    def add(self) -> None:
        more = ("--no-nanny", "--nthreads", "1", "--nworkers", "1")
        local = ("--local-directory", str(self.folder))
        self.workers.append(self.begin("dask_worker", *more, *local))

    def kill_a_worker(self) -> None:
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()


@contextmanager
def a_cluster(folder: Path) -> Generator[Cluster]:
    folder.mkdir()
    made = Cluster(folder)
    try:
        made.scheduler = made.begin("dask_scheduler", "--port", "0")
        described = folder / "scheduler.json"
        wait_until(lambda: described.exists() and described.read_text().endswith("}"))
        made.address = json.loads(described.read_text())["address"]
        for _ in range(2):
            made.add()
        yield made
    finally:
        for process in [*made.workers, *([made.scheduler] if made.scheduler else [])]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study of twenty jobs, undisturbed."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "many.toml").write_text(STUDY)
    calm_run(folder / "many.toml", folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("dask") / "cluster") as made:
        yield made


@pytest.fixture
def cluster(lasting: Cluster) -> Cluster:
    """The one of the module, whose scheduler nobody kills, with two workers again."""
    while len(lasting.workers) < 2:
        lasting.add()
    return lasting


def executing(client: Any) -> int:
    return sum(client.run(lambda dask_worker: dask_worker.state.executing_count).values())


def test_dask_gives_the_same_bytes_and_its_client_will_do(
    cluster: Cluster, here: dict[str, bytes], tmp_path: Path
):
    with distributed.Client(cluster.address) as client:
        run_jobs(TWELVE, RunStore(tmp_path), executor=client)
        assert kept(tmp_path) == here


def test_what_dask_has_begun_is_stopped(cluster: Cluster):
    with distributed.Client(cluster.address) as client:
        begun(Dask(client=client))
        # A worker that played on would never have an idle moment.
        wait_until(lambda: executing(client) == 0)


def test_what_a_killed_client_has_begun_is_stopped(cluster: Cluster, tmp_path: Path):
    study = tmp_path / "endless.toml"
    study.write_text(STUDY.replace("2_000_000", str(ENDLESS)))
    with distributed.Client(cluster.address) as client:
        with halfwink_run(study, cluster, tmp_path / "out") as command:
            wait_until(lambda: executing(client) == 2)
            command.kill()
        wait_until(lambda: executing(client) == 0)


@contextmanager
def halfwink_run(study: Path, cluster: Cluster, out: Path) -> Generator[subprocess.Popen[bytes]]:
    at = cluster.address.removeprefix("tcp:")
    words = ["run", str(study), "--executor", f"dask:{at}", "-o", str(out)]
    command = subprocess.Popen(
        [sys.executable, "-m", "halfwink", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield command
    finally:
        command.kill()
        command.wait()


def test_a_sweep_whose_workers_and_client_are_killed_ends_as_an_undisturbed_one(
    calm: Path, cluster: Cluster, tmp_path: Path
):
    study, out = tmp_path / "many.toml", tmp_path / "out"
    study.write_text(STUDY)
    runs = out / "runs"
    with halfwink_run(study, cluster, out) as command:
        until_kept(runs, 2)
        cluster.kill_a_worker()
        cluster.add()
        until_kept(runs, 5)
        cluster.kill_a_worker()
        until_kept(runs, 7)
        command.kill()
        command.wait()
    before = kept(runs)
    # In mid-sweep, or this test would not say what it says.
    assert 7 <= len(before) < 20
    cluster.add()
    with halfwink_run(study, cluster, out) as command:
        wait_until(lambda: len(kept(runs)) > len(before), 600)
        cluster.kill_a_worker()
        cluster.add()
        assert command.wait(1200) == 0
    assert before.items() <= kept(runs).items()
    assert len(kept(runs)) == 20
    same(out, calm)


def calm_run(study: Path, out: Path) -> None:
    """The study undisturbed, in this process."""
    studies.run(str(study), out=out, executor=LocalExecutor(2))


def same(out: Path, calm: Path) -> None:
    """What was computed has the same bytes."""
    assert kept(out / "runs") == kept(calm / "runs")
    # What the host took is no result.
    tables = {path.name for path in calm.glob("*.parquet")} - {"host.parquet"}
    assert {"results.parquet", "ledger.parquet"} <= tables
    for name in sorted(tables | {"study.toml"}):
        assert (out / name).read_bytes() == (calm / name).read_bytes(), name


def test_a_scheduler_that_dies_ends_the_command_and_another_one_goes_on(calm: Path, tmp_path: Path):
    study, out = tmp_path / "many.toml", tmp_path / "out"
    study.write_text(STUDY)
    runs = out / "runs"
    with a_cluster(tmp_path / "one") as cluster:
        assert cluster.scheduler is not None
        with halfwink_run(study, cluster, out) as command:
            until_kept(runs, 3)
            cluster.scheduler.kill()
            _, said = command.communicate(timeout=120)
        line = "executor dask: the scheduler is gone; finished runs are kept, the same command"
        assert said.decode().splitlines() == [f"halfwink: {line} goes on"]
        assert command.returncode == 1
    before = kept(runs)
    assert 3 <= len(before) < 20
    with a_cluster(tmp_path / "two") as cluster, halfwink_run(study, cluster, out) as command:
        assert command.wait(1200) == 0
    assert before.items() <= kept(runs).items()
    same(out, calm)


def test_workers_let_go_of_what_they_have_begun_when_the_scheduler_dies(tmp_path: Path):
    study = tmp_path / "endless.toml"
    study.write_text(STUDY.replace("2_000_000", str(ENDLESS)))
    with quiet(), a_cluster(tmp_path / "cluster") as cluster:
        assert cluster.scheduler is not None
        with halfwink_run(study, cluster, tmp_path / "out"):
            with distributed.Client(cluster.address) as client:
                wait_until(lambda: executing(client) == 2)
            cluster.scheduler.kill()
            # Dask itself would wait for half a minute.
            wait_until(lambda: all(w.poll() is not None for w in cluster.workers), 20)


def test_an_adaptive_sweep_whose_worker_and_client_are_killed_ends_as_an_undisturbed_one(
    cluster: Cluster, tmp_path: Path
):
    study, out, calm = tmp_path / "sought.toml", tmp_path / "out", tmp_path / "calm"
    design = """
[design]
kind = "adaptive"
points = 14
minimize = ["energy_j_per_unit", "latency_mean_us"]
"""
    study.write_text(STUDY + design)
    runs = out / "runs"
    with halfwink_run(study, cluster, out) as command:
        until_kept(runs, 2)
        cluster.kill_a_worker()
        cluster.add()
        until_kept(runs, 5)
        command.kill()
        command.wait()
    before = kept(runs)
    with halfwink_run(study, cluster, out) as command:
        assert command.wait(1200) == 0
    calm_run(study, calm)
    assert before.items() < kept(runs).items()
    same(out, calm)
    assert (out / "design.parquet").exists()
