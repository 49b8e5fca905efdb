"""A server process that fires triggers, and is killed (kill -9) at a numbered moment.

Moments are counted in the process: each SQL statement before it runs, the end of each write before its commit, and each
commit once it is done. So every step of a trigger has a moment before, inside and after it.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from copydesk.automations.triggers.scheduler import Scheduler
from copydesk.automations.triggers.watch import RepositoryWatch, WatchedRepository
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror


@dataclass(frozen=True)
class TriggerOrders:
    """The instructions of a server process."""

    url: str
    folder: Path
    project_id: str
    action: str
    """`schedules`, `watch` or `request`."""
    automation_id: str = ""
    kill_at: int | None = None
    """The moment at which the process kills itself."""
    start_at: float = 0
    """The time of day at which it begins, so that several processes begin together."""
    rounds: int = 1


def run_trigger_process(orders: TriggerOrders) -> None:
    desk = open_desk_lazily(Settings(data=orders.folder / "data", database_url=orders.url))
    with desk.database.read() as tx:  # connects before the start
        tx.exec_driver_sql("select 1")
    time.sleep(max(0.0, orders.start_at - time.time()))
    if orders.kill_at is not None:
        _kill_at(desk.database, orders.kill_at)
    for _ in range(orders.rounds):
        act(desk, orders)
    desk.close()


def act(desk: Desk, orders: TriggerOrders) -> None:
    """Does once what a server does all the time. Without the lease, so that all processes race for each trigger."""
    if orders.action == "schedules":
        Scheduler(desk.database, desk.automations.firing).fire_due_schedules()
    elif orders.action == "watch":
        build_watch(desk, orders.folder).look()
    else:
        project = desk.projects.get(orders.project_id)
        desk.automations.run_now(project, orders.automation_id, actor="CI")


def build_watch(desk: Desk, folder: Path) -> RepositoryWatch:
    """Watches the project's repository and `code`, without a quiet period."""
    code = str(folder / "code.git")

    def list_repositories(project: Project) -> list[WatchedRepository]:
        mirror = folder / f"mirrors-{os.getpid()}" / "code.git"
        context = WatchedRepository("code", code, "main", lambda: Git(code), lambda: Mirror(mirror, Git(code)))
        return [*desk.list_watched_repositories(project), context]

    return RepositoryWatch(
        desk.database, desk.automations.firing, list_repositories, quiet_ms=0, lease_ms=60 * clock.SECOND
    )


def _kill_at(database: Database, moment: int) -> None:
    passed = 0
    really_write = Database.write

    def pass_moment(*_: Any) -> None:
        nonlocal passed
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(1)  # a signal may take effect a moment later; no further statement may run
        passed += 1

    @contextmanager
    def write(self: Database) -> Iterator[Connection]:
        with really_write(self) as tx:
            yield tx
            pass_moment()
        pass_moment()

    event.listen(database.engine, "before_cursor_execute", pass_moment)
    setattr(Database, "write", write)  # noqa: B010 - the process ends with it
