"""Weekly summaries: once per week over any number of servers, one late one after downtime, to those who asked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select, update

from copydesk.analytics.date_ranges import format_day
from copydesk.core import audit_log, clock
from copydesk.core.errors import InvalidRequest, StoreUnavailable
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.mail.tables import mails
from copydesk.sharing.summary import subscriptions
from copydesk.sharing.summary.subscriptions import SubscriberNotFound, SummarySubscriptions
from copydesk.sharing.summary.week_report import find_week
from copydesk.sharing.tables import summary_schedules
from tests.support.people import add_person
from tests.support.smtp_server import serve_smtp

WEEK = 7 * clock.DAY


def open_mailing_desk(url: str, folder: Any, **settings: Any) -> Desk:
    mail = {"smtp_host": "127.0.0.1", "smtp_from": "desk@example.org", "smtp_tls": "none", **settings}
    return open_desk(Settings(data=folder, database_url=url, base_url="https://copydesk.example.org", **mail))


@pytest.fixture
def desk(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    opened = open_mailing_desk(migrated_url, tmp_path_factory.mktemp("data"))
    yield opened
    opened.close()


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test")


@pytest.fixture
def subscribers(desk: Desk) -> SummarySubscriptions:
    return desk.sharing.subscriptions


def set_next_slot(desk: Desk, at: int) -> None:
    with desk.database.write() as tx:
        tx.execute(update(summary_schedules).values(next_slot_at=at))


def make_due(desk: Desk, project: Project, weeks_late: int = 0) -> int:
    """Moves the next slot into the past by a week, or by several. Returns the slot that is due."""
    slot = desk.sharing.subscriptions.get_schedule(project.id).next_slot_at - WEEK
    set_next_slot(desk, slot - weeks_late * WEEK)
    return slot


def list_mails(desk: Desk) -> list[Any]:
    with desk.database.read() as tx:
        return list(tx.execute(select(mails).order_by(mails.c.id)).all())


@pytest.mark.deep
def test_summary_is_queued_once_on_monday_at_eight(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    subscribers.add_address(project.id, "Ada@example.org", actor="test")
    for timezone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"):
        slot = subscribers.set_timezone(project.id, timezone, actor="test").next_slot_at
        local = datetime.fromtimestamp(slot / 1000, ZoneInfo(timezone))
        assert (local.weekday(), local.hour, local.minute) == (0, 8, 0)
        assert 0 < slot - clock.now() <= WEEK + clock.HOUR
    desk.sharing.summaries.queue_due_summaries()
    assert list_mails(desk) == [], "it is not due yet"
    make_due(desk, project)
    for _ in range(3):
        desk.sharing.summaries.queue_due_summaries()
    [mail] = list_mails(desk)
    assert mail.recipient == "ada@example.org"
    assert subscribers.get_schedule(project.id).next_slot_at == slot


@pytest.mark.deep
def test_many_servers_queue_one_mail_per_subscriber(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    for number in range(5):
        subscribers.add_address(project.id, f"reader{number}@example.org", actor="test")
    make_due(desk, project)

    def take_turn(_: int) -> None:
        with suppress(StoreUnavailable):  # a busy machine: the next turn tries again
            desk.sharing.summaries.queue_due_summaries()

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(take_turn, range(8)))
            if list_mails(desk):
                break
    assert sorted(mail.recipient for mail in list_mails(desk)) == [f"reader{number}@example.org" for number in range(5)]


@pytest.mark.deep
def test_after_downtime_one_late_summary_is_sent(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    subscribers.add_address(project.id, "ada@example.org", actor="test")
    slot = make_due(desk, project, weeks_late=5)
    desk.sharing.summaries.queue_due_summaries()
    desk.sharing.summaries.queue_due_summaries()
    [mail] = list_mails(desk)
    assert mail.key.endswith(f":{slot}"), "that of the last Monday"
    assert subscribers.get_schedule(project.id).next_slot_at > clock.now()


def test_nothing_is_queued_without_a_mail_server_or_subscribers(
    migrated_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = open_mailing_desk(migrated_url, tmp_path_factory.mktemp("data"), smtp_host="")
    project = desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test")
    address = desk.sharing.subscriptions.add_address(project.id, "ada@example.org", actor="test")
    slot = make_due(desk, project)
    desk.sharing.summaries.tick()
    assert list_mails(desk) == []
    assert desk.sharing.subscriptions.get_schedule(project.id).next_slot_at == slot, "another server may have one"
    desk.sharing.subscriptions.remove_address(project.id, address.id, actor="test")
    desk.sharing.summaries.queue_due_summaries()
    assert list_mails(desk) == []
    desk.close()


@pytest.mark.deep
def test_mail_arrives_with_a_link_that_ends_it_in_one_click(
    migrated_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serve_smtp() as server:
        desk = open_mailing_desk(migrated_url, tmp_path_factory.mktemp("data"), smtp_port=server.port)
        name = "Docs Bcc: eve@example.com =?utf-8?q?=0ABcc:_x?="
        project = desk.projects.create(name, repository="https://example.org/docs", ref="main", actor="test")
        address = desk.sharing.subscriptions.add_address(project.id, "ada@example.org", actor="test")
        make_due(desk, project)
        desk.sharing.summaries.tick()
        desk.sharing.mail_sender.tick()
        desk.close()
    [message] = server.messages
    link = f"https://copydesk.example.org/unsubscribe/{address.token}"
    assert message["List-Unsubscribe"] == f"<{link}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["Bcc"] is None
    for kind in ("plain", "html"):
        body = message.get_body((kind,))
        assert body is not None
        assert link in body.get_content()


def test_unsubscribed_address_gets_nothing_and_cannot_be_added_again(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    address = subscribers.add_address(project.id, "ada@example.org", actor="test")
    make_due(desk, project)
    desk.sharing.summaries.queue_due_summaries()
    assert len(list_mails(desk)) == 1
    for _ in range(2):
        assert subscribers.unsubscribe(address.token).ended_at is not None
    assert list_mails(desk) == [], "also not the one that waits"
    make_due(desk, project)
    desk.sharing.summaries.queue_due_summaries()
    assert list_mails(desk) == []
    with pytest.raises(InvalidRequest, match="ended the subscription"):
        subscribers.add_address(project.id, "ADA@example.org", actor="test")
    with pytest.raises(SubscriberNotFound):
        subscribers.remove_address(project.id, address.id, actor="test")
    entries = [entry["action"] for entry in audit_log.list_entries(desk.database, project.id)]
    assert entries[:2] == ["summary.unsubscribed", "summary.address_added"]


@pytest.mark.deep
def test_person_chooses_for_themselves_and_a_removed_person_gets_nothing(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    admin = add_person(desk, "boss@example.org", "admin")
    person = add_person(desk, "ada@example.org", "viewer")
    for _ in range(2):
        subscribers.subscribe_person(project.id, person)
    assert [each.email for each in subscribers.list_recipients(project.id)] == ["ada@example.org"]
    assert subscribers.list_addresses(project.id) == []
    subscribers.unsubscribe_person(project.id, person)
    assert subscribers.find_person(project.id, person) is None
    subscribers.subscribe_person(project.id, person)
    assert subscribers.find_person(project.id, person) is not None
    desk.people.remove(person.id, actor=admin.email)
    assert subscribers.list_recipients(project.id) == []


def test_person_who_lost_access_gets_no_summary(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    person = add_person(desk, "member@example.org", "none")
    roles = desk.people.project_roles
    roles.set_role(person.id, project.id, "viewer", actor="test")
    subscribers.subscribe_person(project.id, person)
    assert [each.email for each in subscribers.list_recipients(project.id)] == [person.email]
    roles.set_role(person.id, project.id, "none", actor="test")
    assert subscribers.list_recipients(project.id) == []


def test_person_with_a_role_in_another_project_alone_gets_no_summary(
    desk: Desk, project: Project, subscribers: SummarySubscriptions
) -> None:
    other = desk.projects.create("Other", repository="https://example.org/other", ref="main", actor="test")
    person = add_person(desk, "member@example.org", "none")
    subscribers.subscribe_person(project.id, person)
    desk.people.project_roles.set_role(person.id, other.id, "viewer", actor="test")
    assert subscribers.list_recipients(project.id) == []


def test_number_of_addresses_is_limited(
    project: Project, subscribers: SummarySubscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_ADDRESSES", 2)
    for name in ("a", "b"):
        subscribers.add_address(project.id, f"{name}@example.org", actor="test")
    with pytest.raises(InvalidRequest, match="2 addresses"):
        subscribers.add_address(project.id, "c@example.org", actor="test")
    for wrong in ("a@example.org", "nobody", "a@b\r\nBcc: c@example.org", "a@b>,<c@d", "", "x" * 400 + "@example.org"):
        with pytest.raises(InvalidRequest):
            subscribers.add_address(project.id, wrong, actor="test")


def test_unknown_time_zones_and_tokens_are_refused(project: Project, subscribers: SummarySubscriptions) -> None:
    for timezone in ("Mars/Base", "", "../etc/passwd", "Europe/Berlin\n"):
        with pytest.raises(InvalidRequest):
            subscribers.set_timezone(project.id, timezone, actor="test")
    for token in ("", "x", "a" * 32, "\0" * 32, "é" * 32, "%" * 32):
        with pytest.raises(SubscriberNotFound):
            subscribers.unsubscribe(token)


def test_week_is_the_last_seven_complete_days() -> None:
    monday = datetime(2026, 11, 16, 8, tzinfo=ZoneInfo("Europe/Berlin"))
    for moment, last in (
        (monday, "2026-11-15"),
        (monday.replace(tzinfo=ZoneInfo("Pacific/Auckland")), "2026-11-14"),
        (monday.replace(tzinfo=ZoneInfo("Pacific/Honolulu")), "2026-11-15"),
        (monday.replace(hour=0, tzinfo=ZoneInfo("UTC")), "2026-11-15"),
    ):
        days = find_week(int(moment.timestamp() * 1000))
        assert format_day(days.end - 1) == last
        assert days.end - days.first == 7
