"""Derives what became of a job from its other columns. It is stored, so that an index finds jobs by it."""

from sqlalchemy import bindparam, case, or_, update

from copydesk.jobs.job import ACTIVE, ARCHIVED, FAILED, Reason, ReviewState
from copydesk.jobs.storage.tables import jobs

STATE_COLUMNS = frozenset({"status", "pull_state", "reason", "archived_from"})
"""The columns that decide the state. It is derived again when one of them changes."""

_IS_ARCHIVED = jobs.c.status == ARCHIVED
_HAS_OPEN_PULL = jobs.c.pull_state == "open"
_IS_UNANSWERED = jobs.c.reason.in_([Reason.QUESTION.value, Reason.NOT_UNDERSTOOD.value])

REVIEW_STATE = case(
    (jobs.c.status == ACTIVE, ReviewState.RUNNING.value),
    (jobs.c.pull_state == "merged", ReviewState.MERGED.value),
    (jobs.c.pull_state == "closed", ReviewState.CLOSED.value),
    (_IS_ARCHIVED & or_(_HAS_OPEN_PULL, _IS_UNANSWERED), ReviewState.ARCHIVED.value),
    (_HAS_OPEN_PULL, ReviewState.OPEN.value),
    (jobs.c.reason == Reason.NO_CHANGES.value, ReviewState.UNCHANGED.value),
    (_IS_UNANSWERED, ReviewState.UNANSWERED.value),
    (or_(jobs.c.status == FAILED, jobs.c.archived_from == FAILED), ReviewState.FAILED.value),
    (_IS_ARCHIVED, ReviewState.ARCHIVED.value),
    else_=ReviewState.UNCHANGED.value,
)
UPDATE_REVIEW_STATE = update(jobs).where(jobs.c.id == bindparam("job")).values(review_state=REVIEW_STATE)
