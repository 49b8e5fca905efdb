"""Fills stores with hundreds of thousands of jobs and views, without HTTP: rows of finished jobs, a year of traffic."""

from collections.abc import Iterator
from contextlib import closing

from sqlalchemy import insert, text

from benchmarks.analytics.traffic import DAYS, FIRST_DAY, generate_days
from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.open_store import open_store
from copydesk.core import clock
from copydesk.core.ids import new_id
from copydesk.desk import Desk
from copydesk.jobs.job import COMPLETED, Phase, ReviewState, branch_name
from copydesk.jobs.storage.tables import events, jobs, messages, runs

BATCH_ROWS = 5_000
EVENT_KINDS = ("queued", "phase", "pushed", "pull_request", "finished")


def add_jobs(desk: Desk, project_id: str, count: int) -> str:
    """Adds finished jobs with a message, a run and a few events each; returns the last one's id."""
    last = ""
    for some in _batch_sizes(count):
        ids, now = [new_id("job") for _ in range(some)], clock.now()
        with desk.database.write() as tx:
            tx.execute(insert(jobs), [_job_row(job, project_id, now) for job in ids])
            tx.execute(insert(runs), [_run_row(job, project_id, now) for job in ids])
            tx.execute(
                insert(messages),
                [{"job_id": job, "id": new_id("msg"), "prompt": "Replace", "created_at": now} for job in ids],
            )
            tx.execute(
                insert(events),
                [
                    {"job_id": job, "seq": seq, "at": now, "kind": kind, "data": {}}
                    for job in ids
                    for seq, kind in enumerate(EVENT_KINDS, 1)
                ],
            )
        last = ids[-1]
    with desk.database.write() as tx:
        tx.execute(text("analyze"))
    return last


def add_views(store: Store, project_id: str, count: int, seed: int) -> None:
    """Logs a year of views through the store."""
    waiting: list[PageView] = []
    for day in generate_days(count, range(FIRST_DAY, FIRST_DAY + DAYS), seed):
        waiting += [view._replace(project=project_id) for view in day]
        while len(waiting) >= BATCH_ROWS:
            store.log_views(waiting[:BATCH_ROWS])
            del waiting[:BATCH_ROWS]
    store.log_views(waiting)


def add_folded_views(desk: Desk, project_id: str, count: int) -> None:
    """Adds a year of folded views to the store that a server opens next."""
    if count:
        with closing(open_store(desk.settings, desk.database)) as store:
            add_views(store, project_id, count, seed=1)
            store.fold()


def _batch_sizes(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, BATCH_ROWS)
        count -= BATCH_ROWS


def _job_row(job_id: str, project_id: str, now: int) -> dict[str, object]:
    return {
        "id": job_id, "project_id": project_id, "status": COMPLETED, "phase": Phase.DONE,
        "prompt": "Replace colour with color on every page.", "title": "Replace colour", "summary": "Three pages.",
        "repository": "docs.git", "ref": "main", "model": "mechanic", "draft": False, "branch": branch_name(job_id),
        "pr_link": "https://desk.example.org/review/1", "usage": {}, "checks": [], "last_event": len(EVENT_KINDS),
        "created_at": now, "updated_at": now, "finished_at": now, "pull_state": "open",
        "review_state": ReviewState.OPEN, "risk": [], "evidence": [], "reviewers": [],
    }  # fmt: skip


def _run_row(job_id: str, project_id: str, now: int) -> dict[str, object]:
    return {
        "id": new_id("run"), "job_id": job_id, "project_id": project_id, "number": 1, "state": "done", "version": 1,
        "attempt": 1, "crashes": 0, "created_at": now, "started_at": now, "finished_at": now,
    }  # fmt: skip
