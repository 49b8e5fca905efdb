"""The limits of automations: runs per day, cost per month, and open pull requests per project."""

from datetime import UTC, datetime

from sqlalchemy import Connection, func, or_, select

from copydesk.automations.automation import Automation, NoticeCode
from copydesk.automations.tables import automation_runs
from copydesk.core import clock
from copydesk.core.db.tables import projects
from copydesk.core.projects.projects import Project
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.job import ACTIVE, ARCHIVED, Usage
from copydesk.jobs.storage.tables import jobs

Hold = tuple[NoticeCode, str]
"""Why a run has to wait: a code, and a sentence for people."""


def find_spending_hold(tx: Connection, automation: Automation) -> Hold | None:
    """Returns the reached limit on runs per day or cost per month, or None."""
    definition = automation.definition
    now = clock.now()
    runs_today = select(func.count()).where(
        automation_runs.c.automation_id == automation.id, automation_runs.c.fired_at >= start_of_day(now)
    )
    runs_today = runs_today.where(automation_runs.c.ended_at_once.is_(False))
    if tx.execute(runs_today).scalar_one() >= definition.daily_limit:
        return NoticeCode.DAILY_LIMIT, (
            f"The limit of {pluralize(definition.daily_limit, 'run')} per day is reached. The next run starts after "
            "midnight UTC, or when you raise the limit of runs per day."
        )
    limit_usd = definition.monthly_cost_usd
    if limit_usd is not None and measure_cost(tx, automation.id, start_of_month(now)) >= limit_usd:
        return NoticeCode.MONTHLY_COST, (
            f"The limit of ${limit_usd:.2f} per month is reached. The next run starts next month (UTC), or when you "
            "raise the limit of cost per month."
        )
    return None


def find_attention_hold(tx: Connection, project: Project) -> Hold | None:
    """Returns the reached limit on open pull requests, or None.

    Counts the active jobs of automations too, since they may open one. Locks the project, so that automations that fire
    at the same time cannot exceed the limit together.
    """
    tx.execute(select(projects.c.id).where(projects.c.id == project.id).with_for_update(key_share=True))
    is_open = jobs.c.pr_link.is_not(None) & (jobs.c.pull_state == "open") & (jobs.c.status != ARCHIVED)
    may_open = jobs.c.pr_link.is_(None) & (jobs.c.status == ACTIVE) & jobs.c.automation_id.is_not(None)
    query = select(func.count()).where(jobs.c.project_id == project.id, or_(is_open, may_open))
    limit = project.policy.max_open_pull_requests
    if tx.execute(query).scalar_one() < limit:
        return None
    return NoticeCode.OPEN_PULL_REQUESTS, (
        f"The project has reached its limit of {pluralize(limit, 'open pull request')}. The next run starts when one "
        "is merged or closed, or when an administrator raises the limit in the project's settings."
    )


def measure_cost(tx: Connection, automation_id: str, since: int) -> float:
    """Returns the cost in USD of the runs since this time, without what their jobs had cost before."""
    first_costs = (
        select(automation_runs.c.job_id, func.min(automation_runs.c.cost_before).label("cost_before"))
        .where(automation_runs.c.automation_id == automation_id, automation_runs.c.fired_at >= since)
        .group_by(automation_runs.c.job_id)
        .subquery()
    )
    query = select(jobs.c.usage, first_costs.c.cost_before).join(first_costs, first_costs.c.job_id == jobs.c.id)
    costs = [(Usage.model_validate(row.usage).cost_usd or 0.0) - row.cost_before for row in tx.execute(query)]
    return sum((max(cost, 0.0) for cost in costs), 0.0)


def start_of_day(at: int) -> int:
    return at - at % clock.DAY


def start_of_month(at: int) -> int:
    first_day = datetime.fromtimestamp(at / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first_day.timestamp()) * clock.SECOND
