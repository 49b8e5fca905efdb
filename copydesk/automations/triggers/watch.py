"""Watches repositories for automations: `git ls-remote` notices changes, and a quiet period collects a burst.

What a repository was last seen at is in the database, so that all servers share it. The first look records without a
run. A run covers everything since the last run that did not fail.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from copydesk.automations.automation import Automation, NoticeCode, Outcome, TriggerEvent
from copydesk.automations.definition import ApiTrigger, ContentUpdateTrigger, ReleaseTrigger, ScheduleTrigger
from copydesk.automations.firing import AutomationFiring, FiredMeanwhile
from copydesk.automations.records import automation_from_row, load_runs, lock_automation, select_runs
from copydesk.automations.tables import automation_runs, automation_sources, automations
from copydesk.automations.triggers.changes import RepositoryChanges, describe_changes, find_changes
from copydesk.automations.triggers.leases import TaskLease, read_database_clock
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound, StoreUnavailable, UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.core.text.path_patterns import matches_any
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.storage.tables import jobs

log = logging.getLogger(__name__)

WATCHING_TYPES = ("code_change", "content_update", "release")
LONGEST_WAIT_FACTOR = 6
"""A repository that is never quiet starts a run after this many quiet periods."""
LOOK_TIMEOUT_SECONDS = 30.0
MAX_FAILED_RUNS = 50
Refs = dict[str, str]


@dataclass(frozen=True)
class WatchedRepository:
    """A repository that automations can watch. `name` is empty for the project's own."""

    name: str
    address: str
    branch: str
    open_git: Callable[[], Git]
    open_mirror: Callable[[], Mirror]


ListRepositories = Callable[[Project], Sequence[WatchedRepository]]
"""Returns the project's own repository and its context repositories."""


class RepositoryWatch:
    def __init__(
        self,
        database: Database,
        firing: AutomationFiring,
        list_repositories: ListRepositories,
        *,
        quiet_ms: int,
        lease_ms: int,
    ) -> None:
        self.database = database
        self.firing = firing
        self.list_repositories = list_repositories
        self.quiet_ms = quiet_ms
        self.lease = TaskLease(database, "watch", lease_ms)

    def tick(self) -> None:
        """Looks at all watched repositories, if this process holds or gets the lease."""
        if self.lease.acquire():
            self.look()

    def look(self) -> None:
        """Asks each watched repository once for its refs, and starts the runs that are due."""
        query = select(automations).where(automations.c.enabled, automations.c.trigger_type.in_(WATCHING_TYPES))
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(automations.c.project_id, automations.c.id)).all()
        looks: dict[tuple[str, str], Refs | UserFacingError] = {}
        list_once = cache(self._list_repositories)
        for row in rows:
            try:
                self._look_for(automation_from_row(row), looks, list_once)
            except StoreUnavailable:
                raise
            except ProjectNotFound:
                continue
            except UserFacingError as failure:
                log.warning("automation %s cannot watch its repositories: %s", row.id, failure)
                self.firing.hold(row.id, (NoticeCode.REPOSITORY_UNAVAILABLE, str(failure)))
            except Exception:  # an error of one automation must not stop the others
                log.exception("automation %s could not be run", row.id)

    def _list_repositories(self, project_id: str) -> tuple[Project, Sequence[WatchedRepository]]:
        project = self.firing.projects.get(project_id)
        return project, self.list_repositories(project)

    def _look_for(
        self,
        automation: Automation,
        looks: dict[tuple[str, str], Refs | UserFacingError],
        list_repositories: Callable[[str], tuple[Project, Sequence[WatchedRepository]]],
    ) -> None:
        project, listed = list_repositories(automation.project_id)
        repositories = {
            repository.name: repository for repository in listed if _is_watched(automation, repository.name)
        }
        for repository in repositories.values():
            key = (project.id, repository.name)
            if key not in looks:
                looks[key] = _list_refs(repository)
            refs = looks[key]
            if isinstance(refs, UserFacingError):
                raise refs
            self._record_look(automation, repository, _select_refs(automation, repository, refs))
        self._fire_if_quiet(project, automation, repositories)

    def _record_look(self, automation: Automation, repository: WatchedRepository, refs: Refs) -> None:
        """Stores the refs, if they differ from those that were last seen."""
        same_source = (automation_sources.c.automation_id == automation.id) & (
            automation_sources.c.name == repository.name
        )
        query = select(automation_sources).where(same_source)
        with self.database.read() as tx:
            row = tx.execute(query).first()
        if row is not None and row.address == repository.address and row.seen == refs:
            return
        with self.database.write() as tx:
            if lock_automation(self.database, tx, automation.id) is None:
                return
            row = tx.execute(query).first()
            if row is None or row.address != repository.address:  # the first look at it
                first = {"name": repository.name, "address": repository.address, "seen": refs, "fired": refs}
                tx.execute(delete(automation_sources).where(same_source))
                tx.execute(insert(automation_sources).values(automation_id=automation.id, **first))
            elif row.seen != refs:
                now = read_database_clock(self.database, tx)
                is_pending = refs != row.fired
                times = {"pending_since": row.pending_since or now, "changed_at": now}
                values = times if is_pending else dict.fromkeys(times)
                tx.execute(update(automation_sources).where(same_source).values(seen=refs, **values))

    def _fire_if_quiet(
        self, project: Project, automation: Automation, repositories: Mapping[str, WatchedRepository]
    ) -> None:
        query = select(automation_sources).where(
            automation_sources.c.automation_id == automation.id, automation_sources.c.changed_at.is_not(None)
        )
        with self.database.read() as tx:
            now = read_database_clock(self.database, tx)
            pending = [row for row in tx.execute(query.order_by(automation_sources.c.name)) if row.name in repositories]
            if not pending or not all(self._is_quiet(row, now) for row in pending):
                return
            bases = self._find_bases(tx, automation, pending)
        if isinstance(automation.definition.trigger, ReleaseTrigger):
            event = _describe_release(pending, bases)
            nothing = None if event.data["tags"] else "No new tag matches."
        else:
            changes = [self._find_changes(automation, repositories[row.name], row, bases[row.name]) for row in pending]
            event = _describe_event(automation, pending, changes)
            nothing = _find_nothing_to_do(automation, changes)
            if not any(each.commits for each in changes):  # only commits of its own jobs
                self._mark_fired_without_run(automation, pending)
                return
        self.firing.fire(
            project,
            automation.id,
            event,
            nothing_to_do=nothing,
            then=lambda tx: _mark_fired(tx, automation.id, pending),
        )

    def _is_quiet(self, row: Row[Any], now: int) -> bool:
        longest_ms = LONGEST_WAIT_FACTOR * self.quiet_ms
        return bool(now - row.changed_at >= self.quiet_ms or now - row.pending_since >= longest_ms)

    def _find_bases(self, tx: Connection, automation: Automation, pending: Sequence[Row[Any]]) -> dict[str, Refs]:
        """Returns the refs that each repository had at the last run that did not fail."""
        bases = {row.name: row.fired for row in pending}
        query = select_runs().where(automation_runs.c.automation_id == automation.id).limit(MAX_FAILED_RUNS)
        for run in load_runs(tx, query):
            if run.outcome is not Outcome.FAILED:
                break
            bases |= {name: refs for name, refs in run.trigger.get("before", {}).items() if name in bases}
        return bases

    def _find_changes(
        self, automation: Automation, repository: WatchedRepository, row: Row[Any], base: Refs
    ) -> RepositoryChanges:
        mirror = repository.open_mirror()
        [(branch, head)] = row.seen.items()
        mirror.ensure_commit(head, repository.branch)
        with self.database.read() as tx:
            own_jobs = tx.execute(select(jobs.c.id, jobs.c.pr_link).where(jobs.c.automation_id == automation.id)).all()
        numbers = {parse_pull_number(job.pr_link) for job in own_jobs if job.pr_link} if not repository.name else set()
        return find_changes(
            mirror.repository,
            repository.name,
            base.get(branch, head),
            head,
            {job.id for job in own_jobs},
            {number for number in numbers if number is not None},
        )

    def _mark_fired_without_run(self, automation: Automation, pending: Sequence[Row[Any]]) -> None:
        with suppress(FiredMeanwhile), self.database.write() as tx:
            if lock_automation(self.database, tx, automation.id) is not None:
                _mark_fired(tx, automation.id, pending)


def _list_refs(repository: WatchedRepository) -> Refs | UserFacingError:
    """Returns the branch and the tags of a repository, or why it cannot be read."""
    try:
        patterns = (f"refs/heads/{repository.branch}", "refs/tags/*")
        return repository.open_git().list_refs(*patterns, seconds=LOOK_TIMEOUT_SECONDS)
    except StoreUnavailable:
        raise
    except UserFacingError as failure:
        return failure


def _is_watched(automation: Automation, name: str) -> bool:
    trigger = automation.definition.trigger
    if isinstance(trigger, ScheduleTrigger | ApiTrigger):
        return False
    if isinstance(trigger, ContentUpdateTrigger):
        return not name
    return bool(name) and (not trigger.repositories or name in trigger.repositories)


def _select_refs(automation: Automation, repository: WatchedRepository, refs: Refs) -> Refs:
    """Returns the refs that the automation watches: tags for releases, or else the branch."""
    trigger = automation.definition.trigger
    if isinstance(trigger, ReleaseTrigger):
        tags = {name.removeprefix("refs/tags/"): c for name, c in refs.items() if name.startswith("refs/tags/")}
        return {tag: commit for tag, commit in tags.items() if trigger.tags is None or fnmatchcase(tag, trigger.tags)}
    head = refs.get(f"refs/heads/{repository.branch}")
    if head is None:
        raise RepositoryFailed(f"{repository.name or 'The repository'} has no branch {repository.branch}.")
    return {repository.branch: head}


def _mark_fired(tx: Connection, automation_id: str, pending: Sequence[Row[Any]]) -> None:
    """Stores that a run covers these refs. A change that was noticed since then stays pending.

    Raises FiredMeanwhile if another server's run covered a source since `pending` was read.
    """
    for row in pending:
        same_source = (automation_sources.c.automation_id == automation_id) & (automation_sources.c.name == row.name)
        current = tx.execute(select(automation_sources).where(same_source)).first()
        if current is None or (current.fired, current.pending_since) != (row.fired, row.pending_since):
            raise FiredMeanwhile
        times = {} if current.seen != row.seen else {"pending_since": None, "changed_at": None}
        tx.execute(update(automation_sources).where(same_source).values(fired=row.seen, **times))


def _build_key(pending: Sequence[Row[Any]]) -> str:
    """Returns the key of a change. Its time makes a second move to the same commit another change."""
    facts = [[row.name, row.pending_since, row.fired, row.seen] for row in pending]
    return f"refs:{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()}"


def _describe_event(
    automation: Automation, pending: Sequence[Row[Any]], all_changes: Sequence[RepositoryChanges]
) -> TriggerEvent:
    count = sum(len(changes.commits) for changes in all_changes)
    places = [changes.name or "this repository" for changes in all_changes if changes.commits]
    text = f"{count} new commit{'' if count == 1 else 's'} in {', '.join(places)}."
    data = {
        "type": automation.definition.trigger.type,
        "before": {changes.name: dict.fromkeys(row.seen, changes.base)
                   for row, changes in zip(pending, all_changes, strict=True)},
        "after": {row.name: row.seen for row in pending},
        "authors": sorted({author for changes in all_changes for author in changes.authors})[:20],
    }  # fmt: skip
    return TriggerEvent(_build_key(pending), text, data, describe_changes(all_changes))


def _describe_release(pending: Sequence[Row[Any]], bases: Mapping[str, Refs]) -> TriggerEvent:
    new_tags = {
        row.name: sorted(tag for tag, commit in row.seen.items() if bases[row.name].get(tag) != commit)
        for row in pending
    }
    names = [f"{name} {tag}".strip() for name, tags in new_tags.items() for tag in tags]
    data = {
        "type": "release",
        "before": bases,
        "after": {row.name: {tag: row.seen[tag] for tag in new_tags[row.name]} for row in pending},
        "tags": names[:50],
    }
    return TriggerEvent(_build_key(pending), f"Released: {', '.join(names[:10]) or 'nothing new'}.", data)


def _find_nothing_to_do(automation: Automation, all_changes: Sequence[RepositoryChanges]) -> str | None:
    """Returns why a run has nothing to do, if no touched path matches the automation's paths; None otherwise."""
    trigger = automation.definition.trigger
    patterns = [] if isinstance(trigger, ScheduleTrigger | ReleaseTrigger | ApiTrigger) else trigger.paths
    if not patterns or any(not changes.is_complete for changes in all_changes):
        return None
    if any(matches_any(path, patterns) for changes in all_changes for path in changes.paths):
        return None
    return f"No changed file matches {', '.join(patterns[:5])}."
