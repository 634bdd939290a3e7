"""Files that are whole or not there."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that it is either complete or not there; raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        # A device or a pipe is written to, not replaced.
        with path.open("wb", buffering=0) as out:
            out.write(data)
        return
    # Its name is known before it is made: wherever a signal interrupts this, it is taken away.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as out:
            out.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
