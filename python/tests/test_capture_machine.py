"""QEMU's command line, and the dialogue with it: here with scripts in QEMU's place."""

import time
from pathlib import Path

import pytest

from halfwink.capture import CaptureError, GuestError, Progress, TimeLimitError, machine
from halfwink.capture.machine import Boot, Dialogue, command_line

DONE = '@halfwink {"done": {"instructions": 5}}'


def boot(tmp_path: Path, cpus: int = 1) -> Boot:
    return Boot(
        kernel=tmp_path / "k",
        initrd=tmp_path / "i",
        plugin=tmp_path / "p.so",
        header=tmp_path / "h",
        out=tmp_path / "o",
        cpus=cpus,
        recorded=cpus - 1,
        seed=9,
        instructions=100,
    )


def ignore(_: Progress) -> None:
    pass


def pretend(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(machine, "command_line", lambda _: ["sh", "-c", script])


def test_everything_that_determinism_needs(tmp_path: Path) -> None:
    words = command_line(boot(tmp_path))
    line = " ".join(words)
    for part in (
        "-icount shift=0,sleep=off",
        "-accel tcg,thread=single",
        "-rtc base=2026-01-01T00:00:00,clock=vm",
        "-seed 9",
        "la57=off,erms=off,fsrm=off",
        "nokaslr",
        "limit=100",
    ):
        assert part in line
    assert "-smp" not in words
    assert "-netdev" not in words


def test_servers_have_a_cpu_of_their_own(tmp_path: Path) -> None:
    words = command_line(boot(tmp_path, cpus=2))
    assert words[words.index("-smp") + 1] == "2"
    assert "cpu=1,cpus=2" in words[-1]


def test_run_reports_progress_up_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(
        monkeypatch,
        "echo firmware; echo 'ROM..@guest booted'; echo '@guest warming up: x'; echo said;"
        """echo '@halfwink {"started": true}' >&2; echo '@halfwink {"recorded": 7}' >&2;"""
        f"echo '{DONE}' >&2",
    )
    seen: list[Progress] = []
    report = machine.run(boot(tmp_path), seen.append, 30)
    assert report == {"instructions": 5, "said": ("said",)}
    assert {p.stage for p in seen} == {"boot", "warm-up", "record"}
    assert max(p.instructions for p in seen) == 7


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("echo 'Kernel panic'", GuestError, "before anything was recorded.*Kernel panic"),
        ("echo why; echo '@guest error: no server'", GuestError, "no server; it said last: why"),
        ("""echo '@halfwink {"error": "disk full"}' >&2; exit 1""", CaptureError, "disk full"),
    ],
)
def test_failures_say_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[Exception],
    words: str,
) -> None:
    pretend(monkeypatch, script)
    with pytest.raises(error, match=words):
        machine.run(boot(tmp_path), ignore, 30)


def test_the_time_limit_stops_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    pretend(monkeypatch, f"echo $$ >{pid}; exec sleep 600")
    start = time.monotonic()
    with pytest.raises(TimeLimitError, match="not finished after 1 s"):
        machine.run(boot(tmp_path), ignore, 1)
    assert time.monotonic() - start < 300
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_an_interruption_stops_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    pretend(monkeypatch, f"echo $$ >{pid}; echo '@guest booted'; exec sleep 600")

    def interrupt(progress: Progress) -> None:
        if progress.message == "booted":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.run(boot(tmp_path), interrupt, 30)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_console_noise_is_kept_short() -> None:
    dialogue = Dialogue(ignore, None)
    for n in range(1000):
        dialogue.console(f"line {n}")
    assert len(dialogue.said) < 50
    assert dialogue.said[-1] == "line 999"
