"""Writes cpio archives (the `newc` form that Linux unpacks as initial file system).

Archives can be joined end to end. Equal trees give equal archives: entries are sorted, times are
zero, inode numbers count up.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"070701"
_ALIGNMENT = 4


class CpioWriter:
    """Writes one archive. Use as a context manager, or call `close`."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._inode = 0
        self._directories: set[str] = set()

    def __enter__(self) -> CpioWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Writes the trailer of the archive."""
        self._head("TRAILER!!!", 0, 0, 0, 0)

    def directory(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """Adds a directory, and its parents if they are not in the archive yet."""
        self._parents(path)
        if path not in self._directories:
            self._directories.add(path)
            self._head(path, stat.S_IFDIR | mode, 0, uid, gid)

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Adds a file from memory."""
        self._parents(path)
        self._head(path, stat.S_IFREG | mode, len(data), 0, 0)
        self._out.write(data)
        self._pad(len(data))

    def symlink(self, path: str, target: str) -> None:
        """Adds a symbolic link."""
        self._parents(path)
        data = os.fsencode(target)
        self._head(path, stat.S_IFLNK | 0o777, len(data), 0, 0)
        self._out.write(data)
        self._pad(len(data))

    def console(self) -> None:
        """Adds `/dev/console`, which the kernel gives to the first process."""
        self._parents("dev/console")
        self._head("dev/console", stat.S_IFCHR | 0o600, 0, 0, 0, device=(5, 1))

    def copy(self, path: str, source: Path) -> None:
        """Adds the file, directory or link at `source`; other kinds are left out."""
        info = source.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISDIR(info.st_mode):
            self.directory(path, mode, info.st_uid, info.st_gid)
        elif stat.S_ISLNK(info.st_mode):
            self.symlink(path, str(source.readlink()))
        elif stat.S_ISREG(info.st_mode):
            self._parents(path)
            self._head(path, info.st_mode, info.st_size, info.st_uid, info.st_gid)
            with source.open("rb") as data:
                shutil.copyfileobj(data, self._out, 1 << 20)
            self._pad(info.st_size)

    def _parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._directories:
            self.directory(parent)

    def _pad(self, length: int) -> None:
        self._out.write(b"\0" * (-length % _ALIGNMENT))

    def _head(
        self,
        path: str,
        mode: int,
        size: int,
        uid: int,
        gid: int,
        device: tuple[int, int] = (0, 0),
    ) -> None:
        self._inode += 1
        name = os.fsencode(path) + b"\0"
        fields = (self._inode, mode, uid, gid, 1, 0, size, 0, 0, *device, len(name), 0)
        head = _MAGIC + b"".join(b"%08x" % field for field in fields)
        self._out.write(head + name)
        self._pad(len(head) + len(name))
