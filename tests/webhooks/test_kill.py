"""kill -9 at any moment loses no event, invents none, and keeps the order of each job."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from copydesk.analytics.tables import feedback
from copydesk.core.projects.event_tables import event_deliveries, webhook_events
from copydesk.desk import Desk
from tests.support.webhook_receiver import OK, receive_webhooks, send_raw
from tests.webhooks.conftest import Deliveries

ROOT = Path(__file__).parents[2]
ROUNDS = 4
EVENTS, JOBS = 240, 24
OPEN_DESK = """
import sys
from copydesk.core import clock
from copydesk.core.settings import read_settings
from copydesk.desk import open_desk_lazily
desk = open_desk_lazily(read_settings(), create=False)
desk.webhooks, desk.feedback
print("ready", flush=True)
"""
SEND_PROGRAM = OPEN_DESK + "desk.webhooks.dispatcher.tick()"
CHANGE_PROGRAM = OPEN_DESK + "while True: desk.feedback.add(sys.argv[1], '/a', True, None, clock.now())"


def run_and_kill(desk: Desk, program: str, *arguments: str, is_busy: Callable[[], bool]) -> None:
    """Runs a program on the desk's database and kills it at a random moment after it became busy."""
    environment = {
        **os.environ,
        "COPYDESK_DATA": str(desk.settings.data),
        "COPYDESK_DATABASE_URL": desk.settings.database_url,
        "COPYDESK_WEBHOOK_ALLOW_PRIVATE": "true",
        "COPYDESK_FEEDBACK_PER_DAY": "1000000",
    }
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while not is_busy() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)


def count_feedback(desk: Desk) -> int:
    with desk.database.read() as tx:
        return len(tx.execute(select(feedback.c.id)).all())


@pytest.mark.deep
def test_killed_senders_lose_nothing_and_keep_the_order(
    desk: Desk, deliveries: Deliveries, numbers: Callable[[Any], list[int]]
) -> None:
    def answer_slowly(_: object) -> Any:
        time.sleep(random.uniform(0, 0.05))
        return send_raw(OK)

    with receive_webhooks(answer_slowly) as receiver:
        deliveries.add_endpoint(receiver.url)
        for number in range(EVENTS):
            deliveries.record(number, job=f"job_{number % JOBS}")
        for _ in range(ROUNDS):
            before = len(receiver.requests)
            run_and_kill(desk, SEND_PROGRAM, is_busy=lambda: len(receiver.requests) >= before + 10)  # noqa: B023
            deliveries.change(lease_until=0)  # the lease of the killed server is over
        killed_with = len(receiver.requests)
        deliveries.send_due(timeout_seconds=15)
    received = numbers(receiver)
    assert set(received) == set(range(EVENTS)), f"{killed_with} of {EVENTS} were sent before the last kill"
    assert all(row.outcome == "delivered" for row in deliveries.list_rows())
    for job in range(JOBS):
        first_times = list(dict.fromkeys(number for number in received if number % JOBS == job))
        assert first_times == sorted(first_times)


@pytest.mark.deep
def test_killed_change_and_its_event_are_both_stored_or_neither(
    desk: Desk, project_id: str, deliveries: Deliveries
) -> None:
    deliveries.add_endpoint("http://127.0.0.1:1/")
    for _ in range(ROUNDS):
        before = count_feedback(desk)
        run_and_kill(desk, CHANGE_PROGRAM, project_id, is_busy=lambda: count_feedback(desk) >= before + 5)  # noqa: B023
    with desk.database.read() as tx:
        entries = set(tx.execute(select(feedback.c.id)).scalars())
        subjects = list(tx.execute(select(webhook_events.c.subject)).scalars())
        delivered_events = set(tx.execute(select(event_deliveries.c.event_id)).scalars())
        events = set(tx.execute(select(webhook_events.c.id)).scalars())
    assert len(entries) > ROUNDS
    assert sorted(subjects) == sorted(entries)
    assert delivered_events == events
