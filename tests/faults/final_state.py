"""Invariants after every drill: all accepted work was done once, and nothing else was done."""

from collections import Counter

import pygit2
from sqlalchemy import select

from copydesk.jobs.job import ACTIVE, COMPLETED
from copydesk.jobs.storage.tables import events, jobs, pulls, runs
from tests.crash.harness import wait_until
from tests.faults.drill_output import print_line
from tests.faults.fleet import Fleet, FleetProject
from tests.faults.traffic import AcceptedWork

EVENTS_ONCE_PER_JOB = ("queued", "pushed", "pull_request", "finished")


def check_final_state(fleet: Fleet, account: AcceptedWork, seconds: float = 60.0) -> None:
    """Waits for running jobs, then checks the counts."""
    print_line(f"accepted: {account}")
    wait_until(lambda: not _count_active_jobs(fleet), "all jobs to end", seconds)
    _check_jobs(fleet, account)
    for site in fleet.sites:
        _check_repository(fleet, site)
    _check_events(fleet, account)
    check_logs(fleet)


def check_logs(fleet: Fleet) -> None:
    """Asserts that logs have no traceback: an unavailable service is logged in one line."""
    for process in (*fleet.servers, *fleet.workers):
        before, trace, after = process.output.partition("Traceback")
        assert not trace, before[-500:] + trace + after[:3000]


def count_views(fleet: Fleet, site: FleetProject) -> int:
    fleet.desk.store.fold()
    return fleet.desk.store.count_views_by_page(site.project.id).totals.total


def _count_active_jobs(fleet: Fleet) -> int:
    with fleet.desk.database.read() as tx:
        return len(tx.execute(select(jobs.c.id).where(jobs.c.status == ACTIVE)).all())


def _check_jobs(fleet: Fleet, account: AcceptedWork) -> None:
    with fleet.desk.database.read() as tx:
        job_rows = {row.id: row for row in tx.execute(select(jobs))}
        opened = Counter(tx.execute(select(pulls.c.job_id)).scalars())
        under_way = tx.execute(select(runs.c.id).where(runs.c.state != "done")).all()
        attempts = Counter(tx.execute(select(runs.c.attempt)).scalars())
        event_rows = list(tx.execute(select(events.c.job_id, events.c.seq, events.c.kind)))
    accepted = account.jobs.values()
    print_line(
        f"came out: {len(job_rows)} jobs, {opened.total()} pull requests; attempts {dict(sorted(attempts.items()))}"
    )
    assert len(set(accepted)) == len(accepted), "two requests were given one job"
    assert job_rows.keys() == set(accepted), "a job was lost, or made twice"
    ends = Counter((row.status, row.reason, row.message) for row in job_rows.values())
    assert ends.keys() <= {(COMPLETED, None, None)}, ends
    assert opened == Counter(accepted), "not one pull request each"
    assert not under_way
    kinds, numbers = Counter((job, kind) for job, _, kind in event_rows), Counter(job for job, _, _ in event_rows)
    assert all(kinds[job, kind] == 1 for job in job_rows for kind in EVENTS_ONCE_PER_JOB), (
        "something was told twice or not at all"
    )
    assert all(numbers[job] == row.last_event for job, row in job_rows.items()), "the events have gaps"


def _check_repository(fleet: Fleet, site: FleetProject) -> None:
    """Asserts one branch for each job, with one commit on top of main."""
    repository = pygit2.Repository(str(site.repository))
    heads = {name: repository.branches[name].peel(pygit2.Commit) for name in repository.branches}
    main = heads.pop("main")
    with fleet.desk.database.read() as tx:
        branch_rows = tx.execute(select(jobs.c.branch, jobs.c.head).where(jobs.c.project_id == site.project.id)).all()
    assert {name: str(head.id) for name, head in heads.items()} == {row.branch: row.head for row in branch_rows}
    assert all([parent.id for parent in head.parents] == [main.id] for head in heads.values())


def _check_events(fleet: Fleet, account: AcceptedWork) -> None:
    view_count = sum(count_views(fleet, site) for site in fleet.sites)
    print_line(f"came out: {view_count} events")
    assert view_count == len(set(account.events)) == len(account.events)
