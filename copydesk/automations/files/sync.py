"""Keeps the automations of a project in step with the files of its branch.

Only the newest commit of the project's own branch is read. One transaction applies a reading, or nothing of it.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, null, select, update

from copydesk.automations.automation import Automation, FileSource
from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.files.parser import FileProblem, find_unknown_contexts
from copydesk.automations.files.readings import MAX_FILES, FileReading, read_files
from copydesk.automations.records import (
    automation_from_row,
    delete_automation,
    insert_automation,
    lock_automations_of_project,
    save_automation,
)
from copydesk.automations.service import (
    MAX_AUTOMATIONS_PER_PROJECT,
    SCHEDULE_FIELDS,
    Automations,
    plan_next_slot,
)
from copydesk.automations.tables import automation_files, automations
from copydesk.automations.triggers.looks import FindOwnHead
from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.errors import InvalidRequest, ProjectNotFound, StoreUnavailable, UserFacingError
from copydesk.core.ids import derive_id
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.projects import SELECT_BY_ID, Project, Projects, project_from_values
from copydesk.jobs.workspace.git_tree import Tree

log = logging.getLogger(__name__)

NEVER_READ = ""
SWITCHED_OFF = "off"
SWITCHED_OFF_TEXT = "The project does not read automation files (setting automation_files)."
ListContexts = Callable[[str], Sequence[str]]
"""Returns the names of a project's context repositories."""


class AutomationFile(NamedTuple):
    path: str
    automation_id: str | None
    problems: Sequence[FileProblem]


@dataclass(frozen=True)
class FilesState:
    """The result of the last reading of a project's automation files."""

    branch: str | None = None
    commit: str | None = None
    files: Sequence[AutomationFile] = ()
    problem: str | None = None
    """Why the repository could not be read since then; None if it could."""
    read_at: int | None = None

    @property
    def invalid_files(self) -> list[AutomationFile]:
        return [file for file in self.files if file.problems]


class Target(NamedTuple):
    """The target of a reading: the project as it was read, and the key of the reading before."""

    project: Project
    previous_key: str
    key: str
    commit: str


class AutomationFiles:
    def __init__(self, database: Database, service: Automations, list_contexts: ListContexts) -> None:
        self.database = database
        self.service = service
        self.list_contexts = list_contexts
        self.projects = Projects(database)

    def get_state(self, project_id: str) -> FilesState:
        row = self._load_row(project_id)
        if row is None or row.key == SWITCHED_OFF:
            return FilesState()
        files = [
            AutomationFile(each["path"], each["automation_id"], [FileProblem(**fault) for fault in each["problems"]])
            for each in row.files
        ]
        return FilesState(row.branch, row.commit_id, files, row.problem, row.read_at)

    def sync_all(self, find_own_head: FindOwnHead, project_id: str | None = None) -> None:
        """Reads the files of each project that wants it and whose branch moved; with `project_id`, of this one."""
        for project in self.projects.all():
            if project_id not in (None, project.id):
                continue
            try:
                self._sync_or_explain(project, find_own_head)
            except StoreUnavailable:
                raise
            except ProjectNotFound:
                continue
            except Exception:  # an error of one project must not stop the others
                log.exception("the automation files of project %s could not be read", project.id)

    def _sync_or_explain(self, project: Project, find_own_head: FindOwnHead) -> None:
        if not project.policy.automation_files:
            self._switch_off(project)
            return
        try:
            self.sync(project, find_own_head)
        except (StoreUnavailable, ProjectNotFound):
            raise
        except UserFacingError as failure:
            log.warning("the automation files of project %s cannot be read: %s", project.id, failure)
            self._save_problem(project.id, str(failure))

    def sync(self, project: Project, find_own_head: FindOwnHead) -> None:
        """Reads the files of the branch's newest commit, unless the last reading was of the same."""
        row = self._load_row(project.id)  # before the branch: a server with an older commit must not win
        repository, commit = find_own_head(project.id)
        contexts = sorted(self.list_contexts(project.id))
        room = min(MAX_FILES, MAX_AUTOMATIONS_PER_PROJECT - self._count_others(project.id))
        models = self.service.jobs.allowed_models(project)
        facts = [repository.address, repository.branch, commit, contexts, list(models), room]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        if row is not None and (row.key, row.problem) == (key, None):
            return
        mirror = repository.open_mirror()
        mirror.ensure_commit(commit, repository.branch)
        tree = mirror.tree(commit)

        def find_problems(definition: AutomationDefinition) -> list[FileProblem]:
            return find_unknown_contexts(definition, contexts) or self._find_model_problem(project, definition)

        readings = read_files(tree, find_problems, room)
        with self._lock(Target(project, row.key if row else NEVER_READ, key, commit)) as tx:
            if tx is not None:
                self._apply(tx, project, tree, readings)

    def _find_model_problem(self, project: Project, definition: AutomationDefinition) -> list[FileProblem]:
        try:
            self.service.check_model(project, Automation("", project.id, definition, None, None, 0, 0))
        except InvalidRequest as refusal:
            return [FileProblem(None, refusal.message)]
        return []

    def _count_others(self, project_id: str) -> int:
        """Returns the number of automations that no file defines."""
        is_other = (automations.c.project_id == project_id) & automations.c.source.is_(null())
        with self.database.read() as tx:
            return tx.execute(select(func.count()).select_from(automations).where(is_other)).scalar_one()

    @contextmanager
    def _lock(self, target: Target) -> Iterator[Connection | None]:
        """Begins the transaction of a reading, or yields None if another server or a new setting made it obsolete.

        Locks the automations first, in the order in which the deletion of a project does.
        """
        project = target.project
        mine = automation_files.c.project_id == project.id
        with refuse_missing_project(self.database, project.id), self.database.write() as tx:
            lock_automations_of_project(tx, project.id)
            empty = {"project_id": project.id, "key": NEVER_READ, "files": []}
            insert_if_absent(tx, automation_files, empty)  # also locks it: another server waits here
            query = select(automation_files.c.key).where(mine)
            key = tx.execute(query.with_for_update()).scalar_one()
            row = tx.execute(SELECT_BY_ID, {"id": project.id}).one()
            current = project_from_values(dict(row._mapping))
            if key != target.previous_key or _read_place(current) != _read_place(project):
                yield None
                return
            yield tx
            values = {
                "key": target.key,
                "branch": project.ref,
                "commit_id": target.commit,
                "problem": None,
                "read_at": clock.now(),
            }
            tx.execute(update(automation_files).where(mine).values(values))

    def _apply(self, tx: Connection, project: Project, tree: Tree, readings: Sequence[FileReading]) -> None:
        """Creates, changes, pauses and deletes automations, so that they are those of the files."""
        existing = _load_file_automations(tx, project.id)
        actor = _name_actor(tree.commit)
        stored = []
        for reading in readings:
            old = existing.pop(reading.path, None)
            automation_id = old.id if old is not None else None
            if reading.definition is not None:
                automation_id = self._save(tx, project, reading.path, reading.definition, tree.commit, old)
            elif old is not None:
                _pause(tx, old, reading.describe_problem(), actor)
            stored.append(reading.to_stored(automation_id))
        for path, old in existing.items():
            if tree.find_entry(path) is not None:
                _pause(tx, old, "The folder has too many files, so this one is not read. Delete some.", actor)
            else:
                delete_automation(tx, old.id)
                _record(tx, old, "automation.deleted", actor, name=old.definition.name)
        tx.execute(update(automation_files).where(automation_files.c.project_id == project.id).values(files=stored))

    def _save(
        self,
        tx: Connection,
        project: Project,
        path: str,
        definition: AutomationDefinition,
        commit: str,
        old: Automation | None,
    ) -> str:
        """Creates or changes the automation of a file. Returns its ID."""
        now = clock.now()
        source, actor = FileSource(path, commit), _name_actor(commit)
        if old is None:
            automation_id = derive_id("auto", project.id, path)
            slot = plan_next_slot(definition, now)
            created = Automation(automation_id, project.id, definition, slot, None, now, now, source)
            insert_automation(tx, created)
            _record(tx, created, "automation.created", actor, name=definition.name, kind=definition.kind)
            return automation_id
        changed_names = _find_changed_fields(old.definition, definition)
        if changed_names or (old.source and old.source.problem):
            changed = replace(old, definition=definition, source=source, notice=None, updated_at=now)
            if set(changed_names) & set(SCHEDULE_FIELDS):
                changed = replace(changed, next_slot_at=plan_next_slot(definition, now))
            save_automation(tx, changed)
            _record(tx, changed, "automation.changed", actor, name=old.definition.name, fields=changed_names)
        return old.id

    def _switch_off(self, project: Project) -> None:
        """Pauses the automations of files in a project that does not read them any more."""
        row = self._load_row(project.id)
        if row is None or row.key == SWITCHED_OFF:
            return
        with self._lock(Target(project, row.key, SWITCHED_OFF, row.commit_id or "")) as tx:
            if tx is not None:
                for old in _load_file_automations(tx, project.id).values():
                    _pause(tx, old, SWITCHED_OFF_TEXT, "setting automation_files")

    def _save_problem(self, project_id: str, problem: str) -> None:
        """Stores why the repository cannot be read. The automations stay as they are."""
        row = self._load_row(project_id)
        if row is not None and row.problem == problem:
            return
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            empty = {"project_id": project_id, "key": NEVER_READ, "files": []}
            insert_if_absent(tx, automation_files, empty)
            mine = automation_files.c.project_id == project_id
            tx.execute(update(automation_files).where(mine).values(problem=problem))

    def _load_row(self, project_id: str) -> Row[Any] | None:
        with self.database.read() as tx:
            return tx.execute(select(automation_files).where(automation_files.c.project_id == project_id)).first()


def _read_place(project: Project) -> tuple[str, str, bool]:
    return project.repository, project.ref, project.policy.automation_files


def _load_file_automations(tx: Connection, project_id: str) -> dict[str, Automation]:
    """Returns the automations that files define, by the path of the file."""
    query = select(automations).where(automations.c.project_id == project_id, automations.c.source.is_not(null()))
    listed = [automation_from_row(row) for row in tx.execute(query.order_by(automations.c.id))]
    return {automation.source.file: automation for automation in listed if automation.source}


def _find_changed_fields(old: AutomationDefinition, new: AutomationDefinition) -> list[str]:
    before, after = old.to_stored(), new.to_stored()
    return sorted(name for name in after if after[name] != before.get(name))


def _pause(tx: Connection, old: Automation, problem: str, actor: str) -> None:
    """Switches an automation off and stores why. It keeps its last valid definition."""
    assert old.source is not None
    if old.source.problem == problem:
        return
    was_enabled = old.definition.enabled
    definition = old.definition.model_copy(update={"enabled": False})
    source = replace(old.source, problem=problem)
    paused = replace(old, definition=definition, source=source, next_slot_at=None, notice=None, updated_at=clock.now())
    save_automation(tx, paused)
    if was_enabled:
        _record(tx, old, "automation.changed", actor, name=old.definition.name, fields=["enabled"])


def _name_actor(commit: str) -> str:
    """Returns the actor for the audit log: the commit, since the name of its author can be anything."""
    return f"commit {commit[:12]}"


def _record(tx: Connection, automation: Automation, action: str, actor: str, **details: Any) -> None:
    assert automation.source is not None
    audit_log.record(tx, automation.project_id, actor, action, automation.id, file=automation.source.file, **details)
