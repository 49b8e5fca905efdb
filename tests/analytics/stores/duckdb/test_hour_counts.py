"""Finished days are stored by hour. Reports read what is stored only while it equals the count over all views."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports import hour_counter, hour_counts
from copydesk.analytics.stores.duckdb.reports.hour_counts import count_day, store_hours
from copydesk.analytics.stores.errors import StoreFull
from copydesk.analytics.stores.report_rows import HourlyReport
from copydesk.core.clock import DAY
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view
from tests.analytics.stores.duckdb.test_hour_report import (
    CHANGES,
    RANGES,
    load_all,
    make_changes,
    make_views,
    read_reports_meanwhile,
)

pytestmark = pytest.mark.deep

FALSE_NUMBER = 7_777_777
LATER_DAY = make_view(day=MONDAY + 3, project="other")


def open_counting_store(folder: Path, min_views_of_day: int = 1) -> DuckStore:
    return DuckStore(folder / "a.duckdb", min_summed_views=1, min_views_of_day=min_views_of_day, min_loaded_views=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    """A store with two finished days, which are stored by hour."""
    opened = open_counting_store(tmp_path)
    log_and_fold(opened, *make_views(600), LATER_DAY)
    opened.wait_for_hours()
    yield opened
    opened.close()


def read_stored_days(store: DuckStore) -> dict[int, int]:
    """Returns the stored days of the project docs with the number of views that they were counted from."""
    with store._database.read() as connection:
        rows = connection.execute(
            "select distinct day, views from hour_counts join projects on id = project where name = 'docs'"
        ).fetchall()
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def falsify_stored_hours(store: DuckStore) -> None:
    """Stores a wrong number, which a report has only if it reads what is stored."""
    with store._database.write() as connection:
        connection.execute("update hour_counts set visitors = $number", {"number": FALSE_NUMBER})


def load_day(store: DuckStore, day: int = MONDAY) -> HourlyReport:
    return store.load_hours("docs", day * DAY, (day + 1) * DAY)


def count_from_raw_views(store: DuckStore, folder: Path) -> list[HourlyReport]:
    """Closes a store and returns the reports of one that has no stored hours."""
    store.close()
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.execute("delete from hour_counts")
    opened = DuckStore(folder / "a.duckdb")
    reports = load_all(opened)
    opened.close()
    return reports


def test_reports_from_stored_hours_equal_those_from_raw_views(store: DuckStore, tmp_path: Path) -> None:
    reports = load_all(store)
    assert load_all(store) == reports, "the second time from memory"
    assert count_from_raw_views(store, tmp_path) == reports


def test_whole_finished_day_is_read_from_stored_hours_and_parts_of_it_from_raw_views(store: DuckStore) -> None:
    falsify_stored_hours(store)
    whole_day, *parts = load_all(store)
    assert whole_day.visitors.total == FALSE_NUMBER
    assert {point.visitors.total for point in whole_day.hours} == {FALSE_NUMBER}
    assert FALSE_NUMBER not in {report.visitors.total for report in parts}


def test_stored_hours_are_read_again_after_folds_of_other_days(store: DuckStore) -> None:
    report = load_day(store)
    log_and_fold(store, make_view(day=MONDAY + 3), make_view(day=MONDAY + 4))
    falsify_stored_hours(store)
    assert load_day(store) == report, "from memory, because no view was added to the day"
    log_and_fold(store, make_view(day=MONDAY, visitor=5_000))
    assert load_day(store).visitors.total == report.visitors.total + 1


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_in_memory", [False, True])
def test_stored_hours_are_not_used_after_a_change(
    name: str, is_in_memory: bool, store: DuckStore, tmp_path: Path
) -> None:
    falsify_stored_hours(store)
    if is_in_memory:
        load_day(store, MONDAY - 1)
        load_day(store)
    CHANGES[name](store)
    after = load_all(store)
    assert FALSE_NUMBER not in {report.visitors.total for report in after}
    store.fold()
    store.wait_for_hours()
    assert load_all(store) == after
    assert count_from_raw_views(store, tmp_path) == after


def replace_view(store: DuckStore) -> None:
    assert store.withdraw_views("docs", [2]) == 1
    log_and_fold(store, make_view(visitor=5_000))


def replace_project(store: DuckStore) -> None:
    store.forget_project("docs")
    log_and_fold(store, *(view._replace(visitor=1) for view in make_views(600)))


@pytest.mark.parametrize("replace", [replace_view, replace_project])
def test_stored_hours_are_not_used_after_as_many_other_views(
    replace: Callable[[DuckStore], None], store: DuckStore, tmp_path: Path
) -> None:
    load_day(store)
    views = read_stored_days(store)[MONDAY]
    falsify_stored_hours(store)
    replace(store)
    after = load_all(store)
    assert FALSE_NUMBER not in {report.visitors.total for report in after}
    store.wait_for_hours()
    assert read_stored_days(store)[MONDAY] == views
    assert load_all(store) == after
    assert count_from_raw_views(store, tmp_path) == after


@pytest.mark.parametrize("name", ["forgotten visitor", "withdrawn views", "late views"])
def test_change_of_one_day_leaves_the_stored_hours_of_the_others(name: str, store: DuckStore) -> None:
    quiet_day = MONDAY - 5
    log_and_fold(store, *(make_view(day=quiet_day, visitor=number) for number in range(1_000, 1_030)))
    store.wait_for_hours()
    falsify_stored_hours(store)
    CHANGES[name](store)
    assert load_day(store, quiet_day).visitors.total == FALSE_NUMBER


@pytest.mark.parametrize("name", sorted(CHANGES.keys() - {"new views", "late views"}))
def test_hours_of_views_that_changed_while_they_were_counted_are_not_stored(name: str, store: DuckStore) -> None:
    with store._database.read() as connection:
        counted = count_day(connection, ["docs"], MONDAY)
    CHANGES[name](store)
    store.wait_for_hours()
    before = read_stored_days(store)
    with store._database.write() as connection:
        assert not store_hours(connection, counted)
    assert read_stored_days(store) == before


def test_hours_of_a_day_that_got_late_views_while_it_was_counted_are_not_used(store: DuckStore) -> None:
    with store._database.read() as connection:
        counted = count_day(connection, ["docs"], MONDAY)
    log_and_fold(store, make_view(visitor=5_000))
    report = load_day(store)
    store.wait_for_hours()
    with store._database.write() as connection:
        assert store_hours(connection, counted)
    assert load_day(store) == report
    assert report.visitors.total == counted[0].rows[0][3] + 1


def test_day_is_counted_again_once_no_more_late_views_arrive(store: DuckStore) -> None:
    views = read_stored_days(store)[MONDAY]
    for visitor in (5_000, 5_001):
        log_and_fold(store, make_view(visitor=visitor))
        store.wait_for_hours()
        assert read_stored_days(store)[MONDAY] == views
    log_and_fold(store, LATER_DAY)
    store.wait_for_hours()
    assert read_stored_days(store)[MONDAY] == views + 2


def test_unfinished_days_and_days_with_few_views_are_not_stored(tmp_path: Path) -> None:
    store = open_counting_store(tmp_path, min_views_of_day=10)
    few, many = make_view(day=MONDAY - 1), make_view(day=MONDAY)
    gone = make_view("/gone", day=MONDAY - 1)._replace(status=404)
    log_and_fold(store, *[few] * 9, gone, *[many] * 10)
    store.wait_for_hours()
    assert read_stored_days(store) == {}
    log_and_fold(store, make_view(day=MONDAY + 1, project="other"))
    store.wait_for_hours()
    assert read_stored_days(store) == {MONDAY: 10}
    store.close()


def test_each_project_has_its_own_hours(store: DuckStore, tmp_path: Path) -> None:
    store.set_ai_classes("third", ["search"])
    log_and_fold(
        store,
        *(view._replace(project="third") for view in make_views(300)),
        make_view(project="fourth", visitor=None),
        make_view(project="other", visitor=1),
    )
    names = ("docs", "third", "fourth", "other")
    expected = [store.load_hours(name, *RANGES[0]) for name in names]
    assert len(set(map(str, expected))) == len(names)
    store.wait_for_hours()
    store.close()
    opened = open_counting_store(tmp_path)
    assert [opened.load_hours(name, *RANGES[0]) for name in names] == expected
    opened.close()
    opened = open_counting_store(tmp_path)
    falsify_stored_hours(opened)
    assert {opened.load_hours(name, *RANGES[0]).visitors.total for name in names} == {FALSE_NUMBER}
    opened.close()


def test_stored_hours_are_deleted_with_the_raw_views(store: DuckStore) -> None:
    assert set(read_stored_days(store)) == {MONDAY - 1, MONDAY}
    store.delete_raw_views(MONDAY, ["other"])
    assert set(read_stored_days(store)) == {MONDAY - 1, MONDAY}
    store.delete_raw_views(MONDAY, ["docs"])
    assert set(read_stored_days(store)) == {MONDAY}
    assert load_day(store, MONDAY - 1).hours == []
    log_and_fold(store, LATER_DAY)
    store.wait_for_hours()
    assert set(read_stored_days(store)) == {MONDAY}, "a day without raw views is not counted"


def test_day_without_people_and_ai_is_stored(store: DuckStore) -> None:
    store.set_ai_classes("docs", [])
    log_and_fold(store, *(make_view(day=MONDAY - 7, kind="search", visitor=number) for number in range(5)))
    store.wait_for_hours()
    assert read_stored_days(store)[MONDAY - 7] == 5
    report = load_day(store, MONDAY - 7)
    assert (report.hours, report.visitors.total, report.views.total) == ([], 0, 0)


def test_all_days_are_counted_again_after_a_change_of_the_ai_classes(store: DuckStore) -> None:
    before = read_stored_days(store)
    store.set_ai_classes("docs", ["search"])
    assert read_stored_days(store) == {}
    store.fold()
    store.wait_for_hours()
    assert read_stored_days(store) == before


def test_visitors_of_an_unfinished_day_are_loaded_before_a_report_asks(tmp_path: Path) -> None:
    store = open_counting_store(tmp_path)
    log_and_fold(store, *make_views(600))
    report = load_day(store)
    store.close()
    store = open_counting_store(tmp_path)
    store.fold()
    store.wait_for_hours()
    with store._database.write() as connection:
        connection.execute("delete from views")
    assert load_day(store) == report, "from memory"
    store.close()


def test_hours_counted_in_memory_equal_those_counted_by_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_counting_store(tmp_path)
    greatest = make_view(visitor=2**63 - 1)
    views = [*make_views(600), greatest, greatest._replace(project="other", at=greatest.at + 1)]
    log_and_fold(store, *views, *(view._replace(project="other") for view in make_views(90)))
    store.set_ai_classes("other", ["search", "assistant"])
    with store._database.read() as connection:
        for day in (MONDAY - 1, MONDAY, MONDAY + 1):
            in_memory = count_day(connection, ["docs", "other", "unknown"], day)
            monkeypatch.setattr(hour_counts, "MAX_VIEWS_IN_MEMORY", 0)
            in_database = count_day(connection, ["docs", "other", "unknown"], day)
            monkeypatch.undo()
            assert [(each.snapshot, each.views, list(each.rows)) for each in in_memory] == [
                (each.snapshot, each.views, list(each.rows)) for each in in_database
            ]
            assert any(each.rows for each in in_memory) == (day <= MONDAY)
    store.close()


def test_days_are_counted_later_if_storing_them_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_counter, "RETRY_SECONDS", 0)
    store = open_counting_store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(hour_counter, "store_hours", Mock(side_effect=StoreFull))
        log_and_fold(store, *make_views(600), LATER_DAY)
        store.wait_for_hours()
    assert read_stored_days(store) == {}
    assert load_day(store).views.total > 0
    store.fold()
    store.wait_for_hours()
    assert set(read_stored_days(store)) == {MONDAY - 1, MONDAY}
    store.close()


def test_store_that_was_just_started_counts_finished_days_without_a_fold(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb", min_summed_views=1)
    log_and_fold(store, *make_views(600), LATER_DAY)
    store.close()
    store = open_counting_store(tmp_path)
    store.prepare_logging()
    wait_for(lambda: set(read_stored_days(store)) == {MONDAY - 1, MONDAY})
    store.close()


@pytest.mark.parametrize(("max_views", "releases"), [(1, 2), (1_000_000, 0)])
def test_cache_is_released_whenever_many_views_were_counted(
    max_views: int, releases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = Mock()
    monkeypatch.setattr(DuckDatabase, "release_memory", released)
    monkeypatch.setattr(hour_counter, "MAX_VIEWS_IN_CACHE", max_views)
    store = open_counting_store(tmp_path)
    log_and_fold(store, *make_views(600), LATER_DAY)
    store.wait_for_hours()
    assert len(read_stored_days(store)) == 2
    assert released.call_count == releases
    store.close()


def wait_for(is_done: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_done():
            return
        threading.Event().wait(0.05)
    raise AssertionError("waited for 30 seconds")


def test_changes_while_days_are_counted_leave_exact_reports(store: DuckStore, tmp_path: Path) -> None:
    with read_reports_meanwhile(store):
        for turn in range(12):
            make_changes(store, turn)  # starts the thread that counts
            log_and_fold(store, LATER_DAY)
    store.wait_for_hours()
    after = load_all(store)
    assert count_from_raw_views(store, tmp_path) == after


def test_finished_days_of_a_store_are_counted_after_a_start(tmp_path: Path) -> None:
    """Each process counts at least one day, and the next one continues."""
    days = range(MONDAY, MONDAY + 12)
    store = DuckStore(tmp_path / "a.duckdb", min_summed_views=1)
    log_and_fold(store, *(make_view(day=day, visitor=number) for day in days for number in range(20)), LATER_DAY)
    log_and_fold(store, make_view(day=days[-1] + 1, project="other"))
    expected = [load_day(store, day) for day in days]
    store.close()
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("delete from hour_counts")
    stored_days: list[int] = []
    while len(stored_days) < len(days):
        store = open_counting_store(tmp_path, min_views_of_day=20)
        store.fold()
        store.close()
        with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
            rows = connection.execute("select distinct day from hour_counts order by day desc").fetchall()
        assert len(rows) > len(stored_days)
        stored_days = [day for (day,) in rows]
        assert stored_days == sorted(days, reverse=True)[: len(rows)], "the latest first"
    store = open_counting_store(tmp_path)
    assert [load_day(store, day) for day in days] == expected
    store.close()
    store = open_counting_store(tmp_path)
    falsify_stored_hours(store)
    assert [load_day(store, day).visitors.total for day in days] == [FALSE_NUMBER] * len(days)
    store.close()
