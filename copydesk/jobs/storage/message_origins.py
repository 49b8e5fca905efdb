"""Stores the origin of a message that an automation sent (a change, a release, a schedule), for its pull request."""

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, bindparam, select, update

from copydesk.jobs.storage.tables import messages

SELECT_ORIGINS = (
    select(messages.c.origin)
    .where(messages.c.run_id == bindparam("run"), messages.c.origin.is_not(None))
    .order_by(messages.c.created_at, messages.c.id)
)


class MessageOrigin(BaseModel):
    model_config = ConfigDict(frozen=True)

    automation: str
    """The automation's name when it fired."""
    text: str
    """What started the run, in a sentence."""
    commits: dict[str, list[str]] = {}
    """The triggering commits by the name of their repository, newest first. It is empty for the project's own."""
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
