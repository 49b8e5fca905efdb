"""Exports the days of a project: skips finished files that are still right, and replaces those whose data changed."""

import errno
import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import DayRange, Store
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.export_format import EXPORT_SCHEMA_VERSION, RAW_DATASET, ExportDay, ExportFormat
from copydesk.core import clock
from copydesk.core.errors import UserFacingError
from copydesk.core.runtime.durable_files import sync_to_disk
from copydesk.transfer.backup.manifest import checksum_file
from copydesk.transfer.export.manifest import ExportManifest, ManifestEntry
from copydesk.transfer.progress import Progress

DAYS_PER_LOOK = 31
"""How many days the store is asked about at once."""
UNFINISHED_SUFFIX = ".unfinished"
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class ExportFailed(UserFacingError):
    """The export cannot continue; the message says why."""


@dataclass(frozen=True)
class ExportRequest:
    project_id: str
    datasets: Sequence[str]
    file_format: ExportFormat
    days: DayRange


@dataclass
class ExportResult:
    written: list[ManifestEntry] = field(default_factory=list)
    unchanged: int = 0
    kept: list[str] = field(default_factory=list)
    """Files with raw views that the store has deleted since, in whole or in part."""
    orphaned: list[str] = field(default_factory=list)
    """Files of days that the store has no data of any more. They stay until the user deletes them."""


def export_project(store: Store, request: ExportRequest, folder: Path, progress: Progress) -> ExportResult:
    """Exports the days of the request into the folder, creating it if needed. Can be run again at any time."""
    result = ExportResult()
    with _explain_disk_errors(folder), _open_folder(folder):
        manifest = ExportManifest(folder, request.project_id)
        for file in folder.glob(f".*{UNFINISHED_SUFFIX}"):
            file.unlink()  # a killed export has left it
        store.fold()
        stored_days: set[int] = set()
        for days in _split_range(store.find_export_range(request.project_id), request.days):
            export_days = store.list_export_days(request.project_id, days)
            stored_days.update(export_day.day for export_day in export_days)
            progress.start_stage(format_day(days.first), len(export_days))
            for export_day in export_days:
                for dataset in request.datasets:
                    _export_file(store, request, export_day, dataset, folder, manifest, result)
                progress.advance(1)
        result.orphaned = _list_orphaned_files(manifest, request, stored_days)
    return result


def _export_file(
    store: Store,
    request: ExportRequest,
    export_day: ExportDay,
    dataset: str,
    folder: Path,
    manifest: ExportManifest,
    result: ExportResult,
) -> None:
    """Writes a file under a temporary name, renames it, and adds it to the manifest, unless it is finished already."""
    is_raw = dataset == RAW_DATASET
    data_fingerprint = export_day.get_fingerprint(dataset)
    is_complete = export_day.has_all_raw_views or not is_raw
    date = format_day(export_day.day)
    target = folder / f"{dataset}-{date}.{request.file_format}"
    entry = manifest.entries.get(target.name)
    if entry and not _has_size(target, entry.bytes):
        entry = None
    if entry and entry.complete and not is_complete:
        result.kept.append(target.name)
        return
    if not data_fingerprint:
        return
    fingerprint = f"{EXPORT_SCHEMA_VERSION}-{data_fingerprint}"
    if entry and entry.fingerprint == fingerprint:
        result.unchanged += 1
        return
    unfinished = folder / f".{target.name}{UNFINISHED_SUFFIX}"
    row_count = store.export_day(request.project_id, dataset, export_day.day, request.file_format, unfinished)
    unfinished.chmod(0o600)  # the process that owns the store may have another umask
    sync_to_disk(unfinished)
    checksum = checksum_file(unfinished)
    os.replace(unfinished, target)
    sync_to_disk(folder)
    new_entry = ManifestEntry(
        file=target.name,
        dataset=dataset,
        date=date,
        rows=row_count,
        bytes=checksum.bytes,
        sha256=checksum.sha256,
        complete=is_complete,
        fingerprint=fingerprint,
        exported_at=clock.format_iso(clock.now()),
    )
    manifest.add(new_entry)
    result.written.append(new_entry)


def _split_range(stored: DayRange | None, requested: DayRange) -> Iterator[DayRange]:
    """Yields the requested days that the store may have, in ranges of at most DAYS_PER_LOOK days."""
    if stored is None:
        return
    end = min(stored.end, requested.end)
    for first in range(max(stored.first, requested.first), end, DAYS_PER_LOOK):
        yield DayRange(first, min(first + DAYS_PER_LOOK, end))


def _list_orphaned_files(manifest: ExportManifest, request: ExportRequest, stored_days: Collection[int]) -> list[str]:
    stored_dates = {format_day(day) for day in stored_days}
    first_date, end_date = format_day(request.days.first), format_day(request.days.end)
    return sorted(
        entry.file
        for entry in manifest.entries.values()
        if entry.dataset in request.datasets and first_date <= entry.date < end_date and entry.date not in stored_dates
    )


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


@contextmanager
def _open_folder(folder: Path) -> Iterator[None]:
    """Creates the folder and locks it against other exports."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileExistsError, NotADirectoryError):
        raise ExportFailed(f"{folder} is not a folder. Choose another.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ExportFailed(f"Another export is writing to {folder}. Wait for it, or choose another folder.") from None
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explain_disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except StoreFull:
        raise ExportFailed(_describe_full_disk(folder)) from None
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            raise ExportFailed(_describe_full_disk(folder)) from None
        raise ExportFailed(f"{folder} cannot be written: {error.strerror or error}.") from None


def _describe_full_disk(folder: Path) -> str:
    return (
        f"The disk of {folder} or of the data folder is full. Finished files are kept. "
        "Free some space and run the command again: it continues where it stopped."
    )
