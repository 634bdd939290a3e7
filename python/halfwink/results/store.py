"""Finished runs in a folder or at a URL: each loses nothing when the next one fails."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halfwink.errors import RunError
from halfwink.files import Place, append_line, make_folder, place, write_whole
from halfwink.remote import Remote
from halfwink.results import packs
from halfwink.results.packs import Packs

#: A table of the native module: name, kind (text, integer, real) and values of each column.
Columns = list[tuple[str, str, list[Any]]]
Tables = dict[str, Columns]

#: What the host took for a run: not part of its result.
HOST = "host"
#: Of the files. Another one's results are computed again.
SCHEMA = 1
_log = logging.getLogger("halfwink")


class RunStore:
    """Finished runs in a folder: ``KEY.json``, there only when it is whole, or a line of a pack.

    A result is one JSON object: ``schema``, ``sha256`` (of the bytes of the tables), ``tables``. It
    holds nothing but what the job determines, so equal jobs give equal bytes on any host. A command
    that saves many moves them into packs (`halfwink.results.packs`); at a URL each stays an object.
    What the host took is appended to ``host.jsonl``, a line for each run; at a URL, where nothing
    can be appended to, it is a file for each run in ``host``.
    """

    def __init__(self, folder: Place | str) -> None:
        """Runs in a folder or at a URL.

        Raises:
            HalfwinkError: the URL is of a kind that cannot be reached, in one line.
        """
        self.folder = place(folder)
        self._packs = None if isinstance(self.folder, Remote) else Packs(self.folder)
        #: Results that this command saved and did not pack yet.
        self._loose: list[str] = []

    def _path(self, key: str) -> Place:
        return self.folder / f"{key}.json"

    def has(self, key: str) -> bool:
        """Returns whether the result with this key exists and is intact. A damaged one is reported
        once: it will be computed again.
        """
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return self._is_packed(key)
        except OSError as error:
            _log.warning("%s: %s; computed again", path, error.strerror)
            return False
        return _is_whole(path, content)

    def _is_packed(self, key: str) -> bool:
        if self._packs is None:
            return False
        try:
            copies = list(self._packs.contents(key, look=False))
        except OSError as error:
            _log.warning("%s: %s; computed again", self.folder, error.strerror)
            return False
        if any(_body(content) is not None for content in copies):
            return True
        return any(_is_whole(self._path(key), content) for content in copies)

    def present(self, keys: Sequence[str]) -> set[str]:
        """Returns those of some keys of which `has` is true.

        Raises:
            RunError: the URL does not answer; one line.
        """
        if not isinstance(self.folder, Remote):
            self._look()
            return {key for key in keys if self.has(key)}
        try:
            # Most of what is asked for is not there: that takes one question, not one for each.
            names = self.folder.names()
        except OSError as error:
            raise RunError(f"{self.folder}: {error.strerror}") from error
        there = [key for key in keys if f"{key}.json" in names]
        return {key for key, content in self._each(there) if _is_whole(self._path(key), content)}

    def _look(self) -> None:
        try:
            if self._packs is not None:
                self._packs.look()
        except OSError as error:
            raise RunError(f"{self.folder}: {error.strerror}") from error

    def loaded(self, keys: Iterable[str]) -> Generator[Tables]:
        """The results with these keys, in their order; raises RunError as `load` does."""
        if not isinstance(self.folder, Remote):
            yield from map(self.load, keys)
            return
        for key, content in self._each(keys):
            yield _tables(self._path(key), content)

    def _each(self, keys: Iterable[str]) -> Generator[tuple[str, bytes]]:
        """Files at a URL, several at once; raises RunError for one that cannot be read."""
        assert isinstance(self.folder, Remote)
        for name, content in self.folder.read_each(f"{key}.json" for key in keys):
            if isinstance(content, OSError):
                raise RunError(f"{self.folder / name}: {content.strerror}") from content
            yield name.removesuffix(".json"), content

    def load(self, key: str) -> Tables:
        """The result with this key, without host facts; raises RunError if it is not what was
        written."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError as error:
            for content in self._packs.contents(key) if self._packs is not None else ():
                if _body(content) is not None:
                    return _tables(path, content)
            raise RunError(f"{path}: {error.strerror}") from error
        return _tables(path, content)

    def save(self, key: str, tables: Tables) -> None:
        """Keeps a result; raises RunError in one line if the disk refuses."""
        result = {name: columns for name, columns in tables.items() if name != HOST}
        try:
            make_folder(self.folder)
            body = json.dumps(result, separators=(",", ":")).encode()
            write_whole(self._path(key), _head(body) + body + b"}")
            self._note_host(key, tables.get(HOST, []))
            self._loose.append(key)
            if len(self._loose) >= packs.MOST:
                self.pack()
        except OSError as error:
            where = error.filename or self._path(key)
            raise RunError(f"{where}: cannot keep a result: {error.strerror}") from error

    def pack(self) -> None:
        """Packs what this command saved, if that is much; raises RunError if the disk refuses."""
        if self._packs is None or len(self._loose) < packs.LEAST:
            return
        try:
            self._packs.pack(self._loose)
        except OSError as error:
            where = error.filename or self.folder
            raise RunError(f"{where}: cannot pack results: {error.strerror}") from error
        self._loose = []

    def _note_host(self, key: str, columns: Columns) -> None:
        line = json.dumps({"key": key, HOST: columns}) + "\n"
        if isinstance(self.folder, Remote):
            make_folder(self.folder / HOST)
            write_whole(self.folder / HOST / f"{key}.json", line)
            return
        append_line(self.folder / "host.jsonl", line)

    def hosts(self) -> dict[str, Columns]:
        """Returns the host's times by key; the last one for a result that was computed again."""
        found: dict[str, Columns] = {}
        for line in self._host_lines():
            try:
                entry = json.loads(line)
                found[entry["key"]] = entry[HOST]
            except (ValueError, KeyError, TypeError):
                continue  # A line that a crash cut off.
        return found

    def _host_lines(self) -> Iterable[str | bytes]:
        try:
            if isinstance(self.folder, Remote):
                folder = self.folder / HOST
                every = folder.read_each(sorted(folder.names()))
                return [line for _, line in every if not isinstance(line, OSError)]
            return (self.folder / "host.jsonl").read_text().splitlines()
        except OSError:
            return []


def _head(body: bytes) -> bytes:
    """Returns the bytes before a result's tables."""
    digest = hashlib.sha256(body).hexdigest()
    return f'{{"schema":{SCHEMA},"sha256":"{digest}","tables":'.encode()


#: The same for all tables.
_HEAD_BYTES = len(_head(b""))


def _body(content: bytes) -> bytes | None:
    """The tables in a file's content, if they are what was written."""
    body = content[_HEAD_BYTES:-1]
    return body if content.startswith(_head(body)) and content.endswith(b"}") else None


def _is_whole(path: Place, content: bytes) -> bool:
    if _body(content) is None:
        _log.warning("%s: is not what was written; computed again", path)
        return False
    return True


def _tables(path: Place, content: bytes) -> Tables:
    body = _body(content)
    if body is None:
        line = "not a whole result, or not what was written; run the same again"
        raise RunError(f"{path}: {line}")
    return json.loads(body)


@contextmanager
def temporary_store() -> Generator[RunStore]:
    """A store that is removed afterwards, for runs that will not be resumed."""
    with tempfile.TemporaryDirectory(prefix="halfwink-") as folder:
        yield RunStore(Path(folder))
