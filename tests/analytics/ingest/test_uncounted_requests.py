"""Requests that are not views are counted by day and reason, durably and for existing projects only."""

import threading
from collections.abc import Iterator

import pytest

from copydesk.analytics.ingest.uncounted_requests import (
    RETENTION_DAYS,
    RefusalReason,
    UncountedCounter,
    UncountedRequests,
)
from copydesk.analytics.page_view import DropReason
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Projects

SCAN, LIMITED = DropReason.SCAN, RefusalReason.RATE_LIMITED


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    opened = Database(migrated_url)
    yield opened
    opened.close()


@pytest.fixture
def project_id(database: Database) -> str:
    return Projects(database).create("Docs", repository="x", ref="main", actor="test").id


def test_requests_add_up_by_reason_across_processes(database: Database, project_id: str) -> None:
    counters = [UncountedCounter(database) for _ in range(2)]
    for counter in counters:
        counter.add(project_id, SCAN)
        counter.add_all(project_id, {SCAN: 3, DropReason.PREFETCH: 1})
        counter.add(project_id, LIMITED)
        counter.flush()
    today = clock.today()
    assert counters[0].list_reasons(project_id, today - 1) == [
        UncountedRequests(SCAN, 8, today),
        UncountedRequests(DropReason.PREFETCH, 2, today),
        UncountedRequests(LIMITED, 2, today),
    ]
    assert counters[0].list_reasons(project_id, today + 1) == []
    for counter in counters:
        counter.close()


def test_counts_are_stored_after_a_pause_and_at_the_end(database: Database, project_id: str) -> None:
    reader = UncountedCounter(database)
    quick = UncountedCounter(database, flush_seconds=0.05)
    quick.add(project_id, SCAN)
    stored = threading.Event()
    for _ in range(200):
        if reader.list_reasons(project_id, 0):
            break
        stored.wait(0.05)
    assert [each.requests for each in reader.list_reasons(project_id, 0)] == [1]
    slow = UncountedCounter(database)
    slow.add(project_id, SCAN)
    slow.close()
    assert [each.requests for each in reader.list_reasons(project_id, 0)] == [2]
    quick.close()


def test_deleted_project_gets_no_rows(database: Database, project_id: str) -> None:
    counter = UncountedCounter(database)
    counter.add("proj_deleted", SCAN)
    counter.add(project_id, SCAN)
    counter.flush()
    assert counter.list_reasons("proj_deleted", 0) == []
    assert len(counter.list_reasons(project_id, 0)) == 1
    counter.close()


def test_old_counts_are_deleted(database: Database, project_id: str) -> None:
    counter = UncountedCounter(database)
    counter.add(project_id, SCAN)
    counter.flush()
    assert counter.delete_expired(clock.today() + RETENTION_DAYS) == 0
    assert counter.delete_expired(clock.today() + RETENTION_DAYS + 1) == 1
    counter.close()
