"""Finished runs in a folder: each loses nothing when the next one fails."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halfwink.errors import RunError
from halfwink.files import write_whole

#: A table of the native module: name, kind (text, integer, real) and values of each column.
Columns = list[tuple[str, str, list[Any]]]
Tables = dict[str, Columns]

#: What the host took for a run: not part of its result.
HOST = "host"
#: Of the files. Another one's results are computed again.
SCHEMA = 1
_log = logging.getLogger("halfwink")


class RunStore:
    """Finished runs in a folder, one file each: ``KEY.json``, there only when it is whole.

    A file is one JSON object: ``schema``, ``sha256`` (of the bytes of the tables), ``tables``. It
    holds nothing but what the job determines, so equal jobs give equal bytes on any host.
    What the host took is appended to ``host.jsonl``, a line for each run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def has(self, key: str) -> bool:
        """Whether the result with this key is there and what was written. One that is not is told
        of, once: it will be computed again."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            _log.warning("%s: %s; computed again", path, error.strerror)
            return False
        if _body(content) is None:
            _log.warning("%s: is not what was written; computed again", path)
            return False
        return True

    def load(self, key: str) -> Tables:
        """The result with this key, without host facts; raises RunError if it is not what was
        written."""
        path = self._path(key)
        try:
            body = _body(path.read_bytes())
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from error
        if body is None:
            line = "not a whole result, or not what was written; run the same again"
            raise RunError(f"{path}: {line}")
        return json.loads(body)

    def save(self, key: str, tables: Tables) -> None:
        """Keeps a result; raises RunError in one line if the disk refuses."""
        result = {name: columns for name, columns in tables.items() if name != HOST}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            body = json.dumps(result, separators=(",", ":")).encode()
            write_whole(self._path(key), _head(body) + body + b"}")
            self._note_host(key, tables.get(HOST, []))
        except OSError as error:
            # Of a full disk the library names no file.
            where = error.filename or self._path(key)
            raise RunError(f"{where}: cannot keep a result: {error.strerror}") from error

    def _note_host(self, key: str, columns: Columns) -> None:
        line = json.dumps({"key": key, HOST: columns}) + "\n"
        # One write to a file opened for appending: lines of several processes do not mix.
        with (self.folder / "host.jsonl").open("ab", buffering=0) as out:
            out.write(line.encode())

    def hosts(self) -> dict[str, Columns]:
        """What the host took, by key; the last time for a result that was computed again."""
        found: dict[str, Columns] = {}
        try:
            text = (self.folder / "host.jsonl").read_text()
        except OSError:
            return found
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                found[entry["key"]] = entry[HOST]
            except (ValueError, KeyError, TypeError):
                continue  # A line that a crash cut off.
        return found


def _head(body: bytes) -> bytes:
    """What stands before a result's tables."""
    digest = hashlib.sha256(body).hexdigest()
    return f'{{"schema":{SCHEMA},"sha256":"{digest}","tables":'.encode()


#: The same for all tables.
_HEAD_BYTES = len(_head(b""))


def _body(content: bytes) -> bytes | None:
    """The tables in a file's content, if they are what was written."""
    body = content[_HEAD_BYTES:-1]
    return body if content.startswith(_head(body)) and content.endswith(b"}") else None


@contextmanager
def temporary_store() -> Generator[RunStore]:
    """A store that is gone afterwards, for runs that nobody wants to resume."""
    with tempfile.TemporaryDirectory(prefix="halfwink-") as folder:
        yield RunStore(Path(folder))
