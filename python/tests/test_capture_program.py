"""Programs of the user's own."""

from pathlib import Path

import pytest

from halfwink.capture import WrongUseError, program
from halfwink.capture.program import locate, parse_ldd

LDD = """\
\tlinux-vdso.so.1 (0x00007ffd54b6e000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f1b9e0d1000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f1b9e1d8000)
"""


def test_libraries_and_loader_are_found() -> None:
    assert set(parse_ldd(LDD)) == {"lib/x86_64-linux-gnu/libm.so.6", "lib64/ld-linux-x86-64.so.2"}


def test_missing_libraries_are_told() -> None:
    with pytest.raises(WrongUseError, match=r"libfoo\.so"):
        parse_ldd("\tlibfoo.so => not found\n")


def test_programs_of_this_machine_are_copied(tmp_path: Path) -> None:
    script = tmp_path / "work"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    program = locate([str(script), "-x"], own_root=False)
    assert not program.starts_itself
    assert program.command == ["/halfwink/own/work", "-x"]
    assert program.files == {"halfwink/own/work": script.resolve()}


def test_programs_with_a_start_marker_start_the_recording(tmp_path: Path) -> None:
    program = tmp_path / "work"
    program.write_bytes(b"..\x0f\x1f\x80\x01HWT..")
    program.chmod(0o755)
    assert locate([str(program)], own_root=False).starts_itself


def test_programs_of_the_guest_are_not() -> None:
    assert locate(["gzip", "-9"], own_root=False).files == {}
    assert locate(["/bin/service"], own_root=True).files == {}


def test_wrong_program_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="no command"):
        locate([], own_root=False)
    with pytest.raises(WrongUseError, match="no such file"):
        locate([str(tmp_path / "none")], own_root=False)
    (tmp_path / "data").touch(0o644)
    with pytest.raises(WrongUseError, match="not executable"):
        locate([str(tmp_path / "data")], own_root=False)


def test_files_that_arguments_name_come_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text("1")
    words = ["sub/a.py", str(tmp_path / "sub/a.py"), "sub", "-n", "/dev/null", "sub/../sub/a.py"]
    came = tmp_path.resolve() / "sub/a.py"
    # What is named from here stands below the guest's home.
    places = ("root/sub/a.py", str(tmp_path / "sub/a.py").lstrip("/"))
    relative, absolute = (f"halfwink/files/{place}" for place in places)
    assert program.arguments(words) == {relative: came, absolute: came}
    assert program.locate(["python3", "sub/a.py"], own_root=False).files == {relative: came}
    assert program.locate(["python3", "sub/a.py"], own_root=True).files == {}


def test_files_too_large_for_the_guest_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(program.MOST_BYTES + 1)
    with pytest.raises(WrongUseError, match="256 MB"):
        program.locate(["gzip", "large"], own_root=False)
