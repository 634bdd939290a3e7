"""Folders at URLs, through fsspec: object stores, servers, whatever has a driver for it."""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from halfwink.errors import HalfwinkError, RunError

#: How a URL begins, and how fsspec's chains of them do: `s3://`, `simplecache::s3://`.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
#: Where an object is there whole or not at all, under its own name, and folders need no making.
OBJECT_STORES = {
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oci", "oss", "tos", "r2", "memory"),
}
#: Files that are on their way at once, where a driver can do that.
AT_ONCE = 16
#: A password inside a URL, which no message shall show.
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")


class Remote:
    """A file or folder at a URL: what is used of `pathlib.Path`, for any driver of fsspec.

    Whatever a driver or its network complains of is raised as OSError with the URL as its file
    name; what is not there as FileNotFoundError.
    """

    def __init__(self, url: str, system: Any, path: str) -> None:
        """The file or folder ``path`` of a file system of fsspec."""
        self._url, self._system, self._path = url.rstrip("/"), system, path.rstrip("/")

    @classmethod
    def at(cls, url: str) -> Remote:
        """Returns the place at a URL, without contacting it yet.

        Raises:
            HalfwinkError: fsspec, or its driver for that kind of URL, is not installed, or nothing
                is known of that kind; one line.
            RunError: a driver that connects at once cannot.
        """
        try:
            fsspec: Any = import_module("fsspec")
        except ImportError:
            line = "a URL needs fsspec; run: pip install 'halfwink[remote]'"
            raise HalfwinkError(f"{_shown(url)}: {line}") from None
        try:
            system, path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise HalfwinkError(f"{_shown(url)}: {_line(error)}") from error
        except Exception as error:  # Any driver's own, and its network's.
            raise RunError(f"{_shown(url)}: {_line(error)}") from error
        return cls(url, system, path)

    def __str__(self) -> str:
        return _shown(self._url)

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self._url}/{name}", self._system, f"{self._path}/{name}")

    @property
    def name(self) -> str:
        """Last part of the path."""
        return PurePosixPath(self._path).name

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return PurePosixPath(self._path).stem

    @property
    def _is_object_store(self) -> bool:
        protocol: Any = self._system.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        return bool(names & OBJECT_STORES)

    def mkdir(self) -> None:
        """Makes the folder and those above it, where there are folders."""
        if not self._is_object_store:
            with self._reaching():
                self._system.makedirs(self._path, exist_ok=True)

    def names(self) -> set[str]:
        """Names of what is in the folder now; none if it is not there."""
        with self._reaching():
            # What others have written since the last look, too.
            self._system.invalidate_cache()
            try:
                found: list[str] = self._system.ls(self._path, detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return set()
        return {PurePosixPath(path).name for path in found}

    def exists(self) -> bool:
        """Returns whether it exists now."""
        with self._reaching():
            self._system.invalidate_cache()
            return self._system.exists(self._path)

    def read_bytes(self) -> bytes:
        """All of a file."""
        with self._reaching():
            return self._system.cat_file(self._path)

    def read_each(self, names: Iterable[str]) -> Generator[tuple[str, bytes | OSError]]:
        """Files of the folder, as they are named; of one that cannot be read, why."""

        def read(name: str) -> tuple[str, bytes | OSError]:
            try:
                return name, (self / name).read_bytes()
            except OSError as error:
                return name, error

        # Of other drivers none says that threads may share it.
        if not getattr(self._system, "async_impl", False):
            yield from map(read, names)
            return
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(read, names)

    def write_whole(self, data: bytes) -> None:
        """Writes a file so that it is either complete or not there."""
        with self._reaching():
            if self._is_object_store:
                self._system.pipe_file(self._path, data)
                return
            partial = f"{self._path.rpartition('/')[0]}/.{self.name}.{secrets.token_hex(8)}"
            try:
                self._system.pipe_file(partial, data)
                self._system.mv(partial, self._path)
            except BaseException:
                with suppress(Exception):
                    self._system.rm_file(partial)
                raise

    @contextmanager
    def _reaching(self) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, _line(error), str(self)) from error
        except Exception as error:  # Any driver's own, and its network's.
            raise OSError(errno.EIO, _line(error), str(self)) from error


def _line(error: Exception) -> str:
    """Returns the message of an error in a line, or its kind if it has none."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split()) or type(error).__name__


def _shown(url: str) -> str:
    return _PASSWORD.sub(r"\1:***@", url)
