"""Job counts of all projects, read with one query."""

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
    """Open pull requests. When one is merged or closed, its job is archived and no longer counted."""


def count_jobs_by_project(database: Database) -> dict[str, ProjectJobCounts]:
    """Returns the counts by project id, without projects that have no jobs or only archived ones."""
    with database.read() as tx:
        return {row.project_id: ProjectJobCounts(row.at_work, row.proposed) for row in tx.execute(SELECT_JOB_COUNTS)}
