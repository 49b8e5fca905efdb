"""Batches go into the store, and what came of them is added up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from copydesk.analytics.log_import.batches import Batch
from copydesk.analytics.page_view import Reason
from copydesk.analytics.stores.base import Store

FOLDED_TOGETHER = 250_000
"""Views after which a fold is worth its while: enough that many share its costs, few enough for little memory."""


@dataclass
class Tally:
    """What came of all lines so far: lines = views + duplicates + what was dropped."""

    lines: int = 0
    views: int = 0
    duplicates: int = 0
    read: int = 0
    dropped: dict[Reason, int] = field(default_factory=dict)
    samples: dict[Reason, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, batch: Batch, duplicates: int) -> None:
        self.lines += batch.lines
        self.views += len(batch.views) - duplicates
        self.duplicates += duplicates
        self.read += batch.read
        self.faults += batch.faults
        for reason, count in batch.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.samples.setdefault(reason, batch.samples[reason])


def keep(batches: Iterable[Batch], store: Store | None, tally: Tally, seen: Callable[[], None]) -> None:
    """Each batch is kept whole or not at all. Without a store nothing is kept, only counted."""
    waiting = 0
    for batch in batches:
        logged = store.log(batch.views) if store and batch.views else None
        tally.add(batch, len(logged.duplicates) if logged else 0)
        seen()
        waiting += logged.accepted if logged else 0
        if store and waiting >= FOLDED_TOGETHER:
            store.fold()
            waiting = 0
    if store and waiting:
        store.fold()
