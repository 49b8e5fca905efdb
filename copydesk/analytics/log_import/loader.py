"""Stores batches of imported views and adds up the totals."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from copydesk.analytics.log_import.batches import ImportBatch
from copydesk.analytics.log_import.file_check import FileFacts, choose_format, require_trusted
from copydesk.analytics.log_import.held_views import HeldViews
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_files import open_log_file
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import DropReason, PageView
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.errors import RawViewsDeleted

VIEWS_PER_FOLD = 250_000
"""An import folds after this many views: enough to share the cost of a fold, few enough to bound its memory."""

EVENTS_PER_WITHDRAWAL = 200_000
"""How many lines are withdrawn at once. Each time, the days of their views are counted again."""


@dataclass
class ImportTotals:
    """The totals of all lines so far: lines = views + missing + duplicates + dropped."""

    lines: int = 0
    views: int = 0
    missing: int = 0
    """Requests for missing pages."""
    duplicates: int = 0
    replaced: int = 0
    """Views of an earlier import that were removed."""
    bytes_read: int = 0
    dropped: dict[DropReason, int] = field(default_factory=dict)
    samples: dict[DropReason, str] = field(default_factory=dict)
    read_errors: list[str] = field(default_factory=list)
    files: list[FileFacts] = field(default_factory=list)

    def add_read(self, batch: ImportBatch) -> None:
        self.lines += batch.lines
        self.bytes_read += batch.bytes_read
        self.read_errors += batch.read_errors
        self.files += batch.files
        for reason, count in batch.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.samples.setdefault(reason, batch.samples[reason])

    def add_stored(self, views: Sequence[PageView], duplicates: Sequence[int]) -> None:
        """Adds views that were stored, except those at the positions of duplicates."""
        missing = sum(view.is_missing for view in views) - sum(views[position].is_missing for position in duplicates)
        self.missing += missing
        self.views += len(views) - len(duplicates) - missing
        self.duplicates += len(duplicates)


def store_batches(
    batches: Iterable[ImportBatch], store: Store | None, totals: ImportTotals, on_progress: Callable[[], None]
) -> None:
    """Stores each batch as soon as it is read. Without a store (a dry run), only counts."""
    _store_views(_count_batches(batches, totals), store, totals, on_progress)


def store_trusted_batches(
    batches: Iterable[ImportBatch],
    store: Store | None,
    totals: ImportTotals,
    on_progress: Callable[[], None],
    before_storing: Callable[[], None] = lambda: None,
) -> None:
    """Reads all batches, and stores them if all files can be trusted. Raises UntrustedLog otherwise."""
    with HeldViews() as held_views:
        for batch in batches:
            totals.add_read(batch)
            held_views.add(batch)
            on_progress()
        require_trusted(totals.files)
        before_storing()
        _store_views(held_views.take_all(), store, totals, on_progress)


def _count_batches(batches: Iterable[ImportBatch], totals: ImportTotals) -> Iterator[list[PageView]]:
    for batch in batches:
        totals.add_read(batch)
        yield batch.take_views()


def _store_views(
    view_lists: Iterable[list[PageView]], store: Store | None, totals: ImportTotals, on_progress: Callable[[], None]
) -> None:
    """Stores each list atomically and folds now and then."""
    unfolded = 0
    for views in view_lists:
        result = store.log_views(views) if store and views else None
        totals.add_stored(views, result.duplicates if result else ())
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
