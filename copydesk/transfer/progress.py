"""The interface through which copying reports its progress."""

from typing import Protocol


class Progress(Protocol):
    def start_stage(self, stage: str, total: int | None = None) -> None:
        """Begins another stage. `total` is its number of rows, None if unknown."""

    def advance(self, count: int) -> None: ...


class SilentProgress:
    def start_stage(self, stage: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int) -> None:
        pass
