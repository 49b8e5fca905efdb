"""The limits of automations: runs per day, cost per month, and open pull requests per project."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from copydesk.automations.automation import Automation, NoticeCode
from copydesk.automations.tables import automation_runs
from copydesk.core import clock
from copydesk.core.db.tables import projects
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.limits import RateLimit
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.job import ACTIVE, ARCHIVED, Usage
from copydesk.jobs.storage.tables import jobs

ATTENTION_RETRY_SECONDS = 600
"""When a refused caller should ask again, since nobody knows when people merge or close a pull request."""


class Hold(NamedTuple):
    """Why a run has to wait."""

    code: NoticeCode
    text: str
    """A sentence for people."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Tells a refused caller when to try again."""


def find_spending_hold(tx: Connection, automation: Automation) -> Hold | None:
    """Returns the reached limit on runs per day or cost per month, or None."""
    definition = automation.definition
    now = clock.now()
    runs_today = select(func.count()).where(
        automation_runs.c.automation_id == automation.id, automation_runs.c.fired_at >= start_of_day(now)
    )
    runs_today = runs_today.where(automation_runs.c.ended_at_once.is_(False))
    if tx.execute(runs_today).scalar_one() >= definition.daily_limit:
        text = (
            f"The limit of {pluralize(definition.daily_limit, 'run')} per day is reached. The next run starts after "
            "midnight UTC, or when you raise the limit of runs per day."
        )
        seconds = _count_seconds(now, start_of_day(now) + clock.DAY)
        rate_limit = RateLimit("automation-runs", definition.daily_limit, clock.DAY)
        return Hold(NoticeCode.DAILY_LIMIT, text, {**rate_limit.headers(0, seconds), "Retry-After": str(seconds)})
    limit_usd = definition.monthly_cost_usd
    if limit_usd is not None and measure_cost(tx, automation.id, start_of_month(now)) >= limit_usd:
        text = (
            f"The limit of ${limit_usd:.2f} per month is reached. The next run starts next month (UTC), or when you "
            "raise the limit of cost per month."
        )
        seconds = _count_seconds(now, start_of_next_month(now))
        return Hold(NoticeCode.MONTHLY_COST, text, {"Retry-After": str(seconds)})
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
    text = (
        f"The project has reached its limit of {pluralize(limit, 'open pull request')}. The next run starts when one "
        "is merged or closed, or when an administrator raises the limit in the project's settings."
    )
    return Hold(NoticeCode.OPEN_PULL_REQUESTS, text, {"Retry-After": str(ATTENTION_RETRY_SECONDS)})


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


def start_of_next_month(at: int) -> int:
    return start_of_month(start_of_month(at) + 32 * clock.DAY)


def _count_seconds(now: int, until: int) -> int:
    return -(-(until - now) // clock.SECOND)
