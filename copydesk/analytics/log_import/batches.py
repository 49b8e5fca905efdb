"""Reads log files into batches of views. Every line is counted, as a view or with the reason why it was dropped."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from copydesk.analytics.log_import.file_check import choose_format, parse_block
from copydesk.analytics.log_import.formats import LogFormat
from copydesk.analytics.log_import.line_converter import ImportRequest, LineConverter
from copydesk.analytics.log_import.log_files import LogFile, open_log_file
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.page_view import DropReason, PageView

VIEWS_PER_BATCH = 10_000
"""A batch ends after the block in which it reaches this many views."""
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
    line_number = 0
    counted_bytes = 0
    log_format: LogFormat | None = None
    for block in log_file.read_blocks():
        log_format = log_format or choose_format(request, block, log_file.name)
        for parsed in parse_block(log_format, block, log_file):
            line_number += 1
            if parsed is None:
                continue
            batch.lines += 1
            outcome = convert(parsed) if isinstance(parsed, LogLine) else parsed
            if isinstance(outcome, PageView):
                batch.views.append(outcome)
            elif outcome.reason in batch.dropped:
                batch.dropped[outcome.reason] += 1
            else:
                batch.dropped[outcome.reason] = 1
                batch.samples[outcome.reason] = f"{log_file.name}:{line_number}"
        batch.bytes_read += log_file.bytes_read - counted_bytes
        counted_bytes = log_file.bytes_read
        if len(batch.views) >= VIEWS_PER_BATCH or batch.bytes_read >= MAX_BYTES_PER_BATCH:
            yield batch
            batch = ImportBatch()
    batch.bytes_read += log_file.bytes_read - counted_bytes
    if log_file.read_error:
        batch.read_errors.append(f"{log_file.name}: {log_file.read_error}")
    return batch
