"""Watches repositories for automations: `git ls-remote` notices changes, and a quiet period collects a burst.

What a repository was last seen at is in the database, so that all servers share it. The first look records without a
run. A run covers everything that no run has seen that did not fail.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from copydesk.automations.automation import Automation, AutomationRun, NoticeCode, Outcome, TriggerEvent
from copydesk.automations.definition import (
    FILES_FOLDER,
    ApiTrigger,
    ContentUpdateTrigger,
    ReleaseTrigger,
    ScheduleTrigger,
)
from copydesk.automations.firing import AutomationFiring, FiredMeanwhile
from copydesk.automations.limits import Hold
from copydesk.automations.records import automation_from_row, load_runs, lock_automation, select_runs
from copydesk.automations.tables import automation_runs, automation_sources, automations
from copydesk.automations.triggers.changes import RepositoryChanges, describe_changes, find_changes
from copydesk.automations.triggers.leases import TaskLease, read_database_clock
from copydesk.automations.triggers.looks import (
    FindOwnHead,
    ListRepositories,
    Looks,
    Refs,
    WatchedRepository,
    is_watched,
    select_refs,
)
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound, StoreUnavailable, UserFacingError
from copydesk.core.projects.projects import Project
from copydesk.core.text.path_patterns import matches_any
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.projects.page_history import build_commit_link
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.storage.message_origins import OriginCommit
from copydesk.jobs.storage.tables import jobs

log = logging.getLogger(__name__)

WATCHING_TYPES = ("code_change", "content_update", "release")
LONGEST_WAIT_FACTOR = 6
"""A repository that is never quiet starts a run after this many quiet periods."""
MAX_RUNS_SEARCHED = 50
MAX_COMMITS_NAMED = 3
"""How many commits of a repository the pull request names."""
SELECT_WATCHING = select(automations).where(automations.c.enabled, automations.c.trigger_type.in_(WATCHING_TYPES))


class RepositoryWatch:
    def __init__(
        self,
        database: Database,
        firing: AutomationFiring,
        list_repositories: ListRepositories,
        *,
        quiet_ms: int,
        lease_ms: int,
        sync_files: Callable[[FindOwnHead, str | None], None] = lambda find_own_head, project_id: None,
    ) -> None:
        """`sync_files` is called at each look, before the automations are looked at, for one project or all (None)."""
        self.database = database
        self.firing = firing
        self.list_repositories = list_repositories
        self.sync_files = sync_files
        self.quiet_ms = quiet_ms
        self.lease = TaskLease(database, "watch", lease_ms)

    def tick(self) -> None:
        """Looks at all watched repositories, if this process holds or gets the lease."""
        if self.lease.acquire():
            self.look()

    def look(self) -> None:
        """Asks each watched repository once for its refs, and starts the runs that are due."""
        looks = Looks(self._list_repositories)
        self.sync_files(looks.find_own_head, None)
        query = SELECT_WATCHING.order_by(automations.c.project_id, automations.c.id)
        with self.database.read() as tx:
            rows = tx.execute(query).all()
        for project_id, project_rows in groupby(rows, key=lambda row: row.project_id):
            self._look_for_project(project_id, [automation_from_row(row) for row in project_rows], looks)

    def look_at(self, project_id: str, name: str) -> int | None:
        """Looks at one repository of a project at once.

        Returns when the quiet period of a change that waits for it ends, or None if no change does.
        """
        looks = Looks(self._list_repositories)
        if not name:
            self.sync_files(looks.find_own_head, project_id)
        query = SELECT_WATCHING.where(automations.c.project_id == project_id).order_by(automations.c.id)
        with self.database.read() as tx:
            listed = [automation_from_row(row) for row in tx.execute(query)]
        watching = [automation for automation in listed if is_watched(automation, name)]
        self._look_for_project(project_id, watching, looks, only=name)
        now, sources = self._load_sources([automation.id for automation in watching])
        ends = [self._find_quiet_end(row) for rows in sources.values() for row in rows if row.changed_at is not None]
        return min((end for end in ends if end > now), default=None)

    def _list_repositories(self, project_id: str) -> tuple[Project, Sequence[WatchedRepository]]:
        project = self.firing.projects.get(project_id)
        return project, self.list_repositories(project)

    def _look_for_project(
        self, project_id: str, watching: Sequence[Automation], looks: "Looks", only: str | None = None
    ) -> None:
        """Looks at the repositories that the automations of a project watch; with `only`, at the one of this name."""
        try:
            project, listed = looks.list_repositories(project_id)
        except (StoreUnavailable, ProjectNotFound) as error:
            if isinstance(error, StoreUnavailable):
                raise
            return
        except UserFacingError as failure:
            for automation in watching:
                self._hold(automation, failure)
            return
        names = {automation.id: {each.name for each in listed if is_watched(automation, each.name)}
                 for automation in watching}  # fmt: skip
        seen = {
            repository.name: looks.list_refs(project_id, repository)
            for repository in listed
            if only in (None, repository.name) and any(repository.name in watched for watched in names.values())
        }
        now, sources = self._load_sources(list(names))
        for automation in watching:
            repositories = {each.name: each for each in listed if each.name in names[automation.id]}
            try:
                has_new = self._record_looks(automation, repositories, seen, sources.get(automation.id, []))
                if has_new or self._has_due_change(repositories, sources.get(automation.id, []), now):
                    self._fire_if_quiet(project, automation, repositories)
            except StoreUnavailable:
                raise
            except ProjectNotFound:
                return
            except UserFacingError as failure:
                self._hold(automation, failure)
            except Exception:  # an error of one automation must not stop the others
                log.exception("automation %s could not be run", automation.id)

    def _hold(self, automation: Automation, failure: UserFacingError) -> None:
        """Stores that a repository cannot be read, unless the automation says so already."""
        code, text = NoticeCode.REPOSITORY_UNAVAILABLE, str(failure)
        if automation.notice is None or (automation.notice.code, automation.notice.text) != (code, text):
            log.warning("automation %s cannot watch its repositories: %s", automation.id, failure)
            self.firing.hold(automation.id, Hold(code, text))

    def _load_sources(self, automation_ids: Sequence[str]) -> tuple[int, dict[str, list[Row[Any]]]]:
        """Returns the time, and the last looks of all these automations: one statement for a whole project."""
        query = (
            select(self.database.now.label("now"), automation_sources)
            .where(automation_sources.c.automation_id.in_(automation_ids))
            .order_by(automation_sources.c.automation_id, automation_sources.c.name)
        )
        with self.database.read() as tx:
            rows = tx.execute(query).all() if automation_ids else []
        sources: dict[str, list[Row[Any]]] = {}
        for row in rows:
            sources.setdefault(row.automation_id, []).append(row)
        return rows[0].now if rows else 0, sources

    def _has_due_change(
        self, repositories: Mapping[str, WatchedRepository], sources: Sequence[Row[Any]], now: int
    ) -> bool:
        pending = [row for row in sources if row.changed_at is not None and row.name in repositories]
        return bool(pending) and all(self._is_quiet(row, now) for row in pending)

    def _record_looks(
        self,
        automation: Automation,
        repositories: Mapping[str, WatchedRepository],
        looks: Mapping[str, Refs | UserFacingError],
        sources: Sequence[Row[Any]],
    ) -> bool:
        """Stores refs that differ from those that were last seen. Returns whether any did.

        Raises RepositoryFailed if one of the repositories could not be read.
        """
        known = {row.name: (row.address, row.seen) for row in sources}
        has_new = False
        for repository in repositories.values():
            refs = looks.get(repository.name)
            if refs is None:
                continue
            if isinstance(refs, UserFacingError):
                raise refs
            selected = select_refs(automation, repository, refs)
            if known.get(repository.name) != (repository.address, selected):
                self._record_look(automation, repository, selected)
                has_new = True
        return has_new

    def _record_look(self, automation: Automation, repository: WatchedRepository, refs: Refs) -> None:
        """Stores the refs, if they still differ from those that were last seen."""
        same_source = (automation_sources.c.automation_id == automation.id) & (
            automation_sources.c.name == repository.name
        )
        query = select(automation_sources).where(same_source)
        with self.database.write() as tx:
            if lock_automation(tx, automation.id) is None:
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
        if self.firing.is_held(project, automation.id):
            return
        if isinstance(automation.definition.trigger, ReleaseTrigger):
            event = _describe_release(pending, bases)
            nothing = None if event.data["tags"] else "No new tag matches."
        else:
            changes = [self._find_changes(automation, repositories[row.name], row, bases[row.name]) for row in pending]
            event = _describe_event(automation, pending, changes, repositories)
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

    def _find_quiet_end(self, row: Row[Any]) -> int:
        longest_ms = LONGEST_WAIT_FACTOR * self.quiet_ms
        return int(min(row.changed_at + self.quiet_ms, row.pending_since + longest_ms))

    def _is_quiet(self, row: Row[Any], now: int) -> bool:
        return now >= self._find_quiet_end(row)

    def _find_bases(self, tx: Connection, automation: Automation, pending: Sequence[Row[Any]]) -> dict[str, Refs]:
        """Returns the refs of each repository before the oldest change that no run has seen."""
        query = select_runs().where(automation_runs.c.automation_id == automation.id).limit(MAX_RUNS_SEARCHED)
        runs = load_runs(tx, query)[::-1]
        return {row.name: _find_unseen_start(row.name, runs) or row.fired for row in pending}

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
            if lock_automation(tx, automation.id) is not None:
                _mark_fired(tx, automation.id, pending)


def _find_unseen_start(name: str, runs: Sequence[AutomationRun]) -> Refs | None:
    """Returns the refs before the first change that only failed runs were about; None if there is none.

    `runs` are oldest first. A run covers the failed runs before it only if it began where they began: one that was
    started while they were still running began after them.
    """
    unseen: list[Refs] = []
    for run in runs:
        before = run.trigger.get("before", {}).get(name)
        if before is None:
            continue
        if before in unseen:
            del unseen[unseen.index(before) :]
        if run.outcome is Outcome.FAILED:
            unseen.append(before)
    return unseen[0] if unseen else None


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
    automation: Automation,
    pending: Sequence[Row[Any]],
    all_changes: Sequence[RepositoryChanges],
    repositories: Mapping[str, WatchedRepository],
) -> TriggerEvent:
    count = sum(len(changes.commits) for changes in all_changes)
    places = [changes.name or "this repository" for changes in all_changes if changes.commits]
    text = f"{pluralize(count, 'new commit')} in {', '.join(places)}."
    data = {
        "type": automation.definition.trigger.type,
        "before": {changes.name: dict.fromkeys(row.seen, changes.base)
                   for row, changes in zip(pending, all_changes, strict=True)},
        "after": {row.name: row.seen for row in pending},
        "authors": sorted({author for changes in all_changes for author in changes.authors})[:20],
    }  # fmt: skip
    commits = {changes.name: changes.list_newest_ids() for changes in all_changes}
    newest = [
        OriginCommit(id=commit.id, title=commit.title, url=build_commit_link(source.forge, source.address, commit.id))
        for changes in all_changes
        for source in [repositories[changes.name]]
        for commit in changes.commits[:MAX_COMMITS_NAMED]
    ]
    return TriggerEvent(_build_key(pending), text, data, describe_changes(all_changes), commits, newest)


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
    commits = {row.name: [row.seen[tag] for tag in new_tags[row.name]] for row in pending}
    text = f"Released: {', '.join(names[:10]) or 'nothing new'}."
    return TriggerEvent(_build_key(pending), text, data, commits=commits)


def _find_nothing_to_do(automation: Automation, all_changes: Sequence[RepositoryChanges]) -> str | None:
    """Returns why a run has nothing to do, if no touched path matches the automation's paths; None otherwise."""
    trigger = automation.definition.trigger
    patterns = [] if isinstance(trigger, ScheduleTrigger | ReleaseTrigger | ApiTrigger) else trigger.paths
    if any(not changes.is_complete for changes in all_changes):
        return None
    paths = [path for changes in all_changes for path in changes.paths]
    is_own = isinstance(trigger, ContentUpdateTrigger)
    if is_own and paths and all(path.startswith(f"{FILES_FOLDER}/") for path in paths):
        return "Only automation files changed."
    if not patterns:
        return None
    if any(matches_any(path, patterns) for path in paths):
        return None
    return f"No changed file matches {', '.join(patterns[:5])}."
