"""Browser sessions of people. The browser has the secret; the database stores only its digest."""

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass, fields

from sqlalchemy import delete, func, insert, select, update

from copydesk.core import audit_log, clock
from copydesk.core.accounts.person import PERSON_COLUMNS, Person, person_from_row
from copydesk.core.accounts.project_roles import load_project_roles
from copydesk.core.db.database import Database, batch_ids
from copydesk.core.db.tables import people, sessions
from copydesk.core.ids import new_id, random_text, sha256_hex

SESSION_LIFETIME_MS, SEEN_INTERVAL_MS = 30 * clock.DAY, 60 * clock.SECOND


@dataclass(frozen=True)
class Session:
    id: str
    person_id: str
    created_at: int
    seen_at: int
    expires_at: int
    address: str | None
    agent: str


SESSION_COLUMNS = [sessions.c[field.name] for field in fields(Session)]
SELECT_SESSION_AND_PERSON = select(
    *(column.label(f"person_{column.name}") for column in PERSON_COLUMNS), *SESSION_COLUMNS
).join(people, people.c.id == sessions.c.person_id)


class Sessions:
    def __init__(self, database: Database) -> None:
        self.database = database

    def create(self, person: Person, address: str | None, agent: str) -> str:
        """Creates a session and returns its secret."""
        secret = random_text(43)
        now = clock.now()
        session = Session(
            new_id("sess"), person.id, now, now, now + SESSION_LIFETIME_MS, address and address[:64], agent[:400]
        )
        with self.database.write() as tx:
            tx.execute(delete(sessions).where(sessions.c.expires_at < now))
            tx.execute(insert(sessions).values({**vars(session), "digest": sha256_hex(secret)}))
            audit_log.record(tx, audit_log.NO_PROJECT, person.email, "person.signed_in", person.id)
        return secret

    def find_by_secret(self, secret: str) -> tuple[Person, Session] | None:
        """Returns the person and the session of this secret, or None if the session has ended."""
        with self.database.read() as tx:
            row = tx.execute(SELECT_SESSION_AND_PERSON.where(sessions.c.digest == sha256_hex(secret))).first()
            project_roles = load_project_roles(tx, [row.person_id]) if row else {}
        now = clock.now()
        if row is None or row.expires_at < now:
            return None
        session = Session(**{column.name: row._mapping[column.name] for column in SESSION_COLUMNS})
        if session.seen_at + SEEN_INTERVAL_MS < now:
            with self.database.write() as tx:
                tx.execute(update(sessions).where(sessions.c.id == session.id).values(seen_at=now))
        return person_from_row(row, "person_", project_roles.get(row.person_id)), session

    def find_people(self, session_ids: Collection[str]) -> dict[str, Person]:
        """Returns the people of the sessions among these that are open, by session id, with their present roles."""
        people_by_session: dict[str, Person] = {}
        with self.database.read() as tx:
            for batch in batch_ids(session_ids):
                is_open = sessions.c.id.in_(batch) & (sessions.c.expires_at > clock.now())
                rows = tx.execute(SELECT_SESSION_AND_PERSON.where(is_open)).all()
                project_roles = load_project_roles(tx, {row.person_id for row in rows})
                people_by_session |= {
                    row.id: person_from_row(row, "person_", project_roles.get(row.person_id)) for row in rows
                }
        return people_by_session

    def list_for_person(self, person_id: str) -> list[Session]:
        """Returns the open sessions of a person, newest first."""
        query = select(*SESSION_COLUMNS).where(sessions.c.person_id == person_id, sessions.c.expires_at > clock.now())
        with self.database.read() as tx:
            return [Session(**row._mapping) for row in tx.execute(query.order_by(sessions.c.id.desc()))]

    def count(self) -> int:
        query = select(func.count()).select_from(sessions).where(sessions.c.expires_at > clock.now())
        with self.database.read() as tx:
            return tx.execute(query).scalar_one()

    def end(self, person: Person, session_id: str) -> None:
        """Ends a session of this person; ignores sessions of others."""
        with self.database.write() as tx:
            statement = delete(sessions).where(sessions.c.id == session_id, sessions.c.person_id == person.id)
            if tx.execute(statement).rowcount:
                audit_log.record(tx, audit_log.NO_PROJECT, person.email, "person.session_ended", session_id)

    def end_others(self, person: Person, keep_session_id: str) -> int:
        """Ends all sessions of this person except one. Returns how many."""
        with self.database.write() as tx:
            statement = delete(sessions).where(sessions.c.person_id == person.id, sessions.c.id != keep_session_id)
            ended = tx.execute(statement).rowcount
            if ended:
                audit_log.record(
                    tx, audit_log.NO_PROJECT, person.email, "person.sessions_ended", person.id, sessions=ended
                )
        return ended


def csrf_token(session_secret: str) -> str:
    """Returns the CSRF token for the forms of this session. Other sites do not know it and cannot submit them."""
    return hmac.new(session_secret.encode(), b"form", hashlib.sha256).hexdigest()
