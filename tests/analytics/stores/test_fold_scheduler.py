"""The scheduler folds in time and rarely, drops old data, and survives every failure."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.analytics.stores import fold_scheduler
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.fold_scheduler import FoldScheduler, FoldTiming
from copydesk.analytics.stores.shared import SharedStore
from copydesk.core import clock
from tests.analytics.stores.shared.neighbor import make_view

PATIENCE = 60.0
SELDOM = FoldTiming(min_pause_seconds=60, reader_timeout_seconds=60, quick_fold_seconds=60)


class WatchedStore(DuckStore):
    """A store that records its calls, and can be slow or fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []
        self.folds: list[tuple[float, float]] = []
        """The start and end of each fold."""
        self.slow = 0.0
        """Seconds that a fold takes, unless it is hurried."""
        self.hurried = threading.Event()
        self.full = False

    def fold(self) -> int:
        self.asked.append("fold")
        if self.full:
            raise StoreFull
        began = time.monotonic()
        self.hurried.wait(self.slow)
        views = super().fold()
        self.folds.append((began, time.monotonic()))
        return views

    def prepare_logging(self) -> None:
        self.asked.append("prepare_logging")
        super().prepare_logging()

    def backlog(self) -> int:
        self.asked.append("backlog")
        return super().backlog()

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        deleted = super().delete_raw_views(before_day, project_ids)
        self.asked.append("delete_raw_views")
        return deleted


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WatchedStore]:
    opened = WatchedStore(tmp_path / "analytics.duckdb")
    yield opened
    opened.close()


@contextmanager
def run_scheduler(keeper: FoldScheduler) -> Iterator[FoldScheduler]:
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


def count_views(store: Store) -> int:
    return store.count_views_by_page("docs").totals.total


def list_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns what schedulers have logged, without what threads of other tests log at the same time."""
    return [record.getMessage() for record in caplog.records if record.name == fold_scheduler.__name__]


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.03)


@pytest.mark.deep
def test_logged_views_are_folded_in_the_background(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=FoldTiming(min_pause_seconds=0.1, pause_factor=1))) as keeper:
        for number in (1, 2, 3):
            store.log_views([make_view()])
            keeper.notify_new_views()
            wait_until(lambda expected=number: count_views(store) == expected)  # type: ignore[misc]


@pytest.mark.deep
def test_a_reader_sees_all_that_was_logged_before(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=SELDOM)) as keeper:
        for number in range(5):
            store.log_views([make_view()])
            keeper.notify_new_views()
            keeper.wait_until_folded()
            assert count_views(store) == number + 1


@pytest.mark.deep
def test_a_reader_sees_what_another_process_logged(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=SELDOM)) as keeper:
        store.log_views([make_view()])  # without a notification to the scheduler
        keeper.wait_until_folded()
        assert count_views(store) == 1


@pytest.mark.deep
def test_idle_scheduler_does_not_call_the_store(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=FoldTiming(min_pause_seconds=0.01))) as keeper:
        time.sleep(0.2)
        assert store.asked == []
        store.log_views([make_view()])
        keeper.notify_new_views()
        wait_until(lambda: count_views(store) == 1)
        wait_until(lambda: "delete_raw_views" in store.asked)
        time.sleep(0.2)
        assert store.asked == ["backlog", "fold", "prepare_logging", "delete_raw_views"]


def test_store_that_is_only_read_is_maintained_too(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=SELDOM)) as keeper:
        keeper.wait_until_folded()
        wait_until(lambda: store.asked == ["backlog", "prepare_logging", "delete_raw_views"])


def test_concurrent_readers_share_a_fold(store: WatchedStore) -> None:
    store.slow = PATIENCE
    started = threading.Semaphore(0)

    def read(keeper: FoldScheduler) -> None:
        started.release()
        keeper.wait_until_folded()

    with run_scheduler(FoldScheduler(store, timing=SELDOM)) as keeper, ThreadPoolExecutor(20) as pool:
        store.log_views([make_view()])
        readers = [pool.submit(read, keeper) for _ in range(20)]
        for _ in readers:
            assert started.acquire(timeout=PATIENCE)
        time.sleep(0.1)
        store.hurried.set()
        for reader in readers:
            reader.result()
        assert count_views(store) == 1
        assert store.asked.count("fold") == 1
        assert store.asked.count("backlog") < 10


def test_scheduler_waits_thirty_times_the_duration_of_a_fold(store: WatchedStore) -> None:
    store.slow = 0.01
    with run_scheduler(
        FoldScheduler(store, timing=FoldTiming(min_pause_seconds=0.01, max_pause_seconds=600, reader_pause_factor=0))
    ) as keeper:
        for count in (1, 2):
            store.log_views([make_view()])
            keeper.notify_new_views()
            wait_until(lambda expected=count: len(store.folds) == expected)  # type: ignore[misc]
    (began, ended), (began_again, _) = store.folds
    assert began_again - ended >= 30 * (ended - began)


def test_a_large_backlog_is_not_folded_for_a_reader(store: WatchedStore) -> None:
    with run_scheduler(FoldScheduler(store, timing=replace(SELDOM, small_backlog_views=2))) as keeper:
        store.log_views([make_view()])
        keeper.wait_until_folded()
        store.log_views([make_view() for _ in range(3)])
        keeper.wait_until_folded()
        assert count_views(store) == 1


def test_slow_store_is_not_folded_for_a_reader(store: WatchedStore) -> None:
    store.slow = 0.05
    with run_scheduler(FoldScheduler(store, timing=replace(SELDOM, quick_fold_seconds=0.04))) as keeper:
        for _ in range(2):
            store.log_views([make_view()])
            keeper.wait_until_folded()
        assert count_views(store) == 1


@pytest.mark.parametrize(
    "pace", [FoldTiming(small_backlog_views=1, reader_timeout_seconds=600), FoldTiming(reader_timeout_seconds=0.1)]
)
def test_a_reader_does_not_wait_for_a_long_fold(store: WatchedStore, pace: FoldTiming) -> None:
    store.slow = PATIENCE
    with run_scheduler(FoldScheduler(store, timing=pace)) as keeper:
        store.log_views([make_view(), make_view()])
        keeper.notify_new_views()
        wait_until(lambda: "fold" in store.asked)
        keeper.wait_until_folded()
        assert store.folds == [], "the fold is still under way"
        store.hurried.set()


@pytest.mark.deep
def test_raw_views_are_dropped_after_the_retention_of_their_project(store: WatchedStore) -> None:
    today = clock.now() // clock.DAY
    for project in ("docs", "other", "third"):
        store.log_views([make_view(day=today - age)._replace(project=project) for age in (29, 31, 99)])
    with run_scheduler(FoldScheduler(store, lambda: {"docs": 30, "other": None, "third": 90})) as keeper:
        keeper.notify_new_views()
        wait_until(lambda: store.asked.count("delete_raw_views") == 2)
    assert count_views(store) == 3
    assert [store.delete_raw_views(today, [project]) for project in ("docs", "other", "third")] == [1, 3, 2]


@pytest.mark.deep
def test_failed_fold_is_logged_once_and_retried(store: WatchedStore, caplog: pytest.LogCaptureFixture) -> None:
    store.full = True
    with run_scheduler(FoldScheduler(store, timing=FoldTiming(min_pause_seconds=0.02))) as keeper:
        store.log_views([make_view()])
        keeper.notify_new_views()
        wait_until(lambda: store.asked.count("fold") > 3)
        keeper.wait_until_folded()
        store.full = False
        wait_until(lambda: count_views(store) == 1)
        wait_until(lambda: len(list_warnings(caplog)) == 2)
    assert [message.split(":")[0] for message in list_warnings(caplog)] == [
        "folding failed and will be retried",
        "folding works again",
    ]


def test_folding_continues_when_dropping_raw_views_fails(store: WatchedStore, caplog: pytest.LogCaptureFixture) -> None:
    def unknown() -> dict[str, int | None]:
        raise ConnectionError("the database is away")

    with run_scheduler(FoldScheduler(store, unknown, FoldTiming(min_pause_seconds=0.05, pause_factor=1))) as keeper:
        for number in (1, 2):
            store.log_views([make_view()])
            keeper.notify_new_views()
            wait_until(lambda expected=number: count_views(store) == expected)  # type: ignore[misc]
    assert list_warnings(caplog) == ["deleting raw views failed and will be retried: the database is away"]


def test_stopping_is_quick_and_leaves_no_reader_waiting(store: WatchedStore) -> None:
    keeper = FoldScheduler(store)
    keeper.wait_until_folded()  # not started yet: nothing to wait for
    keeper.start()
    begun = time.monotonic()
    keeper.stop(timeout_seconds=600)
    keeper.wait_until_folded()
    assert time.monotonic() - begun < 60
    assert "fold-scheduler" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.deep
def test_schedulers_of_several_processes_do_not_interfere(tmp_path: Path) -> None:
    stores = [SharedStore(tmp_path), SharedStore(tmp_path)]
    pace = replace(SELDOM, min_pause_seconds=0.01, pause_factor=1)
    with (
        run_scheduler(FoldScheduler(stores[0], timing=pace)) as one,
        run_scheduler(FoldScheduler(stores[1], timing=pace)) as other,
    ):
        for number in range(1, 21):
            for store, keeper in zip(stores, (one, other), strict=True):
                store.log_views([make_view(visitor=number)])
                keeper.notify_new_views()
        one.wait_until_folded()
        other.wait_until_folded()
        assert count_views(stores[1]) == 40
        assert stores[0].count_visitors_by_page("docs").totals.total == 20
    for store in stores:
        store.close()


def test_first_report_loads_the_filter_of_events_once(store: WatchedStore) -> None:
    store.log_views([make_view()])
    with run_scheduler(FoldScheduler(store, timing=SELDOM)) as keeper:
        assert "prepare_logging" not in store.asked, "an idle process does not use the store"
        keeper.wait_until_folded()
        keeper.wait_until_folded()
    assert store.asked.count("prepare_logging") == 1
