from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FolderClickHouseStore]:
    opened = FolderClickHouseStore(tmp_path)
    yield opened
    opened.close()
    (tmp_path / URL_FILE_NAME).unlink()
