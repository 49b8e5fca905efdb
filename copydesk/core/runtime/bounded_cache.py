"""A cache with a bounded size, which several threads may share."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Caches values by key. Empties itself when the next value would exceed the maximum weight.

    Emptying is cheaper than recording which value was used last: a read costs as much as a read of a dictionary.
    """

    def __init__(
        self, max_weight: int, weigh: Callable[[V], int] = lambda _: 1, max_value_weight: int | None = None
    ) -> None:
        """`weigh` returns the weight of a value, always the same for the same value. By default every value weighs 1,
        so that `max_weight` is the number of values. Values heavier than `max_value_weight` are not stored."""
        self._max_weight = max_weight
        self._max_value_weight = max_weight if max_value_weight is None else max_value_weight
        self._weigh = weigh
        self._total_weight = 0
        self._lock = Lock()
        self._values: dict[K, V] = {}
        self.get = self._values.get
        """Returns the value of a key; if it is not cached, the second argument or None. Takes no lock."""

    def __len__(self) -> int:
        return len(self._values)

    def store(self, key: K, value: V) -> V:
        """Replaces the value of the key, and returns it. A value that is too heavy is not stored."""
        weight = self._weigh(value)
        with self._lock:
            if key in self._values:
                self._total_weight -= self._weigh(self._values.pop(key))
            if weight <= self._max_value_weight:
                if self._total_weight + weight > self._max_weight:
                    self._empty()
                self._values[key] = value
                self._total_weight += weight
        return value

    def clear(self) -> None:
        with self._lock:
            self._empty()

    def _empty(self) -> None:
        self._values.clear()  # in place, because `get` reads this dictionary
        self._total_weight = 0
