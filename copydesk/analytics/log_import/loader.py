"""Stores batches of imported views and adds up the totals."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from copydesk.analytics.log_import.batches import ImportBatch
from copydesk.analytics.log_import.file_check import choose_format
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_files import open_log_file
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import DropReason
from copydesk.analytics.stores.base import RawViewsDeleted, Store

VIEWS_PER_FOLD = 250_000
"""An import folds after this many views: enough to share the cost of a fold, few enough to bound its memory."""

EVENTS_PER_WITHDRAWAL = 200_000
"""How many lines are withdrawn at once. Each time, the days of their views are counted again."""


@dataclass
class ImportTotals:
    """The totals of all lines so far: lines = views + duplicates + dropped."""

    lines: int = 0
    views: int = 0
    duplicates: int = 0
    replaced: int = 0
    """Views of an earlier import that were removed."""
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


def withdraw_earlier_import(request: ImportRequest, store: Store) -> int:
    """Removes the views that an earlier import counted for the lines of these files. Returns how many.

    Includes lines that are not views any more, for example because they were parsed in another format. Raises
    RawViewsDeleted if nothing can be removed; otherwise lines of days without raw views stay as they are.
    """
    store.fold()
    project_id = request.site.project_id
    events = _list_events(request)
    withdrawn = 0
    while chunk := list(islice(events, EVENTS_PER_WITHDRAWAL)):
        try:
            withdrawn += store.withdraw_views(project_id, chunk)
        except RawViewsDeleted:
            if not withdrawn:
                raise
    return withdrawn


def _list_events(request: ImportRequest) -> Iterator[int]:
    """Yields the events that identify the lines of all files."""
    hash_event = request.site.hasher.hash_event
    for name in request.file_names:
        line_ids = LineIds()
        log_format = None
        with open_log_file(name, request.copies.get(name)) as log_file:
            for block in log_file.read_blocks():
                log_format = log_format or choose_format(request, block, log_file.name)
                for text, parsed in zip(block.text.split("\n"), log_format.parse_lines(block.text), strict=True):
                    if text:
                        yield hash_event(line_ids.next_id(text))
                    if isinstance(parsed, LogLine) and parsed.extra and parsed.extra.event_id:
                        yield hash_event(parsed.extra.event_id)
