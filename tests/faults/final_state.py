"""Invariants after every drill: all accepted work was done once, and nothing else was done."""

from collections import Counter

import pygit2
from sqlalchemy import select

from copydesk.jobs.job import ACTIVE, COMPLETED
from copydesk.jobs.storage.tables import events, jobs, pulls, runs
from tests.crash.harness import wait_until
from tests.faults.drill import tell
from tests.faults.fleet import Fleet, Site
from tests.faults.traffic import Account

ONCE = ("queued", "pushed", "pull_request", "finished")


def reckon(fleet: Fleet, account: Account, seconds: float = 60.0) -> None:
    """Waits for running jobs, then checks the counts."""
    tell(f"accepted: {account}")
    wait_until(lambda: not _active(fleet), "all jobs to end", seconds)
    _check_jobs(fleet, account)
    for site in fleet.sites:
        _check_repository(fleet, site)
    _check_events(fleet, account)
    check_logs(fleet)


def check_logs(fleet: Fleet) -> None:
    """Asserts that logs have no traceback: an unavailable service is logged in one line."""
    for process in (*fleet.servers, *fleet.workers):
        before, trace, after = process.said.partition("Traceback")
        assert not trace, before[-500:] + trace + after[:3000]


def counted(fleet: Fleet, site: Site) -> int:
    fleet.desk.store.fold()
    return fleet.desk.store.count_views_by_page(site.project.id).totals.total


def _active(fleet: Fleet) -> int:
    with fleet.desk.database.read() as tx:
        return len(tx.execute(select(jobs.c.id).where(jobs.c.status == ACTIVE)).all())


def _check_jobs(fleet: Fleet, account: Account) -> None:
    with fleet.desk.database.read() as tx:
        found = {row.id: row for row in tx.execute(select(jobs))}
        opened = Counter(tx.execute(select(pulls.c.job_id)).scalars())
        under_way = tx.execute(select(runs.c.id).where(runs.c.state != "done")).all()
        attempts = Counter(tx.execute(select(runs.c.attempt)).scalars())
        told = list(tx.execute(select(events.c.job_id, events.c.seq, events.c.kind)))
    accepted = account.jobs.values()
    tell(f"came out: {len(found)} jobs, {opened.total()} pull requests; attempts {dict(sorted(attempts.items()))}")
    assert len(set(accepted)) == len(accepted), "two requests were given one job"
    assert found.keys() == set(accepted), "a job was lost, or made twice"
    ends = Counter((row.status, row.reason, row.message) for row in found.values())
    assert ends.keys() <= {(COMPLETED, None, None)}, ends
    assert opened == Counter(accepted), "not one pull request each"
    assert not under_way
    kinds, numbers = Counter((job, kind) for job, _, kind in told), Counter(job for job, _, _ in told)
    assert all(kinds[job, kind] == 1 for job in found for kind in ONCE), "something was told twice or not at all"
    assert all(numbers[job] == row.last_event for job, row in found.items()), "the events have gaps"


def _check_repository(fleet: Fleet, site: Site) -> None:
    """Asserts one branch for each job, with one commit on top of main."""
    repository = pygit2.Repository(str(site.repository))
    heads = {name: repository.branches[name].peel(pygit2.Commit) for name in repository.branches}
    main = heads.pop("main")
    with fleet.desk.database.read() as tx:
        wanted = tx.execute(select(jobs.c.branch, jobs.c.head).where(jobs.c.project_id == site.project.id)).all()
    assert {name: str(head.id) for name, head in heads.items()} == {row.branch: row.head for row in wanted}
    assert all([parent.id for parent in head.parents] == [main.id] for head in heads.values())


def _check_events(fleet: Fleet, account: Account) -> None:
    found = sum(counted(fleet, site) for site in fleet.sites)
    tell(f"came out: {found} events")
    assert found == len(set(account.events)) == len(account.events)
