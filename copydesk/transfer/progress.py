"""Whoever copies says how far it is; whoever asked shows that, or not."""

from typing import Protocol


class Progress(Protocol):
    def start_stage(self, stage: str, total: int | None = None) -> None:
        """Something else is done from here on, of so many rows."""

    def advance(self, count: int) -> None: ...


class SilentProgress:
    def start_stage(self, stage: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int) -> None:
        pass
