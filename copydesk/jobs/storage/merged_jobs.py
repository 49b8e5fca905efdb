"""Lists jobs whose change was merged, and when."""

from typing import NamedTuple

from sqlalchemy import bindparam, case, func, select

from copydesk.core.db.database import Database
from copydesk.jobs.job import ARCHIVED, COMPLETED, FAILED
from copydesk.jobs.storage.tables import jobs

# A merged pull request archives its job. A job that pushes to the branch itself has no pull request.
MERGED_AT = case(
    (jobs.c.pr_link.is_(None), jobs.c.finished_at), else_=func.coalesce(jobs.c.archived_at, jobs.c.finished_at)
)
SELECT_MERGED_JOBS = (
    select(jobs.c.id, func.coalesce(jobs.c.title, jobs.c.prompt).label("title"), MERGED_AT.label("merged_at"))
    .where(
        jobs.c.project_id == bindparam("project"),
        jobs.c.status.in_([ARCHIVED, COMPLETED, FAILED]),
        jobs.c.pull_state == "merged",
        bindparam("first") <= MERGED_AT,
        bindparam("end") > MERGED_AT,
    )
    .order_by(MERGED_AT.desc(), jobs.c.id.desc())
    .limit(bindparam("limit"))
)


class MergedJob(NamedTuple):
    job_id: str
    title: str
    merged_at: int
    """When Copydesk learned of it, in milliseconds since 1970."""


def list_merged_jobs(database: Database, project_id: str, first_at: int, end_at: int, limit: int) -> list[MergedJob]:
    """Returns the jobs that were merged in this time, newest first."""
    params = {"project": project_id, "first": first_at, "end": end_at, "limit": limit}
    with database.read() as tx:
        return [MergedJob(row.id, row.title, row.merged_at) for row in tx.execute(SELECT_MERGED_JOBS, params)]
