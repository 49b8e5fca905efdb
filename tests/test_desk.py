"""A desk that is opened and closed again leaves nothing behind."""

import asyncio
import threading
from pathlib import Path

from copydesk.analytics.page_view import Class, View
from copydesk.core import clock
from copydesk.core.rate_limits.in_memory import SharedRate
from copydesk.core.rate_limits.limits import Limit
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support import migrated


def test_opening_and_closing_a_desk_many_times_leaves_no_threads(tmp_path: Path) -> None:
    migrated.new_sqlite(tmp_path)
    before = set(threading.enumerate())
    for number in range(5):
        desk = open_desk(Settings(data=tmp_path))
        project = desk.projects.create(f"Docs {number}", repository="/srv/docs.git", ref="main", actor="test")
        desk.keeper.start()
        view = View(project.id, "/", clock.now(), Class.HUMAN, "", "", "", "", 1, "", "", 200, None)
        assert asyncio.run(desk.collector.keep([view])).accepted == 1
        SharedRate(Limit("exports", 10, 60_000), desk.database, desk.limit_teller).take(project.id)
        started = {thread.name for thread in set(threading.enumerate()) - before}
        assert any(name.startswith("collect") for name in started)
        assert any(name.startswith("limits") for name in started)
        desk.keeper.stop(60)
        desk.close()
    left = {thread for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert {thread.name for thread in left} == set()
