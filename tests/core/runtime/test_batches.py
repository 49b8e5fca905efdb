"""Batches hold all items in their order."""

from itertools import count

import pytest

from copydesk.core.runtime.batches import split_into_batches


@pytest.mark.parametrize(
    ("items", "batches"),
    [("", []), ("a", [["a"]]), ("abc", [["a", "b", "c"]]), ("abcdefg", [["a", "b", "c"], ["d", "e", "f"], ["g"]])],
)
def test_items_are_split_in_order(items: str, batches: list[list[str]]) -> None:
    assert list(split_into_batches(items, 3)) == batches


def test_batches_are_read_one_at_a_time() -> None:
    endless = count()
    assert next(split_into_batches(endless, 3)) == [0, 1, 2]
    assert next(endless) == 3
