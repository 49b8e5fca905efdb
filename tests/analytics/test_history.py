"""Imported history: replaced by day and tool, and removed, in one transaction, on every database."""

from collections.abc import Iterator

import pytest

from copydesk.analytics.history import History, HistoryCounts, HistoryDay, HistoryPage, HistorySource, ImportedHistory
from copydesk.analytics.stores.base import DayRange
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound
from copydesk.core.projects.projects import Projects

DAY = 19_723
ONE, TWO = HistoryCounts(1, 10), HistoryCounts(2, 20)


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture
def history(database: Database) -> History:
    return History(database)


@pytest.fixture
def project(database: Database) -> str:
    return Projects(database).create("Docs", repository="/docs.git", ref="main", actor="test").id


def make_history(
    days: dict[int, HistoryCounts],
    pages: dict[tuple[int, str], HistoryCounts] | None = None,
    source: HistorySource = HistorySource.PLAUSIBLE,
) -> ImportedHistory:
    return ImportedHistory(source, days, pages or {})


def list_days(history: History, project: str) -> list[tuple[int, str, int]]:
    return [(row.day - DAY, row.source, row.visitors) for row in history.list_days(project)[0]]


def test_same_import_changes_nothing_and_another_replaces_its_days(history: History, project: str) -> None:
    first = make_history({DAY: ONE, DAY + 1: ONE}, {(DAY, "/a"): ONE, (DAY + 1, "/a"): ONE, (DAY + 1, "/b"): ONE})
    for _ in range(2):
        history.replace(project, first)
        assert list_days(history, project) == [(0, "plausible", 1), (1, "plausible", 1)]
        assert history.list_pages(project)[0] == [
            HistoryPage("/a", "plausible", 2, 20),
            HistoryPage("/b", "plausible", 1, 10),
        ]
    history.replace(project, make_history({DAY + 1: TWO, DAY + 2: TWO}, {(DAY + 2, "/c"): TWO}))
    assert list_days(history, project) == [(0, "plausible", 1), (1, "plausible", 2), (2, "plausible", 2)]
    assert [page.path for page in history.list_pages(project)[0]] == ["/c", "/a"]


def test_totals_without_pages_keep_the_pages(history: History, project: str) -> None:
    history.replace(project, make_history({DAY: ONE}, {(DAY, "/a"): ONE}))
    history.replace(project, make_history({DAY: TWO}))
    assert list_days(history, project) == [(0, "plausible", 2)]
    assert len(history.list_pages(project)[0]) == 1


def test_tools_are_kept_side_by_side_and_removed_one_by_one(history: History, project: str) -> None:
    for source in HistorySource:
        history.replace(project, make_history({DAY: ONE, DAY + 1: TWO}, {(DAY, "/a"): ONE}, source))
    assert list_days(history, project)[:2] == [(0, "plausible", 1), (0, "umami", 1)]
    assert len(history.list_pages(project)[0]) == 2
    assert history.remove(project, HistorySource.UMAMI, DayRange(DAY, DAY + 1)) == 1
    assert list_days(history, project) == [(0, "plausible", 1), (1, "plausible", 2), (1, "umami", 2)]
    assert [page.source for page in history.list_pages(project)[0]] == ["plausible"]
    assert history.remove(project) == 3
    assert (list_days(history, project), history.list_pages(project)) == ([], ([], False))


def test_lists_are_limited_to_days_and_pages(history: History, project: str) -> None:
    history.replace(
        project, make_history({DAY + n: ONE for n in range(5)}, {(DAY + n, f"/{n}"): ONE for n in range(5)})
    )
    days, has_more = history.list_days(project, DayRange(DAY + 1, DAY + 4), 2, 0)
    assert (days, has_more) == ([HistoryDay(DAY + n, "plausible", 1, 10) for n in (1, 2)], True)
    assert history.list_days(project, DayRange(DAY + 1, DAY + 4), 2, 2)[1] is False
    pages, has_more = history.list_pages(project, DayRange(DAY + 1, DAY + 4), 2, 1)
    assert ([page.path for page in pages], has_more) == (["/2", "/3"], False)


def test_failed_import_changes_nothing(history: History, project: str) -> None:
    history.replace(project, make_history({DAY: ONE}))
    with pytest.raises(Exception, match=r".+"):
        history.replace(project, make_history({DAY: TWO}, {(DAY, "/a"): HistoryCounts(1, None)}))  # type: ignore[arg-type]
    assert list_days(history, project) == [(0, "plausible", 1)]
    with pytest.raises(ProjectNotFound):
        history.replace("proj_none", make_history({DAY: ONE}))


def test_many_days_and_pages_are_stored(history: History, project: str) -> None:
    days = {DAY - n: ONE for n in range(3_000)}
    history.replace(project, make_history(days, {(day, "/a"): ONE for day in days}))
    assert history.list_pages(project)[0] == [HistoryPage("/a", "plausible", 3_000, 30_000)]
