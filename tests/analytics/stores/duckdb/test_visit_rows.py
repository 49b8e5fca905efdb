"""Visits are grouped as a plain sort would group them, and split by key."""

from itertools import pairwise

import numpy as np
import pytest

from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Days,
    Keys,
    Scopes,
    VisitRows,
    group_visits,
    split_by_key,
)

LARGEST_SCOPE, LARGEST_DAY = 2**31 - 1, 2**16 - 1


@pytest.mark.parametrize("rows", [0, 1, 2, 50, 5_000])
@pytest.mark.parametrize("key_count", [1, 20, 10_000])
@pytest.mark.parametrize("largest_scope", [3, LARGEST_SCOPE])
def test_equal_visits_are_next_to_each_other(rows: int, key_count: int, largest_scope: int) -> None:
    chance = np.random.default_rng(rows + key_count)
    keys = chance.integers(0, 2**63 - 1, key_count)
    check_groups(
        chance.choice(keys, rows),
        chance.integers(0, largest_scope, rows, dtype=np.int32, endpoint=True),
        chance.integers(0, 3, rows, dtype=np.uint16),
    )


@pytest.mark.deep
def test_many_keys_with_the_largest_scopes_and_days_are_sorted() -> None:
    """The number of the key, the scope and the day need more than 63 bits here."""
    chance = np.random.default_rng(7)
    key = np.repeat(chance.permutation(2**17), 2)
    scope = chance.choice(np.array([1, LARGEST_SCOPE], np.int32), len(key))
    check_groups(key, scope, chance.choice(np.array([0, LARGEST_DAY], np.uint16), len(key)))


@pytest.mark.parametrize("rows", [0, 1, 3_000])
@pytest.mark.parametrize("ranges", [1, 3, 40])
def test_each_visit_is_in_one_range_of_keys(rows: int, ranges: int) -> None:
    chance = np.random.default_rng(rows + ranges)
    key = np.concatenate((chance.integers(0, 2**63 - 1, rows), [0, 2**63 - 1]))
    scope = np.arange(len(key), dtype=np.int32)
    visits = VisitRows(key, scope, np.zeros(len(key), np.uint16), np.ones(len(key), np.uint8))
    parts = list(split_by_key(visits, ranges))
    assert len(parts) == ranges
    assert sorted(row for part in parts for row in part.scope.tolist()) == scope.tolist()
    filled = [part for part in parts if len(part)]
    assert all(before.key.max() < after.key.min() for before, after in pairwise(filled))


def check_groups(key: Keys, scope: Scopes, day: Days) -> None:
    order, starts = group_visits(key, scope, day)
    assert order.tolist() == np.lexsort((day, scope, key)).tolist()
    visits = list(zip(key[order].tolist(), scope[order].tolist(), day[order].tolist(), strict=True))
    assert starts.tolist() == [row for row, visit in enumerate(visits) if row == 0 or visit != visits[row - 1]]
