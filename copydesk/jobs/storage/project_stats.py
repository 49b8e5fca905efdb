"""How the jobs of all projects stand, in one look."""

from dataclasses import dataclass

from sqlalchemy import case, func, select

from copydesk.core.db.database import Database
from copydesk.jobs.job import ACTIVE, COMPLETED, FAILED
from copydesk.jobs.storage.tables import jobs

SELECT_JOB_COUNTS = (
    select(
        jobs.c.project_id,
        func.sum(case((jobs.c.status == ACTIVE, 1), else_=0)).label("at_work"),
        func.count(jobs.c.pr_link).label("proposed"),
    )
    .where(jobs.c.status.in_([ACTIVE, COMPLETED, FAILED]))
    .group_by(jobs.c.project_id)
)


@dataclass(frozen=True)
class ProjectJobCounts:
    at_work: int = 0
    proposed: int = 0
    """Pull requests that wait for people: once merged or closed, their jobs are archived."""


def count_jobs_by_project(database: Database) -> dict[str, ProjectJobCounts]:
    """By project; those without jobs are left out."""
    with database.read() as tx:
        return {row.project_id: ProjectJobCounts(row.at_work, row.proposed) for row in tx.execute(SELECT_JOB_COUNTS)}
