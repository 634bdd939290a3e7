"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that it is either complete or not there; raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        # A device or a pipe is written to, not replaced.
        with path.open("wb", buffering=0) as out:
            out.write(data)
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            # A temporary file is private; what others may read is the user's umask to say.
            os.fchmod(out.fileno(), 0o666 & ~_umask())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
