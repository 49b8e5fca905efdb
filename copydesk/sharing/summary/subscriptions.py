"""Who gets a project's weekly summary, and in which time zone it is Monday."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, exists, func, select, update
from sqlalchemy.exc import IntegrityError

from copydesk.automations.schedule import BadSchedule, find_next_slot, load_zone
from copydesk.core import audit_log, clock
from copydesk.core.accounts.person import NO_ROLE, Person, validate_email
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.db.tables import people, project_roles
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.ids import new_id, random_text
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.mail.outbox import Outbox
from copydesk.sharing.tables import summary_schedules, summary_subscribers

MONDAY_MORNING = "0 8 * * 1"
DEFAULT_TIMEZONE = "UTC"
MAX_ADDRESSES = 50
"""Addresses without an account that can get the summary of one project."""
TOKEN_CHARS = 32

subscribers = summary_subscribers


class SubscriberNotFound(NotFound):
    code = "subscriber_not_found"
    message = "There is no such subscription. The link may be incomplete."


@dataclass(frozen=True)
class Subscriber:
    id: str
    project_id: str
    person_id: str | None
    email: str
    token: str
    created_at: int
    created_by: str
    ended_at: int | None


class SummarySchedule(NamedTuple):
    project_id: str
    timezone: str
    next_slot_at: int


class SummarySubscriptions:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self.database = database
        self.outbox = outbox

    def get_schedule(self, project_id: str) -> SummarySchedule:
        """Returns when the next summary is due. A project without subscribers has the default time zone."""
        with self.database.read() as tx:
            query = select(summary_schedules).where(summary_schedules.c.project_id == project_id)
            row = tx.execute(query).first()
        return SummarySchedule(*row) if row else _plan(project_id, DEFAULT_TIMEZONE)

    def set_timezone(self, project_id: str, timezone: str, *, actor: str) -> SummarySchedule:
        """Changes the time zone. The next summary is then the next Monday morning there."""
        try:
            load_zone(timezone)
        except BadSchedule as error:
            raise InvalidRequest(str(error)) from None
        schedule = _plan(project_id, timezone)
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            if not insert_if_absent(tx, summary_schedules, schedule._asdict()):
                is_project = summary_schedules.c.project_id == project_id
                tx.execute(update(summary_schedules).where(is_project).values(**schedule._asdict()))
            audit_log.record(tx, project_id, actor, "summary.scheduled", project_id, timezone=timezone)
        return schedule

    def subscribe_person(self, project_id: str, person: Person) -> None:
        """Subscribes a person who asked for it, also if they ended a subscription before."""
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            row = _new_row(project_id, person.email, person.email, person.id)
            if not insert_if_absent(tx, subscribers, row):
                same = (subscribers.c.project_id == project_id) & (subscribers.c.email == person.email)
                tx.execute(update(subscribers).where(same).values(ended_at=None, person_id=person.id))
            self._ensure_schedule(tx, project_id)

    def unsubscribe_person(self, project_id: str, person: Person) -> None:
        subscriber = self.find_person(project_id, person)
        if subscriber is not None:
            self._end(subscriber)

    def find_person(self, project_id: str, person: Person) -> Subscriber | None:
        """Returns the active subscription of a person."""
        of_project = (subscribers.c.project_id == project_id) & subscribers.c.ended_at.is_(None)
        is_person = (subscribers.c.person_id == person.id) | (subscribers.c.email == person.email)
        with self.database.read() as tx:
            row = tx.execute(select(subscribers).where(of_project, is_person)).first()
        return _subscriber_from_row(row) if row else None

    def add_address(self, project_id: str, email: str, *, actor: str) -> Subscriber:
        """Subscribes an address without an account. Its owner can end this with one click, and then for good."""
        address = validate_email(email)
        row = _new_row(project_id, address, actor, None)
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                same = (subscribers.c.project_id == project_id) & (subscribers.c.email == address)
                known = tx.execute(select(subscribers).where(same)).first()
                if known is not None:
                    raise InvalidRequest(
                        f"{address} gets the summary already."
                        if known.ended_at is None
                        else f"{address} ended the subscription, so you cannot add it again."
                    )
                self._require_room(tx, project_id)
                tx.execute(subscribers.insert().values(row))
                self._ensure_schedule(tx, project_id)
                audit_log.record(tx, project_id, actor, "summary.address_added", row["id"], email=address)
        except IntegrityError:  # another request added it at the same time
            raise InvalidRequest(f"{address} gets the summary already.") from None
        return Subscriber(**row)

    def remove_address(self, project_id: str, subscriber_id: str, *, actor: str) -> Subscriber:
        """Removes an address that an administrator added. An ended subscription stays, so that it stays ended."""
        same = (subscribers.c.id == subscriber_id) & (subscribers.c.project_id == project_id)
        is_address = subscribers.c.person_id.is_(None) & subscribers.c.ended_at.is_(None)
        with self.database.write() as tx:
            row = tx.execute(select(subscribers).where(same, is_address)).first()
            if row is None:
                raise SubscriberNotFound("There is no such address.")
            tx.execute(delete(subscribers).where(same))
            self.outbox.cancel(tx, subscriber_id)
            audit_log.record(tx, project_id, actor, "summary.address_removed", subscriber_id, email=row.email)
        return _subscriber_from_row(row)

    def list_addresses(self, project_id: str) -> list[Subscriber]:
        """Returns the addresses without an account, also those that ended their subscription."""
        of_project = (subscribers.c.project_id == project_id) & subscribers.c.person_id.is_(None)
        with self.database.read() as tx:
            rows = tx.execute(select(subscribers).where(of_project).order_by(subscribers.c.email)).all()
        return [_subscriber_from_row(row) for row in rows]

    def list_recipients(self, project_id: str) -> list[Subscriber]:
        """Returns the active subscriptions, each with the address of today.

        Leaves out people who were removed, or who may not see the project any more."""
        is_active = (subscribers.c.project_id == project_id) & subscribers.c.ended_at.is_(None)
        is_person = people.c.id == subscribers.c.person_id
        columns = [column for column in subscribers.c if column.name != "email"]
        email = func.coalesce(people.c.email, subscribers.c.email).label("email")
        query = select(*columns, email).select_from(subscribers.outerjoin(people, is_person)).where(is_active)
        has_role = exists().where(project_roles.c.person_id == people.c.id, project_roles.c.project_id == project_id)
        may_see = subscribers.c.person_id.is_(None) | (people.c.role != NO_ROLE) | has_role
        with self.database.read() as tx:
            rows = tx.execute(query.where(may_see).order_by(subscribers.c.id)).all()
        return [_subscriber_from_row(row) for row in rows]

    def find_by_token(self, token: str) -> Subscriber:
        """Returns the subscription of an unsubscribe link. Raises SubscriberNotFound."""
        if len(token) != TOKEN_CHARS or not token.isalnum() or not token.isascii():
            raise SubscriberNotFound
        with self.database.read() as tx:
            row = tx.execute(select(subscribers).where(subscribers.c.token == token)).first()
        if row is None:
            raise SubscriberNotFound
        return _subscriber_from_row(row)

    def unsubscribe(self, token: str) -> Subscriber:
        """Ends a subscription by its link. Doing it again changes nothing."""
        subscriber = self.find_by_token(token)
        if subscriber.ended_at is None:
            self._end(subscriber)
        return self.find_by_token(token)

    def _end(self, subscriber: Subscriber) -> None:
        is_active = (subscribers.c.id == subscriber.id) & subscribers.c.ended_at.is_(None)
        with self.database.write() as tx:
            if tx.execute(update(subscribers).where(is_active).values(ended_at=clock.now())).rowcount:
                actor, project_id = subscriber.email, subscriber.project_id
                audit_log.record(tx, project_id, actor[:200], "summary.unsubscribed", subscriber.id, email=actor)
            self.outbox.cancel(tx, subscriber.id)

    def _require_room(self, tx: Connection, project_id: str) -> None:
        is_counted = (subscribers.c.project_id == project_id) & subscribers.c.person_id.is_(None)
        count = select(func.count()).select_from(subscribers).where(is_counted, subscribers.c.ended_at.is_(None))
        if tx.execute(count).scalar_one() >= MAX_ADDRESSES:
            raise InvalidRequest(f"A summary can go to {MAX_ADDRESSES} addresses without an account.")

    def ensure_schedule(self, project_id: str) -> None:
        """Plans the summaries of a project, unless they are planned."""
        with self.database.write() as tx:
            self._ensure_schedule(tx, project_id)

    def _ensure_schedule(self, tx: Connection, project_id: str) -> None:
        insert_if_absent(tx, summary_schedules, _plan(project_id, DEFAULT_TIMEZONE)._asdict())


def _plan(project_id: str, timezone: str) -> SummarySchedule:
    next_slot = find_next_slot(MONDAY_MORNING, timezone, clock.now())
    assert next_slot is not None, "there is always another Monday"
    return SummarySchedule(project_id, timezone, next_slot)


def _new_row(project_id: str, email: str, actor: str, person_id: str | None) -> dict[str, Any]:
    return {
        "id": new_id("sub"),
        "project_id": project_id,
        "person_id": person_id,
        "email": email,
        "token": random_text(TOKEN_CHARS),
        "created_at": clock.now(),
        "created_by": actor,
        "ended_at": None,
    }


def _subscriber_from_row(row: Row[*tuple[Any, ...]]) -> Subscriber:
    return Subscriber(**{field.name: row._mapping[field.name] for field in fields(Subscriber)})
