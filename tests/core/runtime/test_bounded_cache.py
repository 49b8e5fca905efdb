"""A cache holds what was stored, and never more than its maximum weight."""

import sys
from threading import Thread

import pytest

from copydesk.core.runtime.bounded_cache import BoundedCache


def test_value_is_returned_until_the_cache_is_full() -> None:
    cache = BoundedCache[str, int](2)
    assert cache.get("a") is None
    assert cache.store("a", 1) == 1
    cache.store("b", 2)
    assert (cache.get("a"), cache.get("b"), len(cache)) == (1, 2, 2)
    cache.store("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (None, None, 3, 1)


def test_none_can_be_cached() -> None:
    cache = BoundedCache[str, int | None](2)
    cache.store("a", None)
    assert cache.get("a", -1) is None
    assert cache.get("b", -1) == -1


def test_storing_a_key_again_replaces_its_value_and_its_weight() -> None:
    cache = BoundedCache[str, bytes](10, weigh=len)
    cache.store("other", b"1234")
    for size in (6, 1, 6, 2, 6):
        cache.store("same", bytes(size))
    assert cache.get("other") == b"1234"
    assert cache.get("same") == bytes(6)
    cache.store("same", bytes(7))
    assert cache.get("other") is None
    assert cache.get("same") == bytes(7)


def test_total_weight_is_bounded() -> None:
    cache = BoundedCache[int, bytes](100, weigh=len)
    for number in range(1_000):
        cache.store(number, bytes(number % 40))
        cached = [value for key in range(number + 1) if (value := cache.get(key)) is not None]
        assert sum(map(len, cached)) <= 100
    assert cache.get(999) == bytes(999 % 40)


def test_too_heavy_value_is_returned_but_neither_stored_nor_empties_the_cache() -> None:
    cache = BoundedCache[str, bytes](100, weigh=len, max_value_weight=10)
    cache.store("light", bytes(10))
    assert cache.store("heavy", bytes(11)) == bytes(11)
    assert (cache.get("light"), cache.get("heavy")) == (bytes(10), None)
    cache.store("light", bytes(11))
    assert cache.get("light") is None, "the earlier value is outdated"
    assert BoundedCache[str, bytes](100, weigh=len).store("heavier than the cache", bytes(101)) == bytes(101)


def test_cleared_cache_is_empty_and_has_its_whole_size_again() -> None:
    cache = BoundedCache[int, int](3)
    for number in range(3):
        cache.store(number, number)
    cache.clear()
    assert (len(cache), cache.get(0)) == (0, None)
    for number in range(3):
        cache.store(number, number)
    assert [cache.get(number) for number in range(3)] == [0, 1, 2]


@pytest.mark.deep
def test_threads_share_a_cache() -> None:
    cache = BoundedCache[int, int](50)
    wrong = list[int | None]()

    def store_and_read() -> None:
        for number in range(20_000):
            key = number % 120
            cache.store(key, key)
            if (value := cache.get(key)) not in (None, key) or len(cache) > 50:
                wrong.append(value)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=store_and_read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    cache.clear()
    for key in range(50):
        cache.store(key, key)
    assert [cache.get(key) for key in range(50)] == list(range(50))
