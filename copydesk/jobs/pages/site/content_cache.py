"""Caches values that were parsed from a file by the ID of its content, so that no entry becomes stale."""

from collections.abc import Callable
from typing import Any, TypeVar

import pygit2

from copydesk.core.runtime.bounded_cache import BoundedCache

T = TypeVar("T")
MAX_CACHE_WEIGHT = 2_000_000
"""Maximum total weight of the cached values, about 100,000 pages. When it would be exceeded, the cache is emptied."""
DEFAULT_WEIGHT = 20
MISSING = object()

_cache = BoundedCache[tuple[pygit2.Oid, str], Any](
    MAX_CACHE_WEIGHT, weigh=lambda value: getattr(value, "weight", DEFAULT_WEIGHT)
)


def get_or_parse(oid: pygit2.Oid, kind: str, parse: Callable[[], T]) -> T:
    """Returns the cached value, or parses and caches it. `kind` distinguishes values parsed from the same content."""
    key = (oid, kind)
    cached = _cache.get(key, MISSING)
    value: T = _cache.store(key, parse()) if cached is MISSING else cached
    return value


clear = _cache.clear
"""Empties the cache, for benchmarks."""
