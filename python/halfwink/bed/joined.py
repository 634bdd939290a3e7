"""Base of all beds: namespaces that are made, joined, used and ended together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from halfwink.bed.places import Place, Places
from halfwink.errors import HalfwinkError


class Joined(ABC):
    """Namespaces; ``with`` makes and joins them."""

    #: Names of the namespaces.
    names: tuple[str, ...]

    def __init__(self, names: tuple[str, ...], *, user_namespace: bool | None) -> None:
        """Describes them; `user_namespace`: needs no rights (default: unless we are root)."""
        self.names = names
        self._user = user_namespace
        self._places: Places | None = None

    def __enter__(self) -> Self:
        self._places = Places(self.names, user=self._user)
        try:
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _join(self) -> None:
        """Joins the fresh namespaces."""

    def close(self) -> None:
        """Ends all that runs in them, and them."""
        places, self._places = self._places, None
        if places is not None:
            places.close()

    def _place(self, name: str) -> Place:
        if self._places is None:
            kind = type(self).__name__
            raise HalfwinkError(f"{kind} is not made; use it as `with {kind}(...) as it:`")
        return self._places.all[name]
