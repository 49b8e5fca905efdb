"""Each change records its event, in the same transaction, with what a receiver needs to know."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from copydesk.analytics.interactions.feedback import FeedbackDetails
from copydesk.core import clock
from copydesk.core.projects.event_tables import event_deliveries, webhook_events
from copydesk.jobs.service import NewJob
from copydesk.sharing.tables import summary_schedules
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.webhook_receiver import hang, receive_webhooks

FIX = "Replace colour with color."


@pytest.fixture(params=DATABASES)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """Serves Copydesk with a worker, on each database in turn."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    url = "" if request.param == "sqlite" else migrated_databases.new_database(request.param, tmp_path)
    with serve(tmp_path / "data", repository=repository, database_url=url, webhook_allow_private=True) as running:
        yield running


def list_events(service: Service) -> list[Any]:
    with service.desk.database.read() as tx:
        query = select(webhook_events, event_deliveries.c.order_key, event_deliveries.c.position)
        query = query.join(event_deliveries, event_deliveries.c.event_id == webhook_events.c.id)
        return list(tx.execute(query.order_by(webhook_events.c.id)).all())


def list_types(service: Service) -> list[str]:
    return [event.type for event in list_events(service)]


def add_endpoint(service: Service, url: str = "http://127.0.0.1:1/") -> None:
    service.desk.webhooks.endpoints.add(service.project.id, url, actor="test")


@pytest.mark.deep
def test_job_sends_its_events_in_order(service: Service) -> None:
    with receive_webhooks() as receiver:
        add_endpoint(service, receiver.url)
        job = service.client.wait(service.client.create_job(FIX)["id"])
        pull = service.desk.pulls.list_for_project(service.project.id)[0]
        service.desk.pulls.close(pull, "test")
        wait_until_delivered(service)
    assert receiver.types() == ["pull_request.opened", "job.completed", "pull_request.closed", "job.archived"]
    described = receiver.requests[1].json["data"]["job"]
    assert described["id"] == job["id"]
    assert (described["status"], described["reason"]) == ("completed", None)
    assert described["pullRequest"] == {"url": job["prLink"], "state": "open"}
    assert described["url"].endswith(f"/projects/{service.project.id}/jobs/{job['id']}")
    assert receiver.requests[2].json["data"]["job"]["pullRequest"]["state"] == "closed"
    assert receiver.requests[3].json["data"]["job"]["status"] == "archived"
    assert [event.position for event in list_events(service)] == [1, 2, 3, 4]


def wait_until_delivered(service: Service) -> None:
    deadline = time.monotonic() + 30
    while service.desk.webhooks.read_stats().waiting and time.monotonic() < deadline:
        time.sleep(0.05)
    assert service.desk.webhooks.read_stats().waiting == 0


@pytest.mark.deep
def test_follow_up_opens_no_second_pull_request_but_completes_again(service: Service) -> None:
    job = service.client.wait(service.client.create_job(FIX)["id"])
    add_endpoint(service)
    service.client.message_job(job["id"], "Replace things with matters.")
    service.client.wait(job["id"])
    assert list_types(service) == ["job.completed"]


@pytest.mark.deep
def test_closed_pull_request_that_is_reopened_is_opened_again(service: Service) -> None:
    job = service.client.wait(service.client.create_job(FIX)["id"])
    desk, project_id = service.desk, service.project.id
    add_endpoint(service)
    desk.jobs.archive(project_id, job["id"], "closed")
    desk.jobs.archive(project_id, job["id"], "closed")
    desk.jobs.unarchive(project_id, job["id"], "open")
    desk.jobs.archive(project_id, job["id"])
    desk.jobs.archive(project_id, job["id"], "merged")
    assert list_types(service) == [
        "pull_request.closed",
        "job.archived",
        "pull_request.opened",
        "job.archived",
        "pull_request.merged",
    ]


def test_cancelled_job_has_failed(service: Service) -> None:
    add_endpoint(service)
    desk, project = service.desk, service.project
    job = desk.jobs.build_job(project, NewJob(FIX))
    with desk.database.write() as tx:  # a queued job that no worker sees before it is archived
        desk.jobs.insert_job(tx, job)
        desk.jobs.archive_in(tx, project.id, job.id, None)
    event, archived = list_events(service)
    assert archived.type == "job.archived"
    assert (event.type, event.data["job"]["reason"], event.order_key) == ("job.failed", "cancelled", job.id)


def test_failed_run_of_an_automation_is_told_after_its_job(service: Service) -> None:
    add_endpoint(service)
    automation = service.client.create_automation(name="Nightly", prompt=FIX, trigger={"type": "api"})
    with service.desk.database.write() as tx:
        tx.exec_driver_sql("update projects set repository = '/nowhere/at-all'")
    run = service.client.run_automation(automation["id"])
    service.client.wait(run["jobId"])
    failed, told = list_events(service)
    assert (failed.type, told.type) == ("job.failed", "automation.failed")
    assert told.data["automation"] == {"id": automation["id"], "name": "Nightly"}
    assert told.data["reason"] == failed.data["job"]["reason"] == "repository_error"
    assert told.data["job"]["id"] == run["jobId"]
    assert (failed.position, told.position) == (1, 2)


def test_feedback_is_told_without_the_contact_and_forgotten_with_the_entry(service: Service) -> None:
    add_endpoint(service)
    desk, project_id = service.desk, service.project.id
    details = FeedbackDetails(contact="ada@example.org", event="hash")
    entry = desk.feedback.add(project_id, "/a", False, "Unclear.", clock.now(), details)
    assert entry is not None
    assert desk.feedback.add(project_id, "/a", False, "Unclear.", clock.now(), details) is None
    [event] = list_events(service)
    assert event.data["feedback"]["comment"] == "Unclear."
    assert "ada@example.org" not in str(event.data)
    desk.feedback.delete_entries(project_id)
    assert list_events(service) == []


@pytest.mark.deep
def test_weekly_summary_needs_no_mail_server(service: Service) -> None:
    desk, project_id = service.desk, service.project.id
    desk.webhooks.endpoints.add(project_id, "http://127.0.0.1:1/", events=["summary.weekly"], actor="test")
    service.client.send_events([{"path": "/a", "ip": "192.0.2.7", "userAgent": "curl/8"}])
    desk.sharing.summaries.queue_due_summaries()
    assert list_events(service) == [], "it is planned for Monday"
    with desk.database.write() as tx:
        tx.execute(update(summary_schedules).values(next_slot_at=summary_schedules.c.next_slot_at - 7 * clock.DAY))
    for _ in range(3):
        desk.sharing.summaries.queue_due_summaries()
    [event] = list_events(service)
    assert event.data["summary"]["visitors"].keys() == {"human", "ai", "total"}
    assert event.data["summary"]["firstDay"] < event.data["summary"]["lastDay"]


@pytest.mark.deep
def test_hanging_receiver_does_not_hold_up_jobs(service: Service) -> None:
    with receive_webhooks(lambda _: hang()) as receiver:
        add_endpoint(service, receiver.url)
        first = service.client.wait(service.client.create_job(FIX)["id"])
        started = time.monotonic()
        while not receiver.requests and time.monotonic() < started + 20:
            time.sleep(0.02)
        second = service.client.wait(service.client.create_job(FIX)["id"])
        assert receiver.open_count >= 1, "the first delivery still hangs"
    assert (first["status"], second["status"]) == ("completed", "completed")


def test_project_without_webhooks_stores_no_events(service: Service) -> None:
    service.client.wait(service.client.create_job(FIX)["id"])
    service.desk.feedback.add(service.project.id, "/a", True, None, clock.now())
    assert list_events(service) == []
