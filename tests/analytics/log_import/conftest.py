from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.log_import.batches import ImportBatch, read_batches
from copydesk.analytics.log_import.file_check import FileFacts, check_formats, require_trusted
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.loader import ImportTotals, store_batches
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.duckdb import DuckStore

NOW = 1_794_700_800_000  # 2026-11-15T00:00:00Z
Imported = Callable[..., ImportTotals]


def check_files(request: ImportRequest) -> list[FileFacts]:
    """Reads files as an import does. Returns what they contain, or raises the error with which the import fails."""
    check_formats(request)
    file_facts = [facts for batch in read_batches(request) for facts in batch.files]
    require_trusted(file_facts)
    return file_facts


@pytest.fixture
def job(site: SiteConfig) -> Callable[..., ImportRequest]:
    return lambda *files, **options: ImportRequest([str(file) for file in files], site, NOW, **options)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = DuckStore(tmp_path / "views.duckdb")
    yield opened
    opened.close()


@pytest.fixture
def run_import(job: Callable[..., ImportRequest], store: Store) -> Imported:
    """Imports files into one store, and returns the result."""

    def run(
        *files: Path, read: Callable[[ImportRequest], Iterator[ImportBatch]] = read_batches, **options: object
    ) -> ImportTotals:
        tally = ImportTotals()
        store_batches(read(job(*files, **options)), store, tally, lambda: None)
        assert tally.lines == tally.views + tally.missing + tally.duplicates + sum(tally.dropped.values())
        return tally

    return run
