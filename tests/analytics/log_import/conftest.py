from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.ingest.raw_view import Site
from copydesk.analytics.log_import.batches import Batch, batches
from copydesk.analytics.log_import.line_converter import Job
from copydesk.analytics.log_import.loader import Tally, keep
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.duckdb import DuckStore

NOW = 1_794_700_800_000  # 2026-11-15T00:00:00Z
Imported = Callable[..., Tally]


@pytest.fixture
def job(site: Site) -> Callable[..., Job]:
    return lambda *files, **options: Job([str(file) for file in files], site, NOW, **options)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = DuckStore(tmp_path / "views.duckdb")
    yield opened
    opened.close()


@pytest.fixture
def imported(job: Callable[..., Job], store: Store) -> Imported:
    """Imports files into one store, and says what came of it."""

    def run(*files: Path, read: Callable[[Job], Iterator[Batch]] = batches, **options: object) -> Tally:
        tally = Tally()
        keep(read(job(*files, **options)), store, tally, lambda: None)
        assert tally.lines == tally.views + tally.duplicates + sum(tally.dropped.values())
        return tally

    return run
