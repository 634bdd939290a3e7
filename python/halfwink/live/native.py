"""The native module of the live parts, loaded when something of it is used first.

It is no part of the base package, and a clone builds it when it is wanted: see
`halfwink.installed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfwink import installed

if TYPE_CHECKING:
    from halfwink._live import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
else:

    def __getattr__(name: str) -> Any:
        return getattr(installed.live_module(), name)
