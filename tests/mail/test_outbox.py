"""The outbox: each mail is sent once by any number of servers, retried within a day, and survives kill -9."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from copydesk.core import clock
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.mail.outbox import GIVE_UP_MS, KEPT_MS, LEASE_MS, RETRY_DELAYS_MS, NewMail
from copydesk.mail.sender import MailSender
from copydesk.mail.smtp import SmtpServer
from copydesk.mail.tables import mails
from tests.support.smtp_server import SmtpOddities, SmtpServerForTests, serve_smtp

SENDER = "desk@example.org"
ROOT = Path(__file__).parents[2]
SEND_PROGRAM = """
import sys
from copydesk.core.settings import read_settings
from copydesk.desk import open_desk_lazily
desk = open_desk_lazily(read_settings(), create=False)
desk.sharing.mail_sender.tick()
"""


@pytest.fixture
def desk(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    opened = open_desk_lazily(Settings(data=tmp_path_factory.mktemp("data"), database_url=migrated_url))
    yield opened
    opened.close()


@pytest.fixture
def project_id(desk: Desk) -> str:
    return desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test").id


def enqueue(desk: Desk, project_id: str, key: str = "a", owner: str = "sub_1") -> bool:
    mail = NewMail(key, project_id, owner, f"{key}@example.net", "Subject", "Text", "<p>Html</p>", {"X-Key": key})
    with desk.database.write() as tx:
        return desk.sharing.outbox.enqueue(tx, mail, SENDER)


def make_sender(desk: Desk, server: SmtpServerForTests) -> MailSender:
    return MailSender(desk.sharing.outbox, SmtpServer("127.0.0.1", server.port, "none", SENDER))


def read_mail(desk: Desk, key: str = "a") -> Any:
    with desk.database.read() as tx:
        return tx.execute(select(mails).where(mails.c.key == key)).one()


def change_mail(desk: Desk, **values: Any) -> None:
    with desk.database.write() as tx:
        tx.execute(update(mails).values(**values))


def make_due(desk: Desk) -> None:
    change_mail(desk, next_attempt_at=0)


def test_mail_is_queued_once_and_sent_once(desk: Desk, project_id: str) -> None:
    assert enqueue(desk, project_id)
    assert not enqueue(desk, project_id), "the key exists"
    with serve_smtp() as server:
        for _ in range(3):
            make_sender(desk, server).tick()
    [message] = server.messages
    row = read_mail(desk)
    assert message["Message-ID"] == row.message_id == f"<{row.id}@example.org>"
    assert (row.next_attempt_at, row.error, row.text, row.html) == (None, None, "", ""), "the text is deleted"
    assert row.sent_at is not None
    assert not enqueue(desk, project_id), "also not after it was sent"


def test_nothing_is_sent_without_settings(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id)
    desk.sharing.mail_sender.tick()
    assert read_mail(desk).attempts == 0


@pytest.mark.deep
def test_many_servers_send_each_mail_once(desk: Desk, project_id: str) -> None:
    for number in range(30):
        enqueue(desk, project_id, f"k{number}")
    with serve_smtp() as server, ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: make_sender(desk, server).tick(), range(6)))
    assert sorted(message["X-Key"] for message in server.messages) == sorted(f"k{number}" for number in range(30))


def test_delayed_mail_is_tried_again_with_the_same_message_id(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id)
    with serve_smtp(SmtpOddities(recipient_replies=["451 greylisted"] * 2)) as server:
        sender = make_sender(desk, server)
        for attempt in (1, 2):
            before = clock.now()
            sender.tick()
            row = read_mail(desk)
            assert (row.attempts, row.sent_at, row.lease_until) == (attempt, None, 0)
            delay = RETRY_DELAYS_MS[attempt - 1]
            assert before + delay <= row.next_attempt_at <= clock.now() + delay
            assert "451" in row.error
            sender.tick()
            assert read_mail(desk).attempts == attempt, "it is not due yet"
            make_due(desk)
        sender.tick()
    [message] = server.messages
    assert message["Message-ID"] == row.message_id


def test_mail_is_given_up_after_a_day(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id)
    change_mail(desk, created_at=clock.now() - GIVE_UP_MS, attempts=9)
    with serve_smtp(SmtpOddities(recipient_replies=["451 later"] * 9)) as server:
        make_sender(desk, server).tick()
        row = read_mail(desk)
        assert (row.next_attempt_at, row.sent_at, row.failed_at is None) == (None, None, False)
        make_sender(desk, server).tick()
        assert server.connections == 1


def test_delays_cover_a_day() -> None:
    total, attempts = 0, 0
    while total <= GIVE_UP_MS:
        total += RETRY_DELAYS_MS[min(attempts, len(RETRY_DELAYS_MS) - 1)]
        attempts += 1
    assert 8 <= attempts <= 20
    assert LEASE_MS > 240_000, "longer than a delivery can take"


def test_permanent_refusal_is_not_retried_and_does_not_stop_the_others(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id, "a")
    enqueue(desk, project_id, "b")
    with serve_smtp(SmtpOddities(recipient_replies=["550 no such user"])) as server:
        make_sender(desk, server).tick()
        make_due_again = read_mail(desk, "a")
        assert (make_due_again.next_attempt_at, make_due_again.failed_at is None) == (None, False)
        assert "550 no such user" in make_due_again.error
    assert [message["X-Key"] for message in server.messages] == ["b"]


def test_unusable_server_is_asked_once_per_tick(desk: Desk, project_id: str) -> None:
    for number in range(5):
        enqueue(desk, project_id, f"k{number}")
    with serve_smtp(SmtpOddities(greeting="421 busy")) as server:
        make_sender(desk, server).tick()
        assert server.connections == 1
    assert desk.sharing.outbox.count_waiting() == 5


def test_server_that_lost_its_lease_changes_nothing(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id)
    outbox = desk.sharing.outbox
    first = outbox.claim_next()
    assert first is not None
    assert outbox.claim_next() is None, "another server has it"
    change_mail(desk, lease_until=1)
    second = outbox.claim_next()
    assert second is not None
    assert not outbox.record_sent(first)
    outbox.record_failure(first, "late", is_permanent=True)
    row = read_mail(desk)
    assert (row.sent_at, row.failed_at, row.attempts) == (None, None, 2)
    assert outbox.record_sent(second)


def test_cancelled_and_old_mails_are_deleted(desk: Desk, project_id: str) -> None:
    enqueue(desk, project_id, "a", "sub_1")
    enqueue(desk, project_id, "b", "sub_2")
    with desk.database.write() as tx:
        assert desk.sharing.outbox.cancel(tx, "sub_1") == 1
    with serve_smtp() as server:
        make_sender(desk, server).tick()
        assert [message["X-Key"] for message in server.messages] == ["b"]
        with desk.database.write() as tx:
            assert desk.sharing.outbox.cancel(tx, "sub_2") == 0, "what was sent stays on record"
        change_mail(desk, created_at=clock.now() - KEPT_MS - 1)
        make_sender(desk, server).tick()
    with desk.database.read() as tx:
        assert tx.execute(select(mails)).all() == []


def start_sender(desk: Desk, server: SmtpServerForTests) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "COPYDESK_DATA": str(desk.settings.data),
        "COPYDESK_DATABASE_URL": desk.settings.database_url,
        "COPYDESK_SMTP_HOST": "127.0.0.1",
        "COPYDESK_SMTP_PORT": str(server.port),
        "COPYDESK_SMTP_FROM": SENDER,
        "COPYDESK_SMTP_TLS": "none",
    }
    return subprocess.Popen([sys.executable, "-c", SEND_PROGRAM], env=environment, cwd=ROOT)


@pytest.mark.parametrize("moment", ["before the text", "after the text was accepted"])
def test_killed_server_loses_no_mail(desk: Desk, project_id: str, moment: str) -> None:
    """Kills the process while it talks to the mail server. Another one sends the mail after the lease has expired."""
    enqueue(desk, project_id)
    reached, release = threading.Event(), threading.Event()

    def pause() -> None:
        reached.set()
        release.wait(60)

    is_accepted = moment.startswith("after")
    oddities = SmtpOddities(after_accepting=pause) if is_accepted else SmtpOddities(delay_seconds=0.3)
    with serve_smtp(oddities) as server:
        process = start_sender(desk, server)
        if is_accepted:
            assert reached.wait(60)
        else:
            while not server.plaintext_commands:
                time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        release.set()
        row = read_mail(desk)
        assert (row.attempts, row.sent_at) == (1, None)
        assert row.lease_until > clock.now()
        oddities.after_accepting, oddities.delay_seconds = (lambda: None), 0
        make_sender(desk, server).tick()
        assert read_mail(desk).attempts == 1, "the lease of the killed process still runs"
        change_mail(desk, lease_until=1)
        make_sender(desk, server).tick()
    assert len(server.messages) == (2 if is_accepted else 1)
    assert {message["Message-ID"] for message in server.messages} == {row.message_id}
    assert read_mail(desk).sent_at is not None
