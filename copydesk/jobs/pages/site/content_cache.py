"""Caches values that were parsed from a file by the ID of its content, so that no entry becomes stale."""

from collections.abc import Callable
from typing import Any, TypeVar

import pygit2

T = TypeVar("T")
MAX_CACHE_WEIGHT = 2_000_000
"""Maximum total weight of the cached values, about 100,000 pages. When it would be exceeded, the cache is emptied."""


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
    """Returns the cached value, or parses and caches it. `kind` distinguishes values parsed from the same content."""
    return _cache.get(oid, kind, parse)


def clear() -> None:
    """Empties the cache, for benchmarks."""
    _cache.values, _cache.total_weight = {}, 0
