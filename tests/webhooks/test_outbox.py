"""Deliveries: at least once with the same ID, in order per job, retried within a day, by any number of servers."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from copydesk.core import audit_log, clock
from copydesk.core.projects.project_events import EventType, record_event
from copydesk.desk import Desk
from copydesk.webhooks.outbox import GIVE_UP_MS, JITTER, LEASE_MS, MAX_PER_ENDPOINT, RETRY_DELAYS_MS, AttemptResult
from tests.support.webhook_receiver import OK, Received, answer, drip, hang, receive_webhooks, send_raw
from tests.webhooks.conftest import Deliveries

ROOT = Path(__file__).parents[2]
SEND_PROGRAM = """
from copydesk.core.settings import read_settings
from copydesk.desk import open_desk_lazily
open_desk_lazily(read_settings(), create=False).webhooks.dispatcher.tick()
"""
Numbers = Callable[[Any], list[int]]


def test_delivery_is_signed_as_the_specification_says(desk: Desk, project_id: str, deliveries: Deliveries) -> None:
    with receive_webhooks() as receiver:
        created = desk.webhooks.endpoints.add(project_id, receiver.url, actor="test")
        deliveries.record()
        deliveries.send_due()
    [request] = receiver.requests
    payload = Webhook(created.secret).verify(request.body, request.headers)
    assert payload["type"] == "feedback.created"
    assert payload["data"]["project"] == {"id": project_id, "name": "Docs"}
    assert request.headers["content-type"] == "application/json"
    assert request.path == "/hook"
    [delivery] = deliveries.list_rows()
    assert (delivery.outcome, delivery.attempts, delivery.last_status) == ("delivered", 1, 204)


def test_both_secrets_sign_for_a_day_after_a_rotation(desk: Desk, project_id: str, deliveries: Deliveries) -> None:
    with receive_webhooks() as receiver:
        first = desk.webhooks.endpoints.add(project_id, receiver.url, actor="test")
        second = desk.webhooks.endpoints.rotate_secret(project_id, first.endpoint.id, actor="test")
        deliveries.record()
        deliveries.send_due()
        third = desk.webhooks.endpoints.rotate_secret(project_id, first.endpoint.id, actor="test")
        with desk.database.write() as tx:  # the day is over
            tx.exec_driver_sql(f"update webhook_endpoints set previous_secret_until = {clock.now() - 1}")
        deliveries.record()
        deliveries.send_due()
    overlapping, later = receiver.requests
    for secret in (first.secret, second.secret):
        Webhook(secret).verify(overlapping.body, overlapping.headers)
    assert overlapping.headers["webhook-signature"].count("v1,") == 2
    Webhook(third.secret).verify(later.body, later.headers)
    assert later.headers["webhook-signature"].count("v1,") == 1


def test_failed_delivery_is_retried_with_the_same_id_and_body(deliveries: Deliveries) -> None:
    statuses = [500, 404, 302, 204]
    with receive_webhooks(lambda _: answer(statuses[len(receiver.requests) - 1])) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        for attempt, delay in enumerate(RETRY_DELAYS_MS[:3], 1):
            before = clock.now()
            deliveries.send_due()
            [row] = deliveries.list_rows()
            assert (row.attempts, row.outcome, row.lease_until) == (attempt, None, 0)
            assert before + delay * (1 - JITTER) <= row.next_attempt_at <= clock.now() + delay * (1 + JITTER)
            deliveries.send_due()
            assert len(receiver.requests) == attempt, "it is not due yet"
            deliveries.make_due()
        deliveries.send_due()
    assert len(set(receiver.ids())) == 1
    assert len({request.body for request in receiver.requests}) == 1
    assert [attempt.status for attempt in deliveries.list_attempts()] == statuses
    assert deliveries.list_rows()[0].outcome == "delivered"


def test_delivery_is_given_up_after_a_day_and_logged(deliveries: Deliveries) -> None:
    with receive_webhooks(lambda _: answer(500)) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.change(created_at=clock.now() - GIVE_UP_MS + 60_000, attempts=20)
        deliveries.send_due()
        [row] = deliveries.list_rows()
        assert row.outcome is None
        assert row.next_attempt_at == row.created_at + GIVE_UP_MS, "the last attempt is at the end of the day"
        deliveries.change(created_at=clock.now() - GIVE_UP_MS, next_attempt_at=0)
        deliveries.send_due()
    [row] = deliveries.list_rows()
    assert (row.outcome, row.next_attempt_at, row.error) == ("given_up", None, "The receiver answered 500.")


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honored_and_holds_the_endpoint(form: str, deliveries: Deliveries) -> None:
    value = "3600" if form == "seconds" else formatdate(time.time() + 3600, usegmt=True)
    with receive_webhooks(lambda _: answer(429, f"Retry-After: {value}")) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        before = clock.now()
        deliveries.send_due()
        assert deliveries.list_rows()[0].next_attempt_at >= before + 3_590_000
        deliveries.record()
        deliveries.send_due()
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("value", ["soon", "-5", "9" * 30, ""])
def test_invalid_retry_after_is_ignored(value: str, deliveries: Deliveries) -> None:
    with receive_webhooks(lambda _: answer(503, f"Retry-After: {value}")) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due()
    assert deliveries.list_rows()[0].next_attempt_at < clock.now() + 10_000


def test_410_disables_the_endpoint_and_cancels_its_deliveries(
    desk: Desk, project_id: str, deliveries: Deliveries
) -> None:
    with receive_webhooks(lambda _: answer(410)) as receiver:
        endpoint_id = deliveries.add_endpoint(receiver.url)
        for number in range(3):
            deliveries.record(number, job="job_1")
        deliveries.send_due()
        deliveries.record(9)
        deliveries.send_due()
    assert len(receiver.requests) == 1
    endpoint = desk.webhooks.endpoints.get(project_id, endpoint_id)
    assert (endpoint.enabled, endpoint.state) == (False, "gone")
    assert {row.outcome for row in deliveries.list_rows()} == {"cancelled"}
    assert "webhook.gone" in [entry["action"] for entry in audit_log.list_entries(desk.database, project_id)]


def test_events_of_a_job_stay_in_order_and_hold_only_their_own_job(deliveries: Deliveries, numbers: Numbers) -> None:
    is_broken = True

    def choose(request: Received) -> Any:
        return answer(500) if is_broken and request.json["data"]["number"] == 1 else answer(200)

    with receive_webhooks(choose) as receiver:
        deliveries.add_endpoint(receiver.url)
        for number in (1, 2, 3):
            deliveries.record(number, job="job_a")
        for number in (11, 12, 13):
            deliveries.record(number, job="job_b")
        deliveries.record(20)
        deliveries.send_due()
        assert sorted(numbers(receiver)) == [1, 11, 12, 13, 20]
        assert [number for number in numbers(receiver) if number in (11, 12, 13)] == [11, 12, 13]
        is_broken = False
        deliveries.make_due()
        deliveries.send_due()
    assert [number for number in numbers(receiver) if number < 10] == [1, 1, 2, 3]


def test_waiting_delivery_does_not_hold_up_the_same_job_at_another_endpoint(
    deliveries: Deliveries, numbers: Numbers
) -> None:
    with receive_webhooks(lambda _: answer(500)) as broken, receive_webhooks() as working:
        deliveries.add_endpoint(broken.url)
        deliveries.add_endpoint(working.url)
        deliveries.record(1, job="job_a")
        deliveries.send_due()
        deliveries.record(2, job="job_a")
        deliveries.send_due()
    assert numbers(broken) == [1]
    assert numbers(working) == [1, 2]


@pytest.mark.deep
def test_many_servers_deliver_each_event_once_and_in_order(deliveries: Deliveries, numbers: Numbers) -> None:
    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url)
        for number in range(60):
            deliveries.record(number, job=f"job_{number % 6}")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: deliveries.send_due(), range(4)))
        deliveries.send_due()
    received = numbers(receiver)
    assert sorted(received) == list(range(60))
    for job in range(6):
        own = [number for number in received if number % 6 == job]
        assert own == sorted(own)


@pytest.mark.deep
def test_hanging_endpoint_does_not_hold_up_others(deliveries: Deliveries, numbers: Numbers) -> None:
    with receive_webhooks(lambda _: hang()) as hanging, receive_webhooks() as healthy:
        deliveries.add_endpoint(hanging.url, events=["feedback.created"])
        deliveries.add_endpoint(healthy.url)
        for number in range(40):
            deliveries.record(number)
        started = time.monotonic()
        dispatcher = deliveries.make_dispatcher(timeout_seconds=3)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(dispatcher.tick)
            while len(healthy.requests) < 40 and time.monotonic() < started + 20:
                time.sleep(0.02)
            seconds = time.monotonic() - started
            assert len(healthy.requests) == 40
            deliveries.change(next_attempt_at=clock.now() + clock.HOUR)
            future.result()
    assert hanging.max_open <= MAX_PER_ENDPOINT
    assert seconds < 3, "the healthy endpoint got everything before the first timeout"


@pytest.mark.deep
def test_endpoint_that_timed_out_gets_one_delivery_at_a_time(deliveries: Deliveries) -> None:
    with receive_webhooks(lambda _: hang()) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due(timeout_seconds=0.3)
        for number in range(5):
            deliveries.record(number)
        receiver.max_open = 0
        deliveries.make_due()
        deliveries.send_due(timeout_seconds=0.3)
    assert receiver.max_open == 1
    assert all("No answer within" in row.error for row in deliveries.list_rows())


def send_head_and_drip(connection: socket.socket, request: Received) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    drip(b"y" * 100)(connection, request)


@pytest.mark.deep
def test_answers_that_drip_or_lie_are_bounded_and_only_the_status_counts(deliveries: Deliveries) -> None:
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 3_000_000
    accepted = [
        send_raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n\x00\xff<"),
        send_raw(huge),
        send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        send_raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK),
        send_head_and_drip,
    ]
    refused = [
        send_raw(b"I am not HTTP\r\n\r\n"),
        send_raw(b""),
        drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 500),
        send_raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000),
    ]
    for number, choice in enumerate([*accepted, *refused]):
        with receive_webhooks(lambda _, choice=choice: choice) as receiver:  # type: ignore[misc]
            endpoint_id = deliveries.add_endpoint(receiver.url)
            deliveries.record(number)
            started = time.monotonic()
            deliveries.send_due(timeout_seconds=4)
            assert time.monotonic() - started < 8
        row = deliveries.list_rows()[-1]
        assert (row.outcome == "delivered") == (number < len(accepted)), (number, row)
        deliveries.desk.webhooks.endpoints.remove(deliveries.project_id, endpoint_id, actor="test")


def test_log_keeps_a_short_excerpt_without_secrets(deliveries: Deliveries) -> None:
    body = b"token ghp_" + b"a" * 36 + b" \x1b[31m and whsec_" + b"b" * 30 + b" " + b"long " * 5000
    with receive_webhooks(lambda _: answer(500, body=body)) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due()
    [attempt] = deliveries.list_attempts()
    assert len(attempt.excerpt) <= 500
    assert not any(secret in attempt.excerpt for secret in ("ghp_", "whsec_", "\x1b"))
    assert attempt.duration_ms >= 0


@pytest.mark.deep
def test_killed_server_loses_nothing(desk: Desk, deliveries: Deliveries) -> None:
    """Kills a server after the receiver has the delivery and before its answer, and then sends it again."""
    with receive_webhooks(lambda _: hang()) as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record(1, job="job_1")
        deliveries.record(2, job="job_1")
        settings = desk.settings
        environment = {
            **os.environ,
            "COPYDESK_DATA": str(settings.data),
            "COPYDESK_DATABASE_URL": settings.database_url,
            "COPYDESK_WEBHOOK_ALLOW_PRIVATE": "true",
        }
        process = subprocess.Popen([sys.executable, "-c", SEND_PROGRAM], env=environment, cwd=ROOT)
        deadline = time.monotonic() + 60
        while not receiver.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        receiver.choose = lambda _: answer(200)
        deliveries.send_due()
        assert len(receiver.requests) == 1, "the lease of the killed server lasts"
        deliveries.change(lease_until=clock.now() - 1)
        deliveries.send_due()
    ids = receiver.ids()
    assert len(ids) == 3
    assert ids[0] == ids[1] != ids[2]
    assert [row.outcome for row in deliveries.list_rows()] == ["delivered"] * 2


def test_late_server_changes_nothing_after_its_lease(desk: Desk, deliveries: Deliveries) -> None:
    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        [late] = desk.webhooks.outbox.claim(5, {})
        deliveries.change(lease_until=0)
        deliveries.send_due()
        before = deliveries.list_rows()
        desk.webhooks.outbox.record([AttemptResult(late, clock.now(), 5, 500, "late")])
    assert deliveries.list_rows() == before
    assert len(deliveries.list_attempts()) == 1


def test_lease_from_before_the_clock_was_set_back_counts_as_over(deliveries: Deliveries) -> None:
    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.change(lease_until=clock.now() + 10 * LEASE_MS)
        deliveries.send_due()
    assert len(receiver.requests) == 1


def test_disabled_endpoint_gets_nothing_and_old_deliveries_are_given_up_and_deleted(
    desk: Desk, project_id: str, deliveries: Deliveries
) -> None:
    with receive_webhooks() as receiver:
        endpoint_id = deliveries.add_endpoint(receiver.url)
        deliveries.record()
        desk.webhooks.endpoints.change(project_id, endpoint_id, enabled=False, actor="test")
        deliveries.record()
        deliveries.send_due()
    assert receiver.requests == []
    assert len(deliveries.list_rows()) == 1, "events of a disabled endpoint are not queued"
    deliveries.change(created_at=clock.now() - 2 * clock.DAY)
    desk.webhooks.dispatcher.sweep()
    assert deliveries.list_rows()[0].outcome == "given_up"
    with desk.database.write() as tx:
        for table in ("event_deliveries", "webhook_events"):
            tx.exec_driver_sql(f"update {table} set created_at = {clock.now() - 31 * clock.DAY}")
    desk.webhooks.dispatcher.sweep()
    assert deliveries.list_rows() == []


def test_rolled_back_change_leaves_no_event(desk: Desk, project_id: str, deliveries: Deliveries) -> None:
    deliveries.add_endpoint("http://127.0.0.1:1/")
    with pytest.raises(RuntimeError), desk.database.write() as tx:
        record_event(desk.database, tx, project_id, EventType.FEEDBACK_CREATED, "x", dict)
        raise RuntimeError
    assert deliveries.list_rows() == []


def test_endpoint_that_fails_for_long_is_shown_as_such(desk: Desk, project_id: str, deliveries: Deliveries) -> None:
    with receive_webhooks(lambda _: answer(500)) as receiver:
        endpoint_id = deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due()
        assert desk.webhooks.endpoints.get(project_id, endpoint_id).state == "enabled", "it just began to fail"
        with desk.database.write() as tx:
            tx.exec_driver_sql(f"update webhook_endpoints set failing_since = {clock.now() - 2 * clock.HOUR}")
        endpoint = desk.webhooks.endpoints.get(project_id, endpoint_id)
        assert (endpoint.state, endpoint.last_error) == ("failing", "The receiver answered 500.")
        assert desk.webhooks.endpoints.list_unhealthy() == [endpoint]
        receiver.choose = lambda _: answer(200)
        deliveries.make_due()
        deliveries.send_due()
    assert desk.webhooks.endpoints.get(project_id, endpoint_id).state == "enabled"
