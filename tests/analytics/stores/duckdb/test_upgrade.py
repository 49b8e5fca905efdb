"""A store of an earlier schema is upgraded when it is opened."""

from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb import store as store_module
from copydesk.analytics.stores.duckdb.folding import view_summaries, visitor_index
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import RunSizes
from copydesk.analytics.stores.duckdb.upgrades import section_backfill, source_backfill
from tests.analytics.stores.conformance.test_corrections import read_reports
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view


def drop_sections(connection: duckdb.DuckDBPyConnection) -> None:
    """Deletes what version 6 added."""
    for table in ("visits", "firsts"):
        connection.execute(f"delete from {table} where scope in (select id from scopes where sort = 32)")
    connection.execute("delete from scopes where sort = 32")
    connection.execute("alter table scopes drop column section")


def move_events_into_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Stores events as versions before 10 did."""
    connection.execute("update views set event = events.id from events where events.seq = views.seq")
    connection.execute("alter table events drop column seq")


def test_store_without_missing_pages_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(event=1))
    store.log_views([make_view(visitor=2)])
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("alter table views drop column source")
        drop_sections(connection)
        connection.execute("drop table missing_referrers")
        connection.execute("drop table visit_runs")
        connection.execute("delete from marks where name = 'missing_referrers'")
        move_events_into_views(connection)
        connection.execute("update marks set value = 3 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    log_and_fold(store, make_view("/gone")._replace(status=404))
    assert [row.path for row in store.list_missing_pages("docs").rows] == ["/gone"]
    assert store.count_visitors_by_page("docs").totals.total == 2
    store.close()


def make_arrivals() -> list[PageView]:
    """Makes 60 arrivals of 20 people over six days, from five referrers, and crawlers and missing pages."""
    referrers = ("", "google.com", "bing.com", "example.org", "docs.example.com")
    views = [
        make_view(day=MONDAY + number % 6, visitor=number % 20 + 1, event=number)._replace(
            host="docs.example.com", referrer=referrers[number % 5]
        )
        for number in range(60)
    ]
    return [*views, views[1]._replace(kind=VisitorClass.TRAINING, event=61), views[2]._replace(status=404, event=62)]


def downgrade_to_version_4(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        drop_sections(connection)
        hosts = "select id from scopes where sort > 4"
        connection.execute(f"delete from counts where scope in ({hosts})")
        connection.execute(f"delete from firsts where scope in ({hosts})")
        connection.execute(f"delete from visits where scope in ({hosts})")
        connection.execute("delete from scopes where sort > 4")
        connection.execute("alter table views drop column source")
        move_events_into_views(connection)
        connection.execute("update marks set value = 4 where name = 'schema'")


def read_referrers(store: DuckStore) -> list[object]:
    ranges = [DayRange(MONDAY + first, MONDAY + end) for first in range(6) for end in range(first, 7)]
    pages = [store.load_page("docs", "/", days) for days in ranges]
    return [*pages, *(store.list_referrers("docs", days) for days in ranges)]


def test_referrers_of_stored_views_are_counted_after_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, *make_arrivals())
    store.log_views([make_view(visitor=99)._replace(referrer="bing.com")])
    store.close()
    downgrade_to_version_4(path)
    fresh = DuckStore(tmp_path / "fresh.duckdb")
    log_and_fold(fresh, *make_arrivals(), make_view(visitor=99)._replace(referrer="bing.com"))
    expected, other_reports = read_referrers(fresh), read_reports(fresh)
    fresh.withdraw_views("docs", [1, 3])
    after_withdrawal = read_referrers(fresh)
    fresh.close()

    monkeypatch.setattr(source_backfill, "VIEWS_PER_PART", 7)
    monkeypatch.setattr(store_module, "MAX_UPGRADE_SECONDS_PER_FOLD", 0.001)
    store = DuckStore(path, copy_sizes=CopySizes(min_views=5, views_per_part=5))
    folds = 0
    while store.backlog():
        store.fold()
        store.close()  # the next process continues where this one ended
        store = DuckStore(path, copy_sizes=CopySizes(min_views=5, views_per_part=5))
        folds += 1
    assert folds > 1
    assert read_referrers(store) == expected
    assert read_reports(store) == other_reports
    assert store.withdraw_views("docs", [1, 3]) == 2
    store.rebuild_index()
    assert read_referrers(store) == after_withdrawal
    store.close()


def test_sources_with_a_salt_of_their_kind_are_counted_with_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version has stored them. New hosts of such a kind have its salt, so the kind counts people once."""
    arrivals = make_arrivals()
    stored, new = arrivals[:40], [*arrivals[40:], make_view(visitor=2, event=99)._replace(referrer="duckduckgo.com")]
    fresh = DuckStore(tmp_path / "fresh.duckdb")
    log_and_fold(fresh, *stored, *new)
    expected = read_referrers(fresh)
    fresh.withdraw_views("docs", [1, 3, 99])
    after_withdrawal = read_referrers(fresh)
    fresh.close()

    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    store.log_views(stored)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("update scopes set salt = xor(salt, kind * 1_000_003) where sort between 5 and 31")
    monkeypatch.setattr(visitor_index, "MAX_VISITS_SEARCHED_AT_ONCE", 0)
    monkeypatch.setattr(visitor_index, "NEW_VISITS_PER_RANGE", 10)
    store = DuckStore(path, run_sizes=RunSizes(recent=20))
    store.fold()
    log_and_fold(store, *new)
    assert read_referrers(store) == expected
    store.withdraw_views("docs", [1, 3, 99])
    assert read_referrers(store) == after_withdrawal
    store.close()


def test_store_of_the_previous_schema_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(event=1))
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("alter table views drop column source")
        drop_sections(connection)
        connection.execute("alter table views drop column event")
        connection.execute("alter table events drop column seq")
        connection.execute("update marks set value = 2 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    assert store.withdraw_views("docs", [1]) == 0
    assert store.log_views([make_view(event=1), make_view(event=2)]).duplicates == (0,)
    store.close()


def test_views_that_were_folded_before_an_upgrade_are_not_folded_again(tmp_path: Path) -> None:
    """Version 6 stored the number of the last folded view as a mark."""
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(visitor=1), make_view(visitor=2))
    store.log_views([make_view(visitor=3)])
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("insert into marks select 'folded', max(upto) from folds")
        connection.execute("drop table folds")
        move_events_into_views(connection)
        connection.execute("update marks set value = 6 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    assert store.backlog() == 1
    assert store.fold() == 1
    assert store.count_visitors_by_page("docs").totals.total == 3
    store.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("from marks where name = 'folded'").fetchall() == []
        assert connection.execute("select max(upto) from folds").fetchall() == [(3,)]


def test_rows_of_earlier_folds_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor_index, "MAX_FOLD_ROWS", 3)
    path = tmp_path / "a.duckdb"
    for start in range(2):
        store = DuckStore(path)
        for number in range(5):
            log_and_fold(store, make_view(visitor=10 * start + number + 1))
            assert store.backlog() == 0
        store.close()
        with duckdb.connect(str(path)) as connection:
            rows = connection.execute("select upto from folds order by upto").fetchall()
            assert rows == [(5 * start + 4,), (5 * start + 5,)]
    store = DuckStore(path)
    assert store.count_views_by_page("docs").totals.total == 10
    store.close()


def make_visits_to_sections() -> list[PageView]:
    """Makes 90 views of 12 visitors over eight days, in three sections and on the start page, and a missing page."""
    paths = ("/ja/a", "/ja/b", "/v2/a", "/v2/deep/x?tab=1", "/", "//api//y")
    views = [
        make_view(paths[number % 6], day=MONDAY + number * 5 % 8, visitor=number % 12 + 1, event=number)
        for number in range(90)
    ]
    crawled = [view._replace(kind=VisitorClass.SEARCH, event=100 + number) for number, view in enumerate(views[:20])]
    return [*views, *crawled, views[1]._replace(status=404, event=200)]


def read_sections(store: DuckStore) -> list[object]:
    ranges = [DayRange(MONDAY + first, MONDAY + end) for first in range(8) for end in range(first, 9)]
    queries = [SectionQuery(), SectionQuery("", 2), SectionQuery("/v2", 2), SectionQuery("/v2", 3)]
    return [store.list_sections("docs", days, query=query) for days in ranges for query in queries]


def test_sections_of_stored_visits_are_counted_after_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sizes = tmp_path / "a.duckdb", RunSizes(recent=30, merged_runs=3, part=20)
    later = [make_view("/v2/new", day=MONDAY + 3, visitor=visitor) for visitor in (1, 50)]
    store = DuckStore(path, run_sizes=sizes)
    log_and_fold(store, *make_visits_to_sections())
    store.move_visits_into_table()
    store.close()
    fresh = DuckStore(tmp_path / "fresh.duckdb")
    log_and_fold(fresh, *make_visits_to_sections())
    before = read_sections(fresh)
    log_and_fold(fresh, *later)
    expected, other_reports = read_sections(fresh), read_reports(fresh)
    fresh.withdraw_views("docs", [1, 3])
    fresh.forget_visitor("docs", 7)
    after_corrections = read_sections(fresh)
    fresh.close()
    with duckdb.connect(str(path)) as connection:
        drop_sections(connection)
        move_events_into_views(connection)
        connection.execute("update marks set value = 5 where name = 'schema'")

    monkeypatch.setattr(section_backfill, "VISITS_PER_PART", 25)
    monkeypatch.setattr(store_module, "MAX_UPGRADE_SECONDS_PER_FOLD", 0.0)
    store = DuckStore(path, run_sizes=sizes)
    assert read_sections(store) == before, "while sections have no visits, they are counted from those of pages"
    log_and_fold(store, *later)
    folds = 1
    while store.backlog():
        assert read_sections(store) == expected
        store.close()  # the next process continues where this one ended
        store = DuckStore(path, run_sizes=sizes)
        store.fold()
        folds += 1
    assert folds > 3
    assert read_sections(store) == expected
    assert read_reports(store) == other_reports
    assert store.withdraw_views("docs", [1, 3]) == 2
    store.forget_visitor("docs", 7)
    assert read_sections(store) == after_corrections
    store.rebuild_index()
    assert read_sections(store) == after_corrections
    store.close()


def test_deeper_sections_of_a_large_project_are_indexed_after_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sizes = tmp_path / "a.duckdb", RunSizes(recent=30, merged_runs=3, part=20)
    queries = [SectionQuery(), SectionQuery("", 2), SectionQuery("/v2", 2)]
    store = DuckStore(path, run_sizes=sizes)
    log_and_fold(store, *make_visits_to_sections(), make_view("/v2/deep/z", visitor=50))
    expected = [store.list_sections("docs", query=query) for query in queries]
    store.move_visits_into_table()
    store.close()
    with duckdb.connect(str(path)) as connection:
        drop_sections(connection)
        move_events_into_views(connection)
        connection.execute("update marks set value = 5 where name = 'schema'")

    monkeypatch.setattr(section_backfill, "VISITS_PER_PART", 25)
    monkeypatch.setattr(store_module, "MAX_UPGRADE_SECONDS_PER_FOLD", 0.0)
    store, folds = DuckStore(path, run_sizes=sizes, min_large_views=1), 0
    while store.backlog():
        store.fold()
        store.wait_for_sections()
        assert [store.list_sections("docs", query=query) for query in queries] == expected
        folds += 1
    assert folds > 3
    store.fold()
    store.wait_for_sections()
    assert [store.list_sections("docs", query=query) for query in queries] == expected
    store.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("from scopes where path = '/v2/deep' and sort = 32").fetchall()


def read_sums(store: DuckStore) -> list[object]:
    ranges = [DayRange(MONDAY + first, MONDAY + end) for first in range(8) for end in range(first, 9)]
    pages = [store.load_page("docs", path, days) for path in ("/ja/a", "/", "/v2/a") for days in ranges]
    return [*pages, *(store.list_rules("docs", days, with_missing=True) for days in ranges)]


def test_stored_views_are_summed_up_after_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, views = tmp_path / "a.duckdb", make_visits_to_sections()
    store = DuckStore(path)
    log_and_fold(store, *views)
    expected = read_sums(store)
    store.withdraw_views("docs", [1, 3])
    corrected = read_sums(store)
    store.log_views([views[1], views[3]])
    store.fold()
    store.close()
    with duckdb.connect(str(path)) as connection:
        for table in ("page_counts", "rule_counts"):
            connection.execute(f"drop table {table}")
        connection.execute("delete from marks where name in ('summarized', 'page_counts', 'rule_counts')")
        connection.execute("insert into marks select 'folded', max(upto) from folds")
        connection.execute("drop table folds")
        move_events_into_views(connection)
        connection.execute("update marks set value = 6 where name = 'schema'")

    monkeypatch.setattr(view_summaries, "MAX_SUMMED_VIEWS", 20)
    monkeypatch.setattr(store_module, "MAX_UPGRADE_SECONDS_PER_FOLD", 0.0)
    store, folds = DuckStore(path, min_summed_views=20), 0
    while store.backlog():
        assert read_sums(store) == expected
        store.close()  # the next process continues where this one ended
        store = DuckStore(path, min_summed_views=20)
        store.fold()
        folds += 1
    assert folds > 3
    assert read_sums(store) == expected
    assert store.withdraw_views("docs", [1, 3]) == 2
    assert read_sums(store) == corrected
    store.close()


def test_views_of_an_earlier_version_and_new_ones_are_withdrawn_by_their_events(tmp_path: Path) -> None:
    """Views had their event in a column of their own before version 10."""
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, *(make_view(visitor=number, event=number) for number in (1, 2, 3)), make_view(visitor=4))
    store.close()
    with duckdb.connect(str(path)) as connection:
        move_events_into_views(connection)
        connection.execute("update marks set value = 9 where name = 'schema'")
    store = DuckStore(path)
    new_views = [make_view(visitor=number, event=number) for number in (3, 5, 6)]
    assert store.log_views(new_views).duplicates == (0,)
    store.fold()
    assert store.count_visitors_by_page("docs").totals.total == 6
    assert store.withdraw_views("docs", [2, 5, 99]) == 2
    assert store.count_visitors_by_page("docs").totals.total == 4
    assert store.log_views([make_view(visitor=number, event=number) for number in (1, 2, 5, 6)]).duplicates == (0, 3)
    store.fold()
    assert store.count_visitors_by_page("docs").totals.total == 6
    store.close()
