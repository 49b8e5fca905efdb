"""Lists the releases that automations have seen."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from copydesk.automations.tables import automation_runs, automations
from copydesk.core.db.database import Database

SELECT_RELEASES = (
    select(automation_runs.c.job_id, automation_runs.c.fired_at, automation_runs.c.trigger)
    .join(automations, automations.c.id == automation_runs.c.automation_id)
    .where(
        automations.c.project_id == bindparam("project"),
        automation_runs.c.trigger["type"].as_string() == "release",
        automation_runs.c.fired_at >= bindparam("first"),
        automation_runs.c.fired_at < bindparam("end"),
    )
    .order_by(automation_runs.c.fired_at.desc(), automation_runs.c.id.desc())
    .limit(bindparam("limit"))
)


class Release(NamedTuple):
    tags: Sequence[str]
    """The new tags, each after the name of its repository unless that is the project's own."""
    at: int
    """When an automation was started for it, in milliseconds since 1970."""
    job_id: str


def list_releases(database: Database, project_id: str, first_at: int, end_at: int, limit: int) -> list[Release]:
    """Returns the releases that started an automation in this time, newest first.

    Omits runs without a new tag. A release that started several automations is listed once, with the newest job."""
    params = {"project": project_id, "first": first_at, "end": end_at, "limit": limit}
    with database.read() as tx:
        rows = tx.execute(SELECT_RELEASES, params).all()
    releases: dict[tuple[str, ...], Release] = {}
    for row in rows:
        tags = tuple(row.trigger.get("tags", ()))
        if tags:
            releases.setdefault(tags, Release(tags, row.fired_at, row.job_id))
    return list(releases.values())
