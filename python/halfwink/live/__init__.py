"""Techniques that run on this machine."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.live.router import LiveRouter

__all__ = [
    "LiveRouter",
]
#: Module of each name.
_HOMES = {
    "LiveRouter": "live.router",
}
__getattr__ = lazily(__name__, _HOMES)
