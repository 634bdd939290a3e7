"""Techniques that run on this machine."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.live.router import LiveRouter
    from halfwink.live.served import check

__all__ = [
    "LiveRouter",
    "check",
]
#: Module of each name.
_HOMES = {
    "LiveRouter": "live.router",
    "check": "live.served",
}
__getattr__ = lazily(__name__, _HOMES)
