"""Reads the files of an export, as a zip archive or as CSV files, and finds out which tool wrote them."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from copydesk.analytics.history import HistorySource, ImportedHistory
from copydesk.transfer.history import plausible, umami
from copydesk.transfer.history.csv_rows import CsvFile, FaultLog, HistoryFileInvalid, TooManyFaults
from copydesk.transfer.history.limits import MAX_ARCHIVE_ENTRIES, MAX_UNPACKED_BYTES, ImportLimits
from copydesk.transfer.history.umami import UmamiEvents

ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OverflowError)
"""What zipfile raises for archives that are damaged, encrypted, or compressed by an unknown method."""


class HistoryReader:
    """Reads any number of files into one history."""

    def __init__(self, limits: ImportLimits | None = None) -> None:
        self.faults = FaultLog()
        self.skipped: list[str] = []
        """Files of the export that have nothing to import, such as totals by country."""
        self._limits = limits or ImportLimits()
        self._unpacked_bytes = 0
        self._history: ImportedHistory | None = None
        self._umami_events = UmamiEvents()

    def read_files(self, paths: Sequence[Path]) -> ImportedHistory:
        """Reads the files. Raises HistoryFileInvalid, which names the bad lines, if any part cannot be imported."""
        try:
            for path in paths:
                self._read_path(path)
        except TooManyFaults:
            pass
        if self.faults.count:
            raise HistoryFileInvalid(_describe_faults(self.faults))
        if self._history is None:
            raise HistoryFileInvalid(
                "No file is an export of Plausible (imported_visitors_….csv, imported_pages_….csv, or the zip archive) "
                "or Umami (website_event.csv, or the zip archive)."
            )
        if self._history.source is HistorySource.UMAMI:
            self._umami_events.store_counts(self._history)
        if not self._history.days and not self._history.pages:
            raise HistoryFileInvalid("The files have no days to import.")
        return self._history

    def _read_path(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                if zipfile.is_zipfile(file):
                    file.seek(0)
                    self._read_archive(path.name, file)
                else:
                    file.seek(0)
                    self._add_bytes(path.stat().st_size)
                    self._read_csv(path.name, file)
        except OSError as error:
            raise HistoryFileInvalid(f"{path} cannot be read: {error.strerror or error}.") from None

    def _read_archive(self, name: str, file: IO[bytes]) -> None:
        with _explain_zip_errors(name), zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".csv")]
            if len(entries) > MAX_ARCHIVE_ENTRIES:
                raise HistoryFileInvalid(f"{name} contains more than {MAX_ARCHIVE_ENTRIES:,} files.")
            for entry in entries:
                self._add_bytes(entry.file_size)
                with archive.open(entry) as stream:  # never reads more than the size that was just checked
                    self._read_csv(PurePosixPath(entry.filename).name, stream)

    def _read_csv(self, name: str, stream: IO[bytes]) -> None:
        file = CsvFile(name, stream, self.faults)
        columns = set(file.columns)
        if plausible.is_day_file(name, columns):
            plausible.read_days(file, self._begin(HistorySource.PLAUSIBLE), self.faults, self._limits)
        elif plausible.is_page_file(name, columns):
            plausible.read_pages(file, self._begin(HistorySource.PLAUSIBLE), self.faults, self._limits)
        elif columns >= umami.EVENT_COLUMNS:
            self._begin(HistorySource.UMAMI)
            self._umami_events.read(file, self.faults, self._limits)
        else:
            self.skipped.append(name)

    def _begin(self, source: HistorySource) -> ImportedHistory:
        if self._history is None:
            self._history = ImportedHistory(source)
        if self._history.source is not source:
            raise HistoryFileInvalid("The files are of several tools. Import the files of each tool separately.")
        return self._history

    def _add_bytes(self, count: int) -> None:
        self._unpacked_bytes += count
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            raise HistoryFileInvalid(
                f"The files have more than {MAX_UNPACKED_BYTES // 10**9} GB when unpacked. Export shorter periods."
            )


@contextmanager
def _explain_zip_errors(name: str) -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        raise HistoryFileInvalid(f"{name} is not a readable zip archive: {error or type(error).__name__}.") from None
    except zlib.error as error:
        raise HistoryFileInvalid(f"{name} is damaged: {error}.") from None


def _describe_faults(faults: FaultLog) -> str:
    lines = "\n".join(f"  {fault}" for fault in faults.shown)
    more = f"\n  and {faults.count - len(faults.shown):,} more" if faults.count > len(faults.shown) else ""
    noun = "line" if faults.count == 1 else "lines"
    return f"{faults.count:,} {noun} cannot be imported, so nothing was imported:\n{lines}{more}"
