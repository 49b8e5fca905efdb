"""A server process that fires triggers, and is killed (kill -9) at a numbered moment.

Moments are counted in the process: each SQL statement before it runs, the end of each write before its commit, and each
commit once it is done. So every step of a trigger has a moment before, inside and after it.
"""

import hashlib
import hmac
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from copydesk.automations.triggers.look_requests import LookRequests, RequestedLooks
from copydesk.automations.triggers.looks import WatchedRepository
from copydesk.automations.triggers.scheduler import Scheduler
from copydesk.automations.triggers.watch import RepositoryWatch
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.publish.forges.webhooks.receiver import DeliveryResult, WebhookReceiver
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror

WEBHOOK_SECRET = "the-webhook-secret"


@dataclass(frozen=True)
class TriggerOrders:
    """The instructions of a server process."""

    url: str
    folder: Path
    project_id: str
    action: str
    """`schedules`, `watch`, `files`, `deliver`, `requested looks`, `request` or `keyed request`."""
    automation_id: str = ""
    """The automation that a request runs, or the id of a delivery."""
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
        kill_at(desk.database, orders.kill_at)
    for _ in range(orders.rounds):
        act(desk, orders)
    desk.close()


def act(desk: Desk, orders: TriggerOrders) -> None:
    """Does once what a server does all the time. Without the lease, so that all processes race for each trigger."""
    if orders.action == "schedules":
        Scheduler(desk.database, desk.automations.firing).fire_due_schedules()
    elif orders.action == "watch":
        build_watch(desk, orders.folder).look()
    elif orders.action == "files":
        desk.create_repository_watch().look()
    elif orders.action == "deliver":
        deliver_push(desk, orders.project_id, orders.folder, orders.automation_id)
    elif orders.action == "requested looks":
        requests = LookRequests(desk.database, desk.contexts, claim_ms=0)
        RequestedLooks(requests, build_watch(desk, orders.folder)).tick()
    else:
        project = desk.projects.get(orders.project_id)
        key = orders.automation_id if orders.action == "keyed request" else None
        desk.automations.run_now(project, orders.automation_id, actor="CI", idempotency_key=key)


def deliver_push(desk: Desk, project_id: str, folder: Path, delivery_id: str) -> str:
    """Accepts a signed delivery about a push to the project's repository, as the server does. Returns its outcome."""
    payload = {"ref": "refs/heads/main", "after": "a" * 40, "repository": {"full_name": f"{folder.name}/docs"}}
    body = json.dumps(payload).encode()
    signature = hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": delivery_id, "x-hub-signature-256": f"sha256={signature}"}
    receiver = WebhookReceiver(desk.database, desk.projects, desk.jobs, desk.secrets, desk.look_requests)
    result = receiver.accept_delivery(project_id, headers, body)
    assert isinstance(result, DeliveryResult)
    return result.outcome


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


def kill_at(database: Database, moment: int) -> None:
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
