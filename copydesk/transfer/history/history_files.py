"""Reads the files of an export, as a zip archive or as CSV files, and recognizes the tool that wrote them."""

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from copydesk.analytics.history import HistorySource, ImportedHistory
from copydesk.transfer.history import plausible, umami
from copydesk.transfer.history.csv_rows import CsvFile, FaultLog, HistoryFileInvalid, TooManyFaults
from copydesk.transfer.history.limits import MAX_ARCHIVE_ENTRIES, MAX_UNPACKED_BYTES, ImportLimits
from copydesk.transfer.history.other_files import advise_on_file
from copydesk.transfer.history.umami import UmamiEvents

ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OverflowError)
"""What zipfile raises for archives that are damaged, encrypted, or compressed by an unknown method."""
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
GZIP_START = b"\x1f\x8b"
TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


class HistoryReader:
    """Reads any number of files into one history."""

    def __init__(self, limits: ImportLimits | None = None, website: str | None = None) -> None:
        """`website` chooses one of the websites in files of Umami by its ID."""
        self.faults = FaultLog()
        self.skipped: list[str] = []
        """Files of the export that have nothing to import, such as totals by country."""
        self._limits = limits or ImportLimits()
        self._unpacked_bytes = 0
        self._history: ImportedHistory | None = None
        self._website = website
        self._umami_events = UmamiEvents(website)
        self._advice: str | None = None

    @property
    def duplicate_count(self) -> int:
        """How many events several files contain; they are counted once."""
        return self._umami_events.duplicate_count

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
                self._advice
                or "No file is an export of Plausible (imported_visitors_….csv, imported_pages_….csv, or the zip "
                "archive) or Umami (website_event.csv, or the zip archive). The first line of a CSV file must have the "
                "names of its columns."
            )
        if self._history.source is HistorySource.UMAMI:
            self._umami_events.store_counts(self._history)
        elif self._website is not None:
            raise HistoryFileInvalid("--website is for files of Umami. An export of Plausible has one website.")
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
                    self._read_table(path.name, file)
        except OSError as error:
            raise HistoryFileInvalid(f"{path} cannot be read: {error.strerror or error}.") from None

    def _read_archive(self, name: str, file: IO[bytes]) -> None:
        with _explain_zip_errors(name), zipfile.ZipFile(file) as archive:
            entries = {entry: _find_table_name(entry.filename) for entry in archive.infolist()}
            tables = {entry: table for entry, table in entries.items() if table}
            if len(tables) > MAX_ARCHIVE_ENTRIES:
                raise HistoryFileInvalid(f"{name} contains more than {MAX_ARCHIVE_ENTRIES:,} files.")
            for entry, table in tables.items():
                self._add_bytes(entry.file_size)
                with archive.open(entry) as stream:  # never reads more than the size that was just checked
                    self._read_table(table, stream)

    def _read_table(self, name: str, stream: IO[bytes]) -> None:
        """Reads a CSV file, compressed with gzip or not."""
        buffered = io.BufferedReader(stream)  # type: ignore[type-var]
        if buffered.peek(2)[:2] != GZIP_START:
            self._read_csv(name, buffered)
            return
        with _explain_gzip_errors(name), gzip.GzipFile(fileobj=buffered) as unpacked:
            self._read_csv(name.removesuffix(".gz"), io.BufferedReader(_CountedBytes(unpacked, self._add_bytes)))

    def _read_csv(self, name: str, stream: IO[bytes]) -> None:
        file = CsvFile(name, stream, self.faults)
        columns = set(file.columns)
        if plausible.is_day_file(name, columns):
            plausible.read_days(file, self._begin(HistorySource.PLAUSIBLE), self.faults, self._limits)
        elif plausible.is_page_file(name, columns):
            plausible.read_pages(file, self._begin(HistorySource.PLAUSIBLE), self.faults, self._limits)
        elif umami.is_event_file(columns):
            self._begin(HistorySource.UMAMI)
            self._umami_events.read(file, self.faults, self._limits)
        else:
            self._advice = self._advice or advise_on_file(name, list(file.columns))
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


class _CountedBytes(io.RawIOBase):
    """Reports the size of every part of a stream before it is used."""

    def __init__(self, stream: gzip.GzipFile, add_bytes: Callable[[int], None]) -> None:
        self._stream = stream
        self._add_bytes = add_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        self._add_bytes(len(content))
        buffer[: len(content)] = content
        return len(content)


def _find_table_name(entry_name: str) -> str | None:
    """Returns the name of a CSV file without its folders, or None for other files and the notes that macOS adds."""
    folders_and_name = re.split(r"[/\\]", entry_name)
    name = folders_and_name[-1]
    is_note = folders_and_name[0] == "__MACOSX" or name.startswith("._")
    return name if name.lower().endswith(TABLE_SUFFIXES) and not is_note else None


@contextmanager
def _explain_gzip_errors(name: str) -> Iterator[None]:
    try:
        yield
    except GZIP_ERRORS as error:
        raise HistoryFileInvalid(f"{name} is not a readable gzip file: {error}.") from None


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
