"""Results that are several tables."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Frames:
    """A dataclass whose fields are all tables."""

    def frames(self) -> dict[str, pl.DataFrame]:
        """All tables by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def json(self) -> dict[str, list[dict[str, Any]]]:
        """All tables as rows."""
        return {name: frame.to_dicts() for name, frame in self.frames().items()}
