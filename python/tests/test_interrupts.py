"""Ctrl-C at any moment: one line, status 130, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from halfwink import interrupts

#: Imports module by module, as the program does, and sends itself Ctrl-C at one of them.
AT_IMPORT = """
import os, signal, sys
from halfwink.__main__ import main

class Finder:
    left = int(sys.argv.pop(1))
    def find_spec(self, *_):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""
#: Stays in a native function that knows of no signals, and is sent Ctrl-C there.
STUCK = """
import hashlib, os, signal, threading, time
from halfwink import interrupts
interrupts.PATIENCE_S = 0.1
interrupts.starting()
interrupts.running()

def send():
    begun = time.process_time()
    while time.process_time() < begun + 0.2:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=send, daemon=True).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
"""
#: Is sent Ctrl-C where Python would print what was raised, and go on.
DESTRUCTOR = """
import os, signal
from halfwink import interrupts
interrupts.starting()
interrupts.running()

class Closed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

Closed()
print("went on")
"""


def python(code: str, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
    # Who started the tests may have it ignored, as shells do for what runs behind.
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **more,  # pyright: ignore
    )


@pytest.mark.parametrize("which", [1, 2, 20, 100, 300, 500])
def test_ctrl_c_while_starting_is_a_line(which: int, tmp_path: Path):
    words = (str(which), "compare", "nginx", "-t", "tap", "-n", "100000", "-q")
    done = python(AT_IMPORT, *words, cwd=tmp_path)
    assert done.returncode == interrupts.STATUS, done.stderr
    assert done.stderr == interrupts.SAID
    assert done.stdout == ""


@pytest.mark.parametrize("code", [STUCK, DESTRUCTOR])
def test_ctrl_c_is_heard_where_python_does_not_hear_it(code: str):
    done = python(code)
    assert done.returncode == interrupts.STATUS, done.stderr
    assert done.stderr == interrupts.SAID
    assert done.stdout == ""


def test_ctrl_c_that_the_shell_has_ignored_stays_ignored():
    code = "import os, signal; from halfwink import interrupts as i; i.starting(); i.running()"
    code += "; os.kill(os.getpid(), signal.SIGINT); i.ending(); print('went on')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_a_library_leaves_the_handler_alone():
    before = signal.getsignal(signal.SIGINT)
    interrupts.running()
    interrupts.ending()
    assert signal.getsignal(signal.SIGINT) is before
