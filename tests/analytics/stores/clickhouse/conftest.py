from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clickhouse_store import FILE, OnClickHouse


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OnClickHouse]:
    opened = OnClickHouse(tmp_path)
    yield opened
    opened.close()
    (tmp_path / FILE).unlink()
