"""Stores batches of imported views and adds up the totals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from copydesk.analytics.log_import.batches import ImportBatch
from copydesk.analytics.page_view import DropReason
from copydesk.analytics.stores.base import Store

VIEWS_PER_FOLD = 250_000
"""An import folds after this many views: enough to share the cost of a fold, few enough to bound its memory."""


@dataclass
class ImportTotals:
    """The totals of all lines so far: lines = views + duplicates + dropped."""

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
    """Stores each batch atomically and folds now and then. Without a store (a dry run), only counts."""
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
