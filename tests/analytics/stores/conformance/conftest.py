"""Fixtures that open every store in turn."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import RunSizes
from tests.support.clickhouse_store import URL_FILE_NAME, FolderClickHouseStore

BACKUP_NAME = "analytics.duckdb"
"""The backup's name in a test, for all stores."""


class CountingDuckStore(DuckStore):
    """A store whose folds wait until finished days are counted by hour, so that reports read what is stored."""

    def fold(self) -> int:
        folded_views = super().fold()
        self.wait_for_hours()
        return folded_views


STORE_OPENERS: dict[str, Callable[[Path], Store]] = {
    "duckdb": lambda folder: DuckStore(folder / BACKUP_NAME),
    "duckdb with short runs": lambda folder: CountingDuckStore(
        folder / BACKUP_NAME,
        run_sizes=RunSizes(3, 2, 2, 5),
        min_summed_views=5,
        min_indexed_views=0,
        min_large_views=20,
        min_views_of_day=2,
        min_loaded_views=2,
        copy_sizes=CopySizes(min_views=15, views_per_part=12),
    ),
    "clickhouse": lambda folder: FolderClickHouseStore(folder, folder / BACKUP_NAME),
    "clickhouse and postgresql": lambda folder: FolderClickHouseStore(folder, folder / BACKUP_NAME, "postgresql"),
}
SMOKE_TESTS = (
    "test_total_counts", "test_an_event_is_logged_once", "test_rows_are_ordered_by_total", "test_changed_ai_classes",
    "test_referrers_count", "test_paths_beyond",
)  # fmt: skip
"""The tests that run by default on every engine; the others run there on one of them."""
DEEP_CLICKHOUSE_TESTS = (
    "test_backup_of", "test_reports_stay_exact", "test_withdrawn_views_are", "test_day_with_deleted_raw_views",
    "test_reclassified_views_count", "test_missing_pages_change", "test_withdrawn_missing", "test_hosts_beyond",
    "test_section_is", "test_page_that_was", "test_totals_of_many_projects", "test_hours_count",
    "test_exported", "test_fingerprints_change", "test_visitors_of_a_page",
)  # fmt: skip
"""More tests that run on ClickHouse in the deep tier; all others are drills there, because its engine is slow."""


@pytest.fixture(params=STORE_OPENERS)
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    """Opens the store of the folder, or a new store there."""
    return STORE_OPENERS[request.param]


@pytest.fixture
def is_slow(request: pytest.FixtureRequest) -> bool:
    """Returns whether the store runs on a server."""
    return "clickhouse" in request.node.callspec.params["open_store"]


@pytest.fixture
def store(open_store: Callable[[Path], Store], tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()
    (tmp_path / URL_FILE_NAME).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        store = call.params.get("open_store") if call else None
        if store not in STORE_OPENERS or store == "duckdb":
            continue
        is_smoke = item.name.startswith(SMOKE_TESTS)
        is_deep = is_smoke or store == "duckdb with short runs" or item.name.startswith(DEEP_CLICKHOUSE_TESTS)
        if store == "clickhouse and postgresql" or not is_deep:
            item.add_marker(pytest.mark.drill)
        elif not is_smoke:
            item.add_marker(pytest.mark.deep)
