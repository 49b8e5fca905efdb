"""Batches go into the store, and what came of them is added up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from copydesk.analytics.log_import.batches import ImportBatch
from copydesk.analytics.page_view import DropReason
from copydesk.analytics.stores.base import Store

VIEWS_PER_FOLD = 250_000
"""Views after which a fold is worth its while: enough that many share its costs, few enough for little memory."""


@dataclass
class ImportTotals:
    """What came of all lines so far: lines = views + duplicates + what was dropped."""

    lines: int = 0
    views: int = 0
    duplicates: int = 0
    bytes_read: int = 0
    dropped: dict[DropReason, int] = field(default_factory=dict)
    samples: dict[DropReason, str] = field(default_factory=dict)
    read_errors: list[str] = field(default_factory=list)

    def add(self, batch: ImportBatch, duplicates: int) -> None:
        self.lines += batch.lines
        self.views += len(batch.views) - duplicates
        self.duplicates += duplicates
        self.bytes_read += batch.bytes_read
        self.read_errors += batch.read_errors
        for reason, count in batch.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.samples.setdefault(reason, batch.samples[reason])


def store_batches(
    batches: Iterable[ImportBatch], store: Store | None, totals: ImportTotals, on_progress: Callable[[], None]
) -> None:
    """Each batch is kept whole or not at all. Without a store nothing is kept, only counted."""
    unfolded = 0
    for batch in batches:
        result = store.log_views(batch.views) if store and batch.views else None
        totals.add(batch, len(result.duplicates) if result else 0)
        on_progress()
        unfolded += result.accepted if result else 0
        if store and unfolded >= VIEWS_PER_FOLD:
            store.fold()
            unfolded = 0
    if store and unfolded:
        store.fold()
