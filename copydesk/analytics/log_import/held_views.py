"""Keeps the views of a log until the whole log is read, because only then is it known whether it can be trusted."""

from collections.abc import Iterator
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO

from copydesk.analytics.log_import.batches import ImportBatch, decode_views, encode_views
from copydesk.analytics.page_view import PageView


class HeldViews:
    """Lists of views. Keeps the first in memory, and the others in a temporary file."""

    def __init__(self) -> None:
        self._first: list[PageView] = []
        self._file: BinaryIO | None = None
        self._sizes: list[int] = []

    def __enter__(self) -> "HeldViews":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def add(self, batch: ImportBatch) -> None:
        if not self._first and batch.views:
            self._first = batch.views
        elif batch.views or batch.encoded_views:
            if self._file is None:
                self._file = TemporaryFile(prefix="copydesk-import-")  # noqa: SIM115 - closed at the end of the context
            self._sizes.append(self._file.write(batch.encoded_views or encode_views(batch.views)))

    def take_all(self) -> Iterator[list[PageView]]:
        """Yields the lists in the order in which they were added."""
        first, self._first = self._first, []
        if first:
            yield first
        if self._file:
            self._file.seek(0)
            for size in self._sizes:
                yield decode_views(self._file.read(size))
