"""The prototype of a hybrid server: data set, workloads, loads, calibration."""

from __future__ import annotations

import collections
import gzip
import math
import random
import signal
import statistics
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Halfwink, document, lacking

from halfwink.bed import prototype
from halfwink.errors import HalfwinkError, RunError
from halfwink.live import native
from halfwink.models.delay_model import Calibration, fit, fit_pool, medians


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "set"
    made = prototype.dataset(folder, files=300, seed=3)
    assert made["options"]["files"] == 300
    return folder


def test_a_data_set_that_lost_files_is_completed(tmp_path: Path):
    folder = tmp_path / "set"
    made = prototype.dataset(folder, files=20)
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for lost in ("0000/*1*", "index.csv"):
        for path in folder.glob(lost):
            path.unlink()
        assert prototype.dataset(folder, files=20) == made
        assert {path: path.read_bytes() for path in whole} == whole
    first = folder / "0000/0000000.txt"
    first.write_bytes(b"")
    with pytest.raises(HalfwinkError, match="holds another data set"):
        prototype.dataset(folder, files=21)
    assert first.read_bytes() == b""


def test_sizes_follow_the_bounded_pareto_law():
    low, high, mean = 6e3, 1.4e6, 40e3
    shares = [n / 20_000 for n in range(20_001)]
    shape, sizes = native.bounded_pareto(low, high, mean, shares)
    assert shape == pytest.approx(0.893, abs=5e-4)
    # Niccolini's inverse, as the specification writes it.
    for share, size in zip(shares[::500], sizes[::500], strict=True):
        wanted = (low**-shape - share * (low**-shape - high**-shape)) ** (-1 / shape)
        assert size == pytest.approx(wanted, rel=1e-9)
    # The mean of the distribution is the integral of its quantiles.
    assert statistics.fmean(sizes) == pytest.approx(mean, rel=2e-3)


def test_a_data_set_has_the_sizes_and_the_words_of_a_language(pages: Path):
    lines = (pages / "index.csv").read_text().splitlines()
    assert lines[0] == "path,bytes"
    words: collections.Counter[bytes] = collections.Counter()
    for line in lines[1:]:
        path, size = line.split(",")
        content = (pages / path).read_bytes()
        assert len(content) == int(size)
        words.update(content.lower().split())
    ranked = [count for _, count in words.most_common(200)]
    # By Zipf's law, rank times count is the same.
    slope = (math.log(ranked[99]) - math.log(ranked[1])) / (math.log(100) - math.log(2))
    assert -1.25 < slope < -0.75, slope
    # Text that can be packed, but not to nothing.
    packed = len(zlib.compress(content)) / len(content)
    assert 0.15 < packed < 0.7, packed


def fetch(url: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.read(), dict(answer.headers)


def test_workloads_return_what_python_computes(pages: Path):
    index = (pages / "index.csv").read_text().splitlines()[1:]
    with prototype.Pool(pages, workers=2, name="big") as pool:
        for number in (0, 7, 299):
            content = (pages / index[number].split(",")[0]).read_bytes()
            body, headers = fetch(f"{pool.url}/readfile/{number}")
            assert body == content
            assert headers["X-Backend"] == "big"
            assert int(headers["X-File-Bytes"]) == len(content)
            body, _ = fetch(f"{pool.url}/ksort/{number}")
            pairs = sorted((word, n) for n, word in enumerate(content.split()))
            assert body == b"".join(b"%s\t%d\n" % pair for pair in pairs)
            body, _ = fetch(f"{pool.url}/count/{number}")
            counts = collections.Counter(content)
            assert [int(line) for line in body.split()] == [counts[b] for b in range(256)]
            body, _ = fetch(f"{pool.url}/compress/{number}")
            assert gzip.decompress(body) == content
            assert len(body) == pytest.approx(len(zlib.compress(content, 6)), rel=0.05)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(f"{pool.url}/count/300")
        assert prototype.info(pool.url)["workers"] == 2
    assert pool.report()["served"] == 12


def test_load_follows_the_arrivals_of_a_day(pages: Path, tmp_path: Path):
    log = tmp_path / "log.csv"
    with prototype.Pool(pages, workers=2) as pool:
        options = {"workload": "readfile", "seed": 5}
        found = prototype.load(
            pool.url, rate=2000.0, arrivals="world-cup", seconds=1.0, log=log, **options
        )
        assert found["answered"] == found["requests"] > 400, found
        # The day has 35 % of its busiest minute in the mean; its evening is the busiest.
        assert found["requests"] == pytest.approx(2000 * 0.2426, rel=0.25)
        rows = [line.split(",") for line in log.read_text().splitlines()]
        assert rows[0] == ["at_s", "bytes", "latency_s", "service_s", "status", "backend"]
        times = [float(row[0]) for row in rows[1:]]
        assert len(times) == found["requests"]
        assert times == sorted(times)
        assert sum(t > 0.5 for t in times) > 1.5 * sum(t <= 0.5 for t in times)
        assert all(len(row[0].split(".")[1]) == 9 for row in rows[1:])
        # The log is a file of arrivals itself: the same times and files once more.
        again = tmp_path / "again.csv"
        prototype.load(pool.url, arrivals=str(log), log=again, **options)
        other = [line.split(",") for line in again.read_text().splitlines()]
        assert [row[:2] for row in other] == [row[:2] for row in rows]
        plain = tmp_path / "times"
        plain.write_text("# mine\n0.01\n0.02\n0.02\n0.05\n")
        assert prototype.load(pool.url, arrivals=str(plain))["answered"] == 4
        rates = tmp_path / "rates"
        rates.write_text("seconds,rate\n0,0\n0.5,10\n")
        found = prototype.load(pool.url, arrivals=str(rates), rate=1000.0)
        assert found["requests"] == pytest.approx(250, abs=80)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("0.1\nsoon\n", "`soon`"), ("0.2\n0.1\n", "arrival 2"), ("0,1\nx,2\n", "line 2")],
)
def test_files_of_arrivals_that_are_none(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "arrivals"
    path.write_text(text)
    with pytest.raises(HalfwinkError, match=complaint):
        prototype.load("http://127.0.0.1:9", arrivals=str(path))


def synthetic(
    gamma: float, noise: float, outliers: float
) -> tuple[dict[int, list[tuple[float, float]]], float, list[float]]:
    """Requests of a machine that is known: delays in seconds."""
    dice = random.Random(11)
    alpha, betas = 0.4e-3, [20e-6, 22e-6, 29e-6, 31e-6]
    quantiles = [dice.random() for _ in range(3000)]
    _, sizes = native.bounded_pareto(6e3, 1.4e6, 40e3, quantiles)
    points: dict[int, list[tuple[float, float]]] = {}
    for n, beta in enumerate(betas, start=1):
        points[n] = []
        for size in sizes:
            delay = (alpha + beta * (size / 1e3) ** gamma) * dice.gauss(1.0, noise)
            if dice.random() < outliers:
                delay += dice.expovariate(1 / 30e-3)
            points[n].append((size, delay))
    return points, alpha, betas


@pytest.mark.parametrize("gamma", [0.9, 1.0, 1.1])
def test_a_fit_recovers_what_is_known(gamma: float):
    points, alpha, betas = synthetic(gamma, 0.02, 0.0)
    found = fit_pool(points)
    for free in (found.medians_free, found.plain_free):
        assert free.gamma == pytest.approx(gamma, abs=0.02)
        assert free.alpha_s == pytest.approx(alpha, rel=0.1)
        assert free.beta_s_per_kb == pytest.approx(betas, rel=0.1)
    if gamma == 1.0:
        for linear in (found.medians, found.plain):
            assert linear.alpha_s == pytest.approx(alpha, rel=0.05)
            assert linear.beta_s_per_kb == pytest.approx(betas, rel=0.02)
        assert found.medians.relative_rms < 0.02
        assert found.medians.delay_s(100e3, 2) == pytest.approx(alpha + 2.2e-3, rel=0.02)


def test_a_noisy_machine_moves_least_squares_but_not_the_medians():
    points, alpha, betas = synthetic(1.0, 0.05, 0.03)
    found = fit_pool(points)
    assert found.plain.alpha_s > 1.5 * alpha
    assert found.medians.alpha_s == pytest.approx(alpha, rel=0.15)
    assert found.medians.beta_s_per_kb == pytest.approx(betas, rel=0.04)
    assert found.medians_free.gamma == pytest.approx(1.0, abs=0.05)
    assert sum(row[1] for row in found.bins) == found.requests == 12_000


def test_fits_of_little():
    exact = fit({1: [(1e3, 2e-3, 1.0, 1), (3e3, 4e-3, 1.0, 1)]})
    assert (exact.alpha_s, exact.beta_s_per_kb[0]) == pytest.approx((1e-3, 1e-3))
    assert exact.rms_s < 1e-12
    # A delay cannot begin below nothing.
    assert fit({1: [(1e3, 1e-3, 1.0, 1), (2e3, 9e-3, 1.0, 1)]}).alpha_s == 0.0
    assert sum(k for _, _, k in medians([(float(n), 1.0) for n in range(1, 100)])) == 99
    for wrong in ({}, {2: [(1.0, 1.0), (2.0, 1.0)]}, {1: [(1.0, 1.0), (1.0, 2.0)]}):
        with pytest.raises(ValueError, match="expected requests"):
            fit_pool(wrong)


def test_the_fragment_is_toml():
    points, _, _ = synthetic(1.0, 0.01, 0.0)
    both = Calibration("count", {"small": fit_pool(points), "big": fit_pool(points)})
    for plain in (False, True):
        read = tomllib.loads(both.toml(plain=plain))["workloads"]["count"]
        assert set(read) == {"small", "big"}
        assert read["big"]["alpha_ms"] == pytest.approx(0.4, rel=0.05)
        assert read["big"]["beta_ms"] == pytest.approx([0.020, 0.022, 0.029, 0.031], rel=0.05)


@contextmanager
def serving(folder: Path, *words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "halfwink", "live", "serve", str(folder), *words]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    try:
        assert process.stderr is not None
        ready = process.stderr.readline()
        assert ready.startswith("ready "), ready + process.stderr.read()
        yield process, ready.split()[1]
    finally:
        process.kill()
        process.communicate()


def test_from_the_data_set_to_alpha_and_beta(halfwink: Halfwink, tmp_path: Path):
    folder = tmp_path / "set"
    made = halfwink("live", "dataset", str(folder), "--files", "200", "--json")
    assert made.status == 0, made.err
    same = halfwink("live", "dataset", str(folder), "--files", "200", "--check", "--json")
    assert same.json()["facts"]["sum"] == made.json()["facts"]["sum"]
    where = f"unix:{tmp_path}/small.sock"
    slow = ("--workers", "2", "--slow", "3", "--repeat", "10", "--name", "small", "--json")
    with (
        serving(folder, "--listen", where, *slow) as (small, _),
        serving(folder, "--listen", "127.0.0.1:0", "--repeat", "10", "--name", "big") as (_, big),
    ):
        rate = ("--rate", "100", "--seconds", "0.5", "--seed", "2")
        load = halfwink("live", "load", where, *rate, "--log", str(tmp_path / "log"), "--json")
        found = load.json()["facts"]
        assert found["answered"] == found["requests"] > 25, found
        assert [b["name"] for b in load.rows("backends")] == ["small"]
        table = halfwink("live", "load", big, "--clients", "2", "--requests", "50")
        assert table.status == 0
        assert "latency ms" in table.out
        toml = tmp_path / "fit.toml"
        few = ("--requests", "200", "--rounds", "2", "-o", str(toml), "--json")
        done = halfwink("live", "calibrate", "--small", where, "--big", big, *few)
        assert done.status == 0, done.err
        small.send_signal(signal.SIGTERM)
        out, _ = small.communicate(timeout=120)
        assert small.returncode == 0
    report = document(out)
    assert report["facts"]["served"] == found["requests"] + 2 * 200
    workers = report["tables"]["workers"]["rows"]
    busy = sum(worker["busy_s"] for worker in workers)
    assert busy > 2.0 * sum(worker["cpu_s"] for worker in workers) > 0.0
    pools = {pool["name"]: pool for pool in done.rows("pools")}
    read = tomllib.loads(toml.read_text())["workloads"]["count"]
    assert len(read["small"]["beta_ms"]) == 2
    assert len(read["big"]["beta_ms"]) == 1
    alpha_s = pools["big"]["medians"]["alpha_s"]
    assert read["big"]["alpha_ms"] == pytest.approx(alpha_s * 1e3, rel=1e-6)
    # Three times the processor time of each byte, whatever the machine adds to a request.
    ratio = read["small"]["beta_ms"][0] / read["big"]["beta_ms"][0]
    assert 1.2 < ratio < 12.0, ratio


def test_a_quota_holds_or_says_why_not(halfwink: Halfwink, pages: Path):
    words = ("live", "serve", str(pages), "--listen", "127.0.0.1:0", "--quota", "20")
    done = halfwink(*words, "--seconds", "0.2", "-q")
    if done.status:
        assert (done.status, "systemd-run" in done.complaint) == (2, True)
        lacking(done.complaint, kernel=True)
    with serving(pages, *words[3:], "--repeat", "50", "--json") as (process, url):
        group = Path(f"/proc/{process.pid}/cgroup").read_text()
        assert f"halfwink-{process.pid}" in group
        prototype.load(url, clients=2, seconds=1.0)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
    report = document(out)
    cpu_s = sum(worker["cpu_s"] for worker in report["tables"]["workers"]["rows"])
    assert 0.02 < cpu_s / report["facts"]["duration_s"] < 0.3, report
    left = [p for p in Path("/sys/fs/cgroup").glob("*/halfwink-*") if str(process.pid) in p.name]
    assert not left


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["dataset", "{new}", "--files", "0"], "--files 0: expected 1"),
        (["dataset", "{new}", "--mean-bytes", "5"], "a mean of 5 bytes"),
        (["dataset", "{new}", "--min-bytes", "9", "--max-bytes", "8"], "ascending"),
        (["dataset", "{pages}", "--seed", "9"], "holds another data set"),
        (["dataset", "{new}", "--check"], "no halfwink-dataset.toml"),
        (["serve", "{new}"], "expected a folder of"),
        (["serve", "{pages}", "--listen", "nowhere"], "expected HOST:PORT"),
        (["serve", "{pages}", "--slow", "0"], "slow 0: expected 1"),
        (["serve", "{pages}", "--cpus", "x"], "--cpus x: expected numbers"),
        (["serve", "{pages}", "--cpus", "999"], "CPU 999: not allowed"),
        (["serve", "{pages}", "--quota", "0"], "quota 0 %: expected 1"),
        (["load", "127.0.0.1:1"], "expected --rate R or --clients N"),
        (["load", "127.0.0.1:1", "--rate", "5"], "expected http://HOST:PORT"),
        (["load", "http://a:1", "--rate", "-5"], "--rate -5"),
        (["load", "http://a:1", "--rate", "5", "--clients", "5"], "no rate"),
        (["load", "http://a:1", "--rate", "5", "--workload", "x"], "workload x"),
        (["load", "http://a:1", "--rate", "5", "--arrivals", "/no"], "or a file"),
        (["calibrate"], "expected --small URL"),
        (["calibrate", "--big", "http://:x"], "expected http://HOST:PORT"),
    ],
)
def test_wrong_use_is_one_line(
    halfwink: Halfwink, pages: Path, tmp_path: Path, words: list[str], complaint: str
):
    places = {"{new}": str(tmp_path / "new"), "{pages}": str(pages)}
    done = halfwink("live", *(places.get(word, word) for word in words))
    assert done.status == 2, done
    assert complaint in done.complaint


def test_a_server_that_is_not_there(tmp_path: Path):
    for url in ("http://127.0.0.1:1", f"unix:{tmp_path}/none"):
        with pytest.raises(RunError, match=url):
            prototype.load(url, rate=10.0)
        with pytest.raises(RunError, match=url):
            prototype.info(url)


def test_wait_without_a_limit_lasts_until_the_end(tmp_path: Path):
    folder = tmp_path / "set"
    sizes = {"min_bytes": 6_000, "max_bytes": 1_400_000, "mean_bytes": 40e3}
    for seconds in (math.inf, 1e300):
        writer = native.DatasetWriter(str(folder), files=40, seed=3, threads=1, **sizes)
        assert writer.wait(seconds)
        assert writer.result()["options"]["files"] == 40
    # A time that has passed, and one that is none, are a single look.
    writer = native.DatasetWriter(str(tmp_path / "other"), files=2_000, seed=3, threads=1, **sizes)
    assert not writer.wait(-1.0)
    assert not writer.wait(math.nan)
    writer.stop()


def test_handlers_of_signals_run_during_a_wait(pages: Path):
    class AskedError(Exception):
        pass

    def ask(number: int, frame: object) -> None:
        raise AskedError

    before = signal.signal(signal.SIGALRM, ask)
    try:
        with prototype.Pool(pages, workers=1) as pool:
            load = prototype.Load(pool.url, rate=10.0, seconds=600.0, workload="readfile")
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(AskedError):
                load.wait(math.inf)
            load.stop()
            assert load.wait(math.inf)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
