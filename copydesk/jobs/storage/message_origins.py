"""Stores what started a run, for its pull request: the origin of an automation's message, and who asked."""

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, bindparam, select, update

from copydesk.core.db.tables import people
from copydesk.jobs.job import CreatorKind
from copydesk.jobs.storage.tables import messages

SELECT_ORIGINS = (
    select(messages.c.origin)
    .where(messages.c.run_id == bindparam("run"), messages.c.origin.is_not(None))
    .order_by(messages.c.created_at, messages.c.id)
)


SELECT_WORDS = (
    select(messages.c.prompt)
    .where(messages.c.run_id == bindparam("run"), messages.c.origin.is_(None))
    .order_by(messages.c.created_at, messages.c.id)
)
SELECT_REQUESTERS = (
    select(people.c.name, people.c.email)
    .select_from(messages.join(people, people.c.id == messages.c.created_by["id"].as_string()))
    .where(
        messages.c.run_id == bindparam("run"),
        messages.c.created_by["kind"].as_string() == CreatorKind.PERSON.value,
    )
    .order_by(messages.c.created_at, messages.c.id)
)


class OriginCommit(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    title: str
    url: str | None = None
    """The page of the commit on its forge; None for plain git."""


class MessageOrigin(BaseModel):
    model_config = ConfigDict(frozen=True)

    automation: str
    """The automation's name when it fired."""
    text: str
    """What started the run, in a sentence."""
    commits: dict[str, list[str]] = {}
    """The triggering commits by the name of their repository, newest first. It is empty for the project's own."""
    newest_commits: list[OriginCommit] = []
    """The first of these commits, for people."""
    asks_authors: bool = False
    """Whether the authors of these commits should review the pull request."""
    awaits_comparison: bool = False
    """Whether the worker that begins the run must still add the stale pages to the message."""


def save_origin(tx: Connection, job_id: str, message_id: str, origin: MessageOrigin) -> None:
    same_message = (messages.c.job_id == job_id) & (messages.c.id == message_id)
    tx.execute(update(messages).where(same_message).values(origin=origin.model_dump()))


def load_origins(tx: Connection, run_id: str) -> list[MessageOrigin]:
    """Returns what started a run, oldest first; nothing unless an automation did."""
    return [MessageOrigin.model_validate(row.origin) for row in tx.execute(SELECT_ORIGINS, {"run": run_id})]


def load_words(tx: Connection, run_id: str) -> list[str]:
    """Returns the prompts of a run that no automation wrote, oldest first."""
    return [row.prompt for row in tx.execute(SELECT_WORDS, {"run": run_id})]


def load_requesters(tx: Connection, run_id: str) -> list[str]:
    """Returns the signed-in people who asked for a run, each once as `Name <address>`."""
    rows = tx.execute(SELECT_REQUESTERS, {"run": run_id})
    return list(dict.fromkeys(f"{row.name} <{row.email}>" for row in rows))
