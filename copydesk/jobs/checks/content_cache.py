"""Keeps what was read from a file under the id of its content, so that nothing here goes stale."""

from collections.abc import Callable
from typing import Any, TypeVar

import pygit2

T = TypeVar("T")
MAX_CACHE_WEIGHT = 2_000_000
"""Things kept, in all: about 100,000 pages. Too much of it is dropped at once."""


class _ContentCache:
    def __init__(self, max_weight: int) -> None:
        self.max_weight, self.total_weight = max_weight, 0
        self.values: dict[tuple[pygit2.Oid, str], Any] = {}

    def get(self, oid: pygit2.Oid, kind: str, parse: Callable[[], T]) -> T:
        key = (oid, kind)
        if key in self.values:
            cached: T = self.values[key]
            return cached
        value = parse()
        weight = getattr(value, "weight", 20)
        if self.total_weight + weight > self.max_weight:
            self.values = {}
            self.total_weight = 0
        self.values[key] = value
        self.total_weight += weight
        return value


_cache = _ContentCache(MAX_CACHE_WEIGHT)


def get_or_parse(oid: pygit2.Oid, kind: str, parse: Callable[[], T]) -> T:
    """`what` tells apart the things that are made of one content."""
    return _cache.get(oid, kind, parse)


def clear() -> None:
    """For measuring: as if nothing had been read."""
    _cache.values, _cache.total_weight = {}, 0
