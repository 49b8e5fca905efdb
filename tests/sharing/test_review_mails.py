"""Reminders by mail of pull requests that wait for a review: once, to people who asked for mail about the project."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from copydesk.core import clock
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import jobs, review_waits
from copydesk.mail.tables import mails
from tests.support.people import add_person

SMTP: dict[str, Any] = {"smtp_host": "127.0.0.1", "smtp_port": 1, "smtp_tls": "none", "smtp_from": "desk@example.org"}


@pytest.fixture
def desk(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    opened = open_desk_lazily(Settings(data=tmp_path_factory.mktemp("data"), database_url=migrated_url, **SMTP))
    yield opened
    opened.close()


@pytest.fixture
def project_id(desk: Desk) -> str:
    return desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test").id


def add_waiting_job(desk: Desk, project_id: str, *, mentioned_days_ago: int = 0, pull_state: str = "open") -> str:
    """Adds a job whose pull request has waited for 14 days and was mentioned."""
    job = desk.jobs.create(desk.projects.get(project_id), NewJob("Fix it", title="Fix <b>\r\nlinks")).job
    now = clock.now()
    with desk.database.write() as tx:
        values = {"status": "completed", "pull_state": pull_state, "pr_link": "https://example.org/pulls/1"}
        tx.execute(update(jobs).where(jobs.c.id == job.id).values(values))
        mentioned_at = now - mentioned_days_ago * clock.DAY
        wait = {"job_id": job.id, "waiting_since": now - 14 * clock.DAY, "mentioned_at": mentioned_at}
        tx.execute(insert(review_waits).values(wait))
    return job.id


def list_mails(desk: Desk) -> list[Any]:
    with desk.database.read() as tx:
        return list(tx.execute(select(mails).order_by(mails.c.recipient)))


def test_reminder_goes_once_to_each_person_who_gets_the_summary(desk: Desk, project_id: str) -> None:
    for name in ("ada", "bob"):
        person = add_person(desk, f"{name}@example.org", "editor")
        desk.sharing.subscriptions.subscribe_person(project_id, person)
    add_person(desk, "carol@example.org", "admin")
    desk.sharing.subscriptions.add_address(project_id, "outside@example.net", actor="test")
    job_id = add_waiting_job(desk, project_id)
    for _ in range(2):
        desk.sharing.review_mails.tick()
    found = list_mails(desk)
    assert [mail.recipient for mail in found] == ["ada@example.org", "bob@example.org"]
    [ada, _] = found
    assert f"/projects/{project_id}/jobs/{job_id}" in ada.text
    assert "has waited for 14 days" in ada.text
    assert "Fix <b> links" in " ".join(ada.text.split())
    assert "Fix &lt;b&gt;" in ada.html
    assert "/unsubscribe/" in ada.headers["List-Unsubscribe"]


def test_unsubscribing_cancels_a_reminder_that_was_not_sent(desk: Desk, project_id: str) -> None:
    person = add_person(desk, "ada@example.org", "editor")
    desk.sharing.subscriptions.subscribe_person(project_id, person)
    add_waiting_job(desk, project_id)
    desk.sharing.review_mails.tick()
    desk.sharing.subscriptions.unsubscribe_person(project_id, person)
    assert list_mails(desk) == []


@pytest.mark.parametrize("wait", [{"pull_state": "merged"}, {"mentioned_days_ago": 8}])
def test_merged_pull_requests_and_old_mentions_are_not_mailed(
    desk: Desk, project_id: str, wait: dict[str, Any]
) -> None:
    desk.sharing.subscriptions.subscribe_person(project_id, add_person(desk, "ada@example.org", "editor"))
    add_waiting_job(desk, project_id, **wait)
    desk.sharing.review_mails.tick()
    assert list_mails(desk) == []


def test_nothing_is_queued_without_a_mail_server(desk: Desk, project_id: str) -> None:
    desk.sharing.subscriptions.subscribe_person(project_id, add_person(desk, "ada@example.org", "editor"))
    add_waiting_job(desk, project_id)
    desk.sharing.review_mails.server = None
    desk.sharing.review_mails.tick()
    assert list_mails(desk) == []
