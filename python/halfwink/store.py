"""Finished runs in a folder: each loses nothing when the next one fails."""

from __future__ import annotations

import json
import os
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


class RunStore:
    """Finished runs in a folder, one file each: ``KEY.json``, there only when it is whole.

    A file holds nothing but what the job determines, so equal jobs give equal bytes on any host.
    What the host took is appended to ``host.jsonl``, a line for each run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def has(self, key: str) -> bool:
        """Whether the result with this key is there and whole."""
        try:
            with self._path(key).open("rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) == b"}"
        except OSError:
            return False

    def load(self, key: str) -> Tables:
        """The result with this key, without host facts; raises RunError if it cannot be read."""
        path = self._path(key)
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            line = f"{path}: not a whole result ({error}); remove it and run the same again"
            raise RunError(line) from error

    def save(self, key: str, tables: Tables) -> None:
        """Keeps a result; raises RunError in one line if the disk refuses."""
        result = {name: columns for name, columns in tables.items() if name != HOST}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(key), json.dumps(result, separators=(",", ":")))
            self._note_host(key, tables.get(HOST, []))
        except OSError as error:
            raise RunError(f"{self.folder}: cannot keep a result: {error.strerror}") from error

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


@contextmanager
def temporary_store() -> Generator[RunStore]:
    """A store that is gone afterwards, for runs that nobody wants to resume."""
    with tempfile.TemporaryDirectory(prefix="halfwink-") as folder:
        yield RunStore(Path(folder))
