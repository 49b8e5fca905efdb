"""Keeps what was read from a file under the id of its content, so that nothing here goes stale."""

from collections.abc import Callable
from typing import Any, TypeVar

import pygit2

T = TypeVar("T")
MOST = 2_000_000
"""Things kept, in all: about 100,000 pages. Too much of it is dropped at once."""


class _Kept:
    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0
        self.values: dict[tuple[pygit2.Oid, str], Any] = {}

    def get(self, oid: pygit2.Oid, what: str, make: Callable[[], T]) -> T:
        key = (oid, what)
        if key in self.values:
            known: T = self.values[key]
            return known
        value = make()
        weight = getattr(value, "weight", 20)
        if self.size + weight > self.most:
            self.values = {}
            self.size = 0
        self.values[key] = value
        self.size += weight
        return value


_kept = _Kept(MOST)


def kept(oid: pygit2.Oid, what: str, make: Callable[[], T]) -> T:
    """`what` tells apart the things that are made of one content."""
    return _kept.get(oid, what, make)


def forget() -> None:
    """For measuring: as if nothing had been read."""
    _kept.values, _kept.size = {}, 0
