"""Splits items into batches of a limited size."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def split_into_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the items in lists of `size`; the last may be shorter. Reads only one batch ahead."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
