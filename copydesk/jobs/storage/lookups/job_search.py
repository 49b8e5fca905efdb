"""Finds jobs of several projects by state, by who asked and by words. Every statement reads a bounded number of rows.

Words are compared with the newest MAX_SEARCHED_JOBS jobs that the other conditions leave; the next page continues with
older ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, String, Subquery, cast, func, literal, or_, select, union_all

from copydesk.core.db.database import Database
from copydesk.core.ids import is_id
from copydesk.jobs.job import Creator, CreatorKind, Job, ReviewState
from copydesk.jobs.storage.records import EventKind, job_from_row
from copydesk.jobs.storage.tables import events, job_files, jobs

MAX_SEARCHED_JOBS = 5_000
MAX_COUNTED_JOBS = 10_000
"""A state with more jobs than this is shown as "10,000+"."""
MAX_CREATOR_JOBS = 1_000
"""How many of the newest jobs are read to list who asked."""
PULL_NUMBER_PATTERN = re.compile(r"([#!]?)([0-9]{1,9})")


@dataclass(frozen=True)
class JobFilter:
    project_ids: Sequence[str]
    """Only jobs of these projects are found, whatever else is asked."""
    state: ReviewState | None = None
    creator_kind: CreatorKind | None = None
    creator_id: str | None = None
    text: str = ""
    """A job ID, the number of a pull request (`12`, `#12` or `!12`), part of a changed path, or words of the prompt or
    title, in any case."""


class FoundJobs(NamedTuple):
    jobs: list[Job]
    next_cursor: str | None
    """Where the next page begins; None on the last page."""
    has_unsearched: bool
    """Whether older jobs were not compared with the words yet. The next page continues with them."""


class StateCount(NamedTuple):
    total: int
    is_minimum: bool
    """Whether there may be more."""


def find_jobs(
    database: Database,
    job_filter: JobFilter,
    limit: int,
    cursor: str | None,
    *,
    max_searched: int = MAX_SEARCHED_JOBS,
) -> FoundJobs:
    """Returns one page of the jobs that match the filter, newest first."""
    candidates = _select_candidates(job_filter)
    if cursor is not None:
        candidates = candidates.where(jobs.c.id < cursor)
    words = _match_text(job_filter.text)
    with database.read() as tx:
        if words is None:
            ids = list(tx.execute(candidates.order_by(jobs.c.id.desc()).limit(limit + 1)).scalars())
            last_searched_id = None
        else:
            window = _newest(candidates, max_searched)
            query = select(jobs.c.id).join(window, window.c.id == jobs.c.id).where(words)
            ids = list(tx.execute(query.order_by(jobs.c.id.desc()).limit(limit + 1)).scalars())
            last_searched_id = _find_end(tx, window, max_searched) if len(ids) <= limit else None
        found = _load_jobs(tx, ids[:limit])
    next_cursor = ids[limit - 1] if len(ids) > limit else last_searched_id
    return FoundJobs(found, next_cursor, last_searched_id is not None)


def count_jobs_by_state(
    database: Database,
    job_filter: JobFilter,
    *,
    max_searched: int = MAX_SEARCHED_JOBS,
    max_counted: int = MAX_COUNTED_JOBS,
) -> dict[ReviewState, StateCount]:
    """Returns how many jobs match in each state, whatever state the filter names. States without jobs are left out."""
    job_filter = replace(job_filter, state=None)
    words = _match_text(job_filter.text)
    has_creator = job_filter.creator_id is not None or job_filter.creator_kind is not None
    with database.read() as tx:
        if words is None and not has_creator:
            return _count_all(tx, job_filter, max_counted)
        query: Select[str, int]
        if words is None:
            max_jobs = max_counted
            window = _newest(_select_candidates(job_filter).add_columns(jobs.c.review_state), max_jobs)
            query = select(window.c.review_state, func.count()).group_by(window.c.review_state)
        else:
            max_jobs = max_searched
            window = _newest(_select_candidates(job_filter), max_jobs)  # the index has ids only, so read jobs once
            query = select(jobs.c.review_state, func.count()).join(window, window.c.id == jobs.c.id)
            query = query.where(words).group_by(jobs.c.review_state)
        rows = tx.execute(query).all()
        is_minimum = _find_end(tx, window, max_jobs) is not None
    return {ReviewState(state): StateCount(count, is_minimum) for state, count in rows}


def list_creators(database: Database, project_ids: Sequence[str]) -> list[Creator]:
    """Returns who asked for the newest jobs of these projects, each once, by name. Those without an ID are left out."""
    newest = _newest(_select_candidates(JobFilter(project_ids)), MAX_CREATOR_JOBS)
    # The newest job of each has its current name. PostgreSQL does not compare JSON, so jobs are compared by their IDs.
    newest_ids = select(func.max(jobs.c.id)).join(newest, newest.c.id == jobs.c.id)
    newest_ids = newest_ids.where(jobs.c.creator_id.is_not(None)).group_by(jobs.c.creator_id)
    query = select(jobs.c.created_by).where(jobs.c.id.in_(newest_ids))
    with database.read() as tx:
        creators = [Creator.model_validate(row.created_by) for row in tx.execute(query)]
    return sorted(creators, key=lambda creator: (creator.name.casefold(), creator.id or ""))


def load_opened_at(database: Database, job_ids: Sequence[str]) -> dict[str, int]:
    """Returns when the pull request of each of these jobs was opened."""
    is_opened = events.c.job_id.in_(job_ids) & (events.c.kind == EventKind.PULL_REQUEST)
    query = select(events.c.job_id, func.min(events.c.at)).where(is_opened).group_by(events.c.job_id)
    with database.read() as tx:
        return {row[0]: row[1] for row in tx.execute(query)}


def _select_candidates(job_filter: JobFilter) -> Select[str]:
    """Selects the ids of jobs by the conditions that indexes answer."""
    query = select(jobs.c.id).where(jobs.c.project_id.in_(job_filter.project_ids))
    if job_filter.state is not None:
        query = query.where(jobs.c.review_state == job_filter.state)
    if job_filter.creator_id is not None:
        query = query.where(jobs.c.creator_id == job_filter.creator_id)
    if job_filter.creator_kind is not None:
        query = query.where(jobs.c.creator_kind == job_filter.creator_kind)
    if is_id(job_filter.text, "job"):
        query = query.where(jobs.c.id == job_filter.text)
    return query


def _match_text(text: str) -> ColumnElement[bool] | None:
    """Returns the condition on the words; None without words, and for a job ID, which an index finds."""
    if not text or is_id(text, "job"):
        return None
    number = PULL_NUMBER_PATTERN.fullmatch(text)
    has_number = jobs.c.pr_link.endswith(f"/{int(number[2])}", autoescape=True) if number else None
    if has_number is not None and number is not None and number[1]:
        return has_number
    paths = (job_files.c.path, job_files.c.previous)
    has_path = or_(*(path.icontains(text, autoescape=True) for path in paths))
    changes_path = select(job_files.c.job_id).where(job_files.c.job_id == jobs.c.id, has_path).exists()
    conditions = [column.icontains(text, autoescape=True) for column in (jobs.c.prompt, jobs.c.title)]
    return or_(*conditions, changes_path, *([has_number] if has_number is not None else []))


def _newest(candidates: Select[*tuple[Any, ...]], count: int) -> Subquery:
    return candidates.order_by(jobs.c.id.desc()).limit(count).subquery("newest")


def _find_end(tx: Connection, window: Subquery, size: int) -> str | None:
    """Returns the oldest job of a full window; None if the window holds all jobs."""
    count, oldest_id = tx.execute(select(func.count(), func.min(window.c.id))).one()
    return oldest_id if count == size else None


def _count_all(tx: Connection, job_filter: JobFilter, max_counted: int) -> dict[ReviewState, StateCount]:
    counts = []
    for state in ReviewState:
        same_state = _select_candidates(replace(job_filter, state=state)).limit(max_counted + 1).subquery()
        counts.append(select(cast(literal(state.value), String), func.count()).select_from(same_state))
    rows = tx.execute(union_all(*counts)).all()
    return {
        ReviewState(state): StateCount(min(count, max_counted), count > max_counted) for state, count in rows if count
    }


def _load_jobs(tx: Connection, ids: Sequence[str]) -> list[Job]:
    jobs_by_id = {row.id: job_from_row(row) for row in tx.execute(select(jobs).where(jobs.c.id.in_(ids)))}
    return [jobs_by_id[job_id] for job_id in ids if job_id in jobs_by_id]
