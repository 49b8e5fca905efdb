"""The rows that a fold adds to the index are joined in ranges of days, which changes nothing but the memory."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from copydesk.analytics.stores.duckdb.folding import links
from copydesk.analytics.stores.duckdb.folding.links import NO_ROWS, IndexRows, join_index_rows

Sums = Counter[tuple[int, int, int, int]]
"""Numbers by scope, day, previous day and the column that they belong to."""


def make_part(chance: np.random.Generator, rows: int, days: int, first_day: int = 19_000) -> IndexRows:
    """Makes distinct rows ordered by day, as `count_links` returns them."""
    codes = np.unique(chance.integers(0, days * 4 * 3, rows))
    day, prev, scope = codes // 12 + first_day, codes // 3 % 4, codes % 3
    numbers = [chance.integers(-1, 2, len(codes), dtype=np.int32) for _ in range(3)]
    return IndexRows(scope.astype(np.int32), day.astype(np.uint16), prev.astype(np.uint16), *numbers)


def add_up(parts: list[IndexRows]) -> Sums:
    sums: Sums = Counter()
    for part in parts:
        for scope, day, prev, *numbers in zip(*(column.tolist() for column in part.columns()), strict=True):
            for column, number in enumerate(numbers):
                sums[scope, day, prev, column] += number
    return Counter({key: number for key, number in sums.items() if number})


@pytest.mark.deep
@pytest.mark.parametrize("max_joined_rows", [1, 20, 200_000])
@pytest.mark.parametrize(("first_day", "days"), [(19_000, 1), (19_000, 5), (19_000, 300), (0, 4), (65_533, 3)])
def test_joined_rows_are_the_sums_of_all_parts(
    monkeypatch: pytest.MonkeyPatch, max_joined_rows: int, first_day: int, days: int
) -> None:
    monkeypatch.setattr(links, "MAX_JOINED_ROWS", max_joined_rows)
    for seed in range(30):
        chance = np.random.default_rng(seed)
        part_rows = chance.integers(0, 200, int(chance.integers(2, 6))).tolist()
        parts = [make_part(chance, rows, days, first_day) for rows in part_rows]
        joined = list(join_index_rows(parts))
        assert add_up(joined) == add_up(parts)
        assert sum(map(len, joined)) == len({key[:3] for key in add_up(parts)}), "no row twice, none with zeros only"
        all_days = np.concatenate([rows.day for rows in [NO_ROWS, *joined]])
        assert (all_days[1:] >= all_days[:-1]).all()


def test_rows_are_joined_in_ranges_of_whole_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_JOINED_ROWS", 100)
    chance = np.random.default_rng(1)
    parts = [make_part(chance, 500, 60) for _ in range(4)]
    joined = list(join_index_rows(parts))
    assert len(joined) >= sum(map(len, parts)) // 130
    assert max(map(len, joined)) < 100 + 4 * 12, "a day has at most twelve rows of each part"
    assert all(before.day[-1] < after.day[0] for before, after in pairwise(joined))


def test_nothing_is_joined_to_nothing() -> None:
    assert sum(map(len, join_index_rows([NO_ROWS, NO_ROWS]))) == 0
