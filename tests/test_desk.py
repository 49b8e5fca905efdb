"""Closing a desk releases everything."""

import asyncio
import threading
from pathlib import Path

import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.core import clock
from copydesk.core.rate_limits.in_memory import SharedRateLimiter
from copydesk.core.rate_limits.limits import RateLimit
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support import migrated_databases


@pytest.mark.deep
def test_opening_and_closing_a_desk_many_times_leaves_no_threads(tmp_path: Path) -> None:
    migrated_databases.new_sqlite(tmp_path)
    before = set(threading.enumerate())
    for number in range(5):
        desk = open_desk(Settings(data=tmp_path))
        project = desk.projects.create(f"Docs {number}", repository="/srv/docs.git", ref="main", actor="test")
        desk.fold_scheduler.start()
        view = PageView(project.id, "/", clock.now(), VisitorClass.HUMAN, "", "", "", "", 1, "", "", 200, None)
        assert asyncio.run(desk.collector.save([view])).accepted == 1
        SharedRateLimiter(RateLimit("exports", 10, 60_000), desk.database, desk.rate_limit_executor).consume(project.id)
        started = {thread.name for thread in set(threading.enumerate()) - before}
        assert any(name.startswith("collect") for name in started)
        assert any(name.startswith("limits") for name in started)
        desk.fold_scheduler.stop(60)
        desk.close()
    left = {thread for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert {thread.name for thread in left} == set()
