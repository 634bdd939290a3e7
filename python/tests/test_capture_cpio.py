"""The archives that the guest's file system is made of."""

import io
from pathlib import Path

from halfwink.capture.cpio import CpioWriter


def entries(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Reads an archive back: mode and data by name."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        at = (at + 110 + name_size + 3) & ~3
        data = archive[at : at + size]
        at = (at + size + 3) & ~3
        if name == "TRAILER!!!":
            assert at == len(archive)
            return found
        assert name not in found
        found[name] = (mode, data)


def written(fill: object) -> bytes:
    out = io.BytesIO()
    with CpioWriter(out) as cpio:
        fill(cpio)  # type: ignore[operator]
    return out.getvalue()


def test_files_bring_their_folders() -> None:
    found = entries(written(lambda cpio: cpio.file("a/b/c", b"hello", 0o755)))
    assert found == {
        "a": (0o40755, b""),
        "a/b": (0o40755, b""),
        "a/b/c": (0o100755, b"hello"),
    }


def test_links_and_console() -> None:
    def fill(cpio: CpioWriter) -> None:
        cpio.symlink("bin", "usr/bin")
        cpio.console()

    found = entries(written(fill))
    assert found["bin"] == (0o120777, b"usr/bin")
    assert found["dev/console"][0] == 0o20600


def test_copies_keep_mode_and_leave_out_what_is_no_file(tmp_path: Path) -> None:
    import os

    (tmp_path / "file").write_bytes(b"x" * 1001)
    (tmp_path / "file").chmod(0o640)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")

    def fill(cpio: CpioWriter) -> None:
        for name in ("file", "pipe", "link"):
            cpio.copy(name, tmp_path / name)

    found = entries(written(fill))
    assert found["file"] == (0o100640, b"x" * 1001)
    assert found["link"] == (0o120777, b"file")
    assert "pipe" not in found


def test_equal_trees_give_equal_archives(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("same")
    first = written(lambda cpio: cpio.copy("f", tmp_path / "f"))
    (tmp_path / "f").touch()
    assert written(lambda cpio: cpio.copy("f", tmp_path / "f")) == first
