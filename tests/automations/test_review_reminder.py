"""A pull request of an automation that nobody touched for long is mentioned once, by one of all servers."""

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.job import Creator, CreatorKind
from copydesk.jobs.publish.forges.polling import archive_closed_pulls
from copydesk.jobs.publish.forges.review_reminder import CLAIM_MS, ReviewReminder
from copydesk.jobs.storage.tables import events, jobs, messages, pulls, review_waits
from tests.automations.killed_triggers import kill_at
from tests.automations.test_appended_runs import Automated, open_automated
from tests.conftest import DATABASES
from tests.jobs.publish.forges.stage import create_project, fake_forge
from tests.support import migrated_databases
from tests.support.drills import mark_drills
from tests.support.processes import forkserver

DAYS = 14
MENTION = "has waited for a review for"
SERVERS = 3
MOMENTS = 24
"""More than a check of one pull request has, so that the last ones kill no process."""


def let_pass(desk: Desk, days: float, pull: Any = None) -> None:
    """Moves everything that happened this many days into the past, here and on the forge."""
    ms = int(days * clock.DAY)
    with desk.database.write() as tx:
        for table, names in (
            (jobs, ("created_at", "finished_at")),
            (events, ("at",)),
            (messages, ("created_at",)),
            (pulls, ("created_at",)),
            (review_waits, ("waiting_since", "claimed_at", "mentioned_at")),
        ):
            tx.execute(update(table).values({name: table.c[name] - ms for name in names}))
    if pull is not None:
        pull.updated -= timedelta(days=days)
        pull.created -= timedelta(days=days)
        for comment in pull.comments:
            comment.created -= timedelta(days=days)


def poll(automated: Automated, days: int = DAYS) -> None:
    desk = automated.service.desk
    reminder = ReviewReminder(desk.database, days)
    archive_closed_pulls(desk.database, [automated.service.project], desk.secrets, reminder=reminder)


def count_mentions(automated: Automated) -> int:
    return sum(MENTION in comment for comment in automated.comments)


@pytest.fixture(params=mark_drills(("github", "gitlab", "gitea", "forgejo"), default=("github", "gitlab", "gitea")))
def automated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Automated]:
    with open_automated(tmp_path, request.param) as automated:
        automated.run("1")
        yield automated


@pytest.mark.deep
def test_untouched_pull_request_is_mentioned_once(automated: Automated) -> None:
    desk, pull = automated.service.desk, automated.pull
    [job] = desk.jobs.list_newest(automated.service.project.id, 0, 5)
    reminder = ReviewReminder(desk.database, DAYS)
    let_pass(desk, DAYS - 1, pull)
    poll(automated)
    assert (count_mentions(automated), reminder.list_waiting_days([job.id])) == (0, {})
    let_pass(desk, 1, pull)
    poll(automated, days=0)
    assert count_mentions(automated) == 0, "0 days mean never"
    poll(automated)
    assert "has waited for a review for 14 days. Please merge it, close it, or" in automated.comments[0]
    let_pass(desk, 2, pull)
    poll(automated)
    assert (count_mentions(automated), reminder.list_waiting_days([job.id])) == (1, {job.id: 16})
    automated.fake.comment(pull.number, "I will look at it.")
    poll(automated)
    assert reminder.list_waiting_days([job.id]) == {}, "a person touched it"
    let_pass(desk, 40, pull)
    poll(automated)
    assert count_mentions(automated) == 1, "never again"


@pytest.mark.deep
@pytest.mark.parametrize("touch", ["comment", "push", "message"])
def test_touched_pull_request_waits_from_the_touch_on(automated: Automated, touch: str) -> None:
    desk, pull = automated.service.desk, automated.pull
    let_pass(desk, 10, pull)
    if touch == "comment":
        automated.fake.comment(pull.number, "Later.")
    elif touch == "push":
        automated.fake.commit(pull.head, {"docs/own.md": b"# Own\n"})
        pull.updated = datetime.now(UTC)
    else:
        [job] = desk.jobs.list_newest(automated.service.project.id, 0, 5)
        creator = Creator(kind=CreatorKind.PERSON, name="Ada")
        desk.jobs.add_message(automated.service.project, job.id, "Name the other.", created_by=creator)
        automated.service.client.wait(job.id)
    let_pass(desk, 10, pull)
    poll(automated)
    assert count_mentions(automated) == 0
    let_pass(desk, 4, pull)
    poll(automated)
    assert count_mentions(automated) == 1


@pytest.mark.deep
def test_runs_of_the_automation_itself_are_no_touch(automated: Automated) -> None:
    desk, pull = automated.service.desk, automated.pull
    let_pass(desk, 10, pull)
    automated.run("2")
    poll(automated)
    let_pass(desk, 4, pull)
    poll(automated)
    assert count_mentions(automated) == 1


@pytest.mark.deep
def test_pull_requests_of_people_are_not_mentioned(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        client = automated.service.client
        client.wait(client.create_job("Spell color so.", model="openai:scripted")["id"])
        let_pass(automated.service.desk, 20, automated.pull)
        poll(automated)
        assert automated.comments == []


@pytest.mark.deep
def test_local_pull_request_is_marked_without_a_comment(tmp_path: Path) -> None:
    with open_automated(tmp_path) as automated:
        job = automated.run("1")
        desk = automated.service.desk
        reminder = ReviewReminder(desk.database, DAYS)
        let_pass(desk, 13)
        reminder.check_local_pulls()
        assert reminder.list_waiting_days([job["id"]]) == {}
        let_pass(desk, 3)
        reminder.check_local_pulls()
        assert reminder.list_waiting_days([job["id"]]) == {job["id"]: 16}
        assert ReviewReminder(desk.database, 0).list_waiting_days([job["id"]]) == {}


@dataclass(frozen=True)
class ReminderOrders:
    url: str
    folder: Path
    project_id: str
    kill_moment: int | None = None
    start_at: float = 0


def run_reminder_process(orders: ReminderOrders) -> None:
    """Polls once, as every server does, and is killed at a numbered moment."""
    desk = open_desk_lazily(Settings(data=orders.folder / "data", database_url=orders.url))
    project = desk.projects.get(orders.project_id)
    desk.secrets.all(project.id)
    time.sleep(max(0.0, orders.start_at - time.time()))
    if orders.kill_moment is not None:
        kill_at(desk.database, orders.kill_moment)
    reminder = ReviewReminder(desk.database, DAYS)
    archive_closed_pulls(desk.database, [project], desk.secrets, reminder=reminder)
    desk.close()


@pytest.fixture(params=DATABASES)
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, ReminderOrders]]:
    """A pull request of an automation that waits for 15 days, with its fake forge."""
    url = migrated_databases.new_database(request.param, tmp_path)
    with fake_forge("github", tmp_path / "forge") as fake:
        desk = open_desk_lazily(Settings(data=tmp_path / "data", database_url=url))
        project = create_project(desk, "github", fake)
        fields = {"name": "Nightly", "prompt": "Replace colour with color.", "trigger": {"type": "api"}}
        automation = desk.automations.create(project, fields, actor="test")
        job_id = desk.automations.run_now(project, automation.id, actor="test").job_id
        fake.branch(f"copydesk/{job_id}")
        head = fake.commit(f"copydesk/{job_id}", {"docs/index.md": b"# Hello\n"})
        about = {"title": "A", "body": "", "head": f"copydesk/{job_id}", "base": "main"}
        pull = fake.open(fake.repository, author=fake.users["copydesk"], **about)
        opened = clock.now() - 15 * clock.DAY
        values = {"status": "completed", "pull_state": "open", "finished_at": opened, "head": head}
        with desk.database.write() as tx:
            link = f"{fake.url}/acme/docs/pull/{pull.number}"
            tx.execute(update(jobs).values(pr_link=link, created_at=opened, **values))
            tx.execute(update(messages).values(created_at=opened))
            tx.execute(update(events).values(kind="pull_request", at=opened))
        pull.updated -= timedelta(days=15)
        desk.close()
        yield fake, ReminderOrders(url, tmp_path, project.id)


def run_processes(orders: ReminderOrders, count: int) -> list[int | None]:
    processes = [forkserver.Process(target=run_reminder_process, args=(orders,)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def expire_claim(url: str) -> None:
    database = Database(url)
    with database.write() as tx:
        tx.execute(update(review_waits).values(claimed_at=review_waits.c.claimed_at - CLAIM_MS - clock.SECOND))
    database.close()


def list_bodies(fake: Any) -> list[str]:
    [pull] = fake.pulls
    return [comment.body for comment in pull.comments]


@pytest.mark.deep
def test_three_servers_mention_it_once(waiting: tuple[Any, ReminderOrders]) -> None:
    fake, orders = waiting
    together = replace(orders, start_at=time.time() + 4)
    assert run_processes(together, SERVERS) == [0] * SERVERS
    assert [MENTION in body for body in list_bodies(fake)] == [True]


@pytest.mark.parametrize("moment", mark_drills(range(MOMENTS), default=(9, 11, 12, 13)))
def test_server_killed_at_any_moment_leaves_one_mention(waiting: tuple[Any, ReminderOrders], moment: int) -> None:
    fake, orders = waiting
    [code] = run_processes(replace(orders, kill_moment=moment), 1)
    assert code in (0, -signal.SIGKILL)
    expire_claim(orders.url)
    assert run_processes(orders, SERVERS) == [0] * SERVERS
    assert [MENTION in body for body in list_bodies(fake)] == [True]
    database = Database(orders.url)
    with database.read() as tx:
        assert tx.execute(select(review_waits.c.mentioned_at)).scalar_one() is not None
    database.close()


@pytest.mark.parametrize("moment", ["received", "done"])
def test_server_killed_while_it_comments_leaves_one_mention(waiting: tuple[Any, ReminderOrders], moment: str) -> None:
    """The forge gets the request of a process that dies before the answer."""
    fake, orders = waiting
    original = fake.answer
    process = forkserver.Process(target=run_reminder_process, args=(orders,))
    is_killed = threading.Event()

    def kill() -> None:
        """Waits without `join`: two threads that join a process compete for its exit code."""
        is_killed.set()
        child = psutil.Process(process.pid)
        child.kill()
        child.wait()

    def kill_when_commenting(method: str, target: str, headers: Any, body: bytes) -> Any:
        is_comment = method == "POST" and target.endswith("/comments") and not is_killed.is_set()
        if is_comment and moment == "received":
            kill()
        response = original(method, target, headers, body)
        if is_comment and moment == "done":
            kill()
        return response

    fake.answer = kill_when_commenting
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    expire_claim(orders.url)
    assert run_processes(orders, 1) == [0]
    assert [MENTION in body for body in list_bodies(fake)] == [True]
