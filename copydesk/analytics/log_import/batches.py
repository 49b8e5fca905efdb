"""From files to batches of views, every line accounted for."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from copydesk.analytics.log_import.formats import AUTO, FORMATS, Format, format_of
from copydesk.analytics.log_import.line_converter import Job, Judge
from copydesk.analytics.log_import.log_files import Block, Log, is_stream, opened
from copydesk.analytics.log_import.log_line import Line
from copydesk.analytics.page_view import Dropped, Reason, View

TOGETHER = 10_000
"""Views of one batch, more or less."""
READ_TOGETHER = 8_000_000
"""Bytes after which a batch is passed on, however few views it has, so that people see it go on."""
TORN = Dropped(Reason.TORN_LINE)


@dataclass
class Batch:
    """What came of some lines: lines = views + what was dropped."""

    views: list[View] = field(default_factory=list)
    lines: int = 0
    dropped: dict[Reason, int] = field(default_factory=dict)
    samples: dict[Reason, str] = field(default_factory=dict)
    """For each reason the first line that was dropped for it, as FILE:LINE."""
    read: int = 0
    """Bytes of the files, as they lie on the disk."""
    faults: list[str] = field(default_factory=list)
    """Files that could not be read to their end, and why."""


def check(job: Job) -> None:
    """Looks whether all files can be read and are logs, before anything of the first one is kept. Pipes must wait."""
    for name in job.names:
        if not is_stream(name):
            with opened(name) as log:
                _format(job, next(log.blocks(), None), log)


def batches(job: Job) -> Iterator[Batch]:
    """All files in turn; many small ones share a batch."""
    batch = Batch()
    for name in job.names:
        with opened(name) as log:
            batch = yield from _file(job, log, batch)
    yield batch


def _file(job: Job, log: Log, batch: Batch) -> Generator[Batch, None, Batch]:
    """Goes on with the batch of the file before, and returns the one for the next."""
    view, number, read = Judge(job).view, 0, 0
    known: Format | None = None
    for block in log.blocks():
        known = known or _format(job, block, log)
        for found in _lines(known, block, log):
            number += 1
            if found is None:
                continue
            batch.lines += 1
            outcome = view(found) if isinstance(found, Line) else found
            if isinstance(outcome, View):
                batch.views.append(outcome)
            elif outcome.reason in batch.dropped:
                batch.dropped[outcome.reason] += 1
            else:
                batch.dropped[outcome.reason] = 1
                batch.samples[outcome.reason] = f"{log.name}:{number}"
        batch.read, read = batch.read + log.read - read, log.read
        if len(batch.views) >= TOGETHER or batch.read >= READ_TOGETHER:
            yield batch
            batch = Batch()
    batch.read += log.read - read
    if log.fault:
        batch.faults.append(f"{log.name}: {log.fault}")
    return batch


def _lines(known: Format, block: Block, log: Log) -> Iterator[Line | Dropped | None]:
    if block.ended or (not log.fault and known.whole(block.text)):
        return known.read(block.text)
    return iter((TORN,))


def _format(job: Job, block: Block | None, log: Log) -> Format:
    return format_of(block.text if block else "", log.name) if job.format == AUTO else FORMATS[job.format]()
