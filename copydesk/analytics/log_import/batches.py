"""Reads log files into batches of views. Every line is counted, as a view or with the reason why it was dropped."""

import pickle
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

from copydesk.analytics.log_import.file_check import FileFacts, choose_format, parse_block
from copydesk.analytics.log_import.formats import MALFORMED_REASONS, LogFormat
from copydesk.analytics.log_import.line_converter import EMPTY_FIELD, ImportRequest, LineConverter
from copydesk.analytics.log_import.log_files import LogFile, open_log_file
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import Dropped, DropReason, PageView

VIEWS_PER_BATCH = 10_000
"""A batch ends after the block in which it reaches this many views."""
NO_AGENT = ("", EMPTY_FIELD)
MAX_BYTES_PER_BATCH = 8_000_000
"""A batch also ends after this many bytes, even with few views, so that the progress display advances."""


@dataclass
class ImportBatch:
    """The result of some lines: lines = views + dropped."""

    views: list[PageView] = field(default_factory=list)
    lines: int = 0
    dropped: dict[DropReason, int] = field(default_factory=dict)
    samples: dict[DropReason, str] = field(default_factory=dict)
    """For each reason, the first line that was dropped for it, as FILE:LINE."""
    bytes_read: int = 0
    """Bytes read from disk, before decompression."""
    read_errors: list[str] = field(default_factory=list)
    """Files that could not be read to the end, with the reasons."""
    files: list[FileFacts] = field(default_factory=list)
    """The files that end in this batch."""
    encoded_views: bytes = b""
    """The views as another process sent them, if `views` is empty. Decoding them is not needed to keep them."""

    def take_views(self) -> list[PageView]:
        return decode_views(self.encoded_views) if self.encoded_views else self.views


def encode_views(views: list[PageView]) -> bytes:
    """Pickles views as plain tuples, which is much faster."""
    return pickle.dumps([tuple(view) for view in views], pickle.HIGHEST_PROTOCOL)


def decode_views(data: bytes) -> list[PageView]:
    return list(map(PageView._make, pickle.loads(data)))  # noqa: S301 - from our own process or file


def read_batches(request: ImportRequest) -> Iterator[ImportBatch]:
    """Yields the batches of all files. Small files share a batch."""
    batch = ImportBatch()
    for name in request.file_names:
        with open_log_file(name, request.copies.get(name)) as log_file:
            batch = yield from _read_file(request, log_file, batch)
    yield batch


def _read_file(
    request: ImportRequest, log_file: LogFile, batch: ImportBatch
) -> Generator[ImportBatch, None, ImportBatch]:
    """Yields full batches. Continues the batch of the previous file, and returns the batch for the next file."""
    convert = LineConverter(request).convert
    facts = FileFacts(log_file.name)
    line_number = 0
    counted_bytes = 0
    log_format: LogFormat | None = None
    for block in log_file.read_blocks():
        log_format = log_format or choose_format(request, block, log_file.name)
        views: list[PageView] = []
        dropped: dict[DropReason, int] = {}
        for parsed in parse_block(log_format, block, log_file):
            line_number += 1
            if parsed is None:
                continue
            outcome: PageView | Dropped
            if isinstance(parsed, LogLine):
                outcome = convert(parsed)
                if isinstance(outcome, PageView):
                    views.append(outcome)
                    if outcome.visitor is None or parsed.user_agent in NO_AGENT:
                        _count_unidentified(facts, outcome, parsed)
                    continue
            else:
                outcome = parsed
            if outcome.reason in dropped:
                dropped[outcome.reason] += 1
            else:
                dropped[outcome.reason] = 1
                batch.samples.setdefault(outcome.reason, f"{log_file.name}:{line_number}")
                if not facts.first_malformed and outcome.reason in MALFORMED_REASONS:
                    facts.first_malformed = line_number
        _add_block(batch, facts, views, dropped)
        batch.bytes_read += log_file.bytes_read - counted_bytes
        counted_bytes = log_file.bytes_read
        if len(batch.views) >= VIEWS_PER_BATCH or batch.bytes_read >= MAX_BYTES_PER_BATCH:
            yield batch
            batch = ImportBatch()
    batch.bytes_read += log_file.bytes_read - counted_bytes
    if log_file.read_error:
        batch.read_errors.append(f"{log_file.name}: {log_file.read_error}")
    facts.set_format(log_format or choose_format(request, None, log_file.name))
    batch.files.append(facts)
    return batch


def _add_block(batch: ImportBatch, facts: FileFacts, views: list[PageView], dropped: Mapping[DropReason, int]) -> None:
    batch.views += views
    batch.lines += len(views) + sum(dropped.values())
    facts.views += len(views)
    facts.lines += len(views)
    facts.add_dropped(dropped)
    for reason, count in dropped.items():
        batch.dropped[reason] = batch.dropped.get(reason, 0) + count


def _count_unidentified(facts: FileFacts, view: PageView, line: LogLine) -> None:
    """Counts a view that lacks the visitor's address or agent. A visitor id replaces both."""
    facts.without_address += view.visitor is None
    if not (line.extra and line.extra.visitor_id):
        facts.without_agent += line.user_agent in NO_AGENT
