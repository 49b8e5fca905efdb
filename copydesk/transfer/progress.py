"""Whoever copies says how far it is; whoever asked shows that, or not."""

from typing import Protocol


class Progress(Protocol):
    def begin(self, what: str, total: int | None = None) -> None:
        """Something else is done from here on, of so many rows."""

    def advance(self, count: int) -> None: ...


class Silent:
    def begin(self, what: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int) -> None:
        pass
