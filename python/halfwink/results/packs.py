"""Many results in one file: folders with a file for each of 100,000 results are slow everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from pathlib import Path

from halfwink.files import write_whole

#: Results of one command that are packed together, at least and at most. Fewer stay files of their
#: own, so that a small study has each result under its key.
LEAST, MOST = 32, 1024
#: The names of packs.
PATTERN = "pack-*.jsonl"


class Packs:
    """Packs of a folder: files of lines ``KEY CONTENT``, where the content is that of ``KEY.json``.

    A pack is there only when it is whole, and never changes. Commands that share a folder pack what
    each of them wrote, so that none waits for another.
    """

    def __init__(self, folder: Path) -> None:
        """Packs in this folder, which need not be there."""
        self._folder = folder
        self._seen: set[Path] = set()
        #: File, offset and length of each copy of a result.
        self._places: dict[str, list[tuple[Path, int, int]]] = {}

    def contents(self, key: str, *, look: bool = True) -> Generator[bytes]:
        """Yields the copies of a result, as they were read; looks for new packs if there is none.

        Raises:
            OSError: a pack cannot be read.
        """
        if key not in self._places and look:
            self.look()
        for path, offset, length in self._places.get(key, ()):
            with path.open("rb") as file:
                file.seek(offset)
                yield file.read(length)

    def look(self) -> None:
        """Reads which results are in packs that came since the last look; raises OSError."""
        for path in sorted(set(self._folder.glob(PATTERN)) - self._seen):
            offset = 0
            with path.open("rb") as file:
                for line in file:
                    key, _, content = line.partition(b" ")
                    place = (path, offset + len(key) + 1, len(content.rstrip(b"\n")))
                    self._places.setdefault(key.decode(errors="replace"), []).append(place)
                    offset += len(line)
            self._seen.add(path)

    def pack(self, keys: Sequence[str]) -> None:
        """Moves results from files of their own into packs; raises OSError."""
        for begin in range(0, len(keys), MOST):
            chunk = sorted(keys[begin : begin + MOST])
            files = {key: self._folder / f"{key}.json" for key in chunk}
            lines = [
                key.encode() + b" " + path.read_bytes() + b"\n"
                for key, path in files.items()
                if path.exists()
            ]
            if not lines:
                continue
            name = hashlib.sha256(b"".join(lines)).hexdigest()[:32]
            # The pack is whole before a file goes: a command that is killed here leaves both.
            write_whole(self._folder / f"pack-{name}.jsonl", b"".join(lines))
            for path in files.values():
                path.unlink(missing_ok=True)
