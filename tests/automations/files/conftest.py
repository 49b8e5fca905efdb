"""A project that reads automations from the files of its repository, and a watch that looks at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import FileMode
from sqlalchemy import update

from copydesk.automations.automation import Automation
from copydesk.automations.files.sync import FilesState
from copydesk.automations.tables import automation_sources
from copydesk.automations.triggers.watch import RepositoryWatch
from copydesk.core import clock
from tests.automations.conftest import Bench
from tests.support.repositories import AUTHOR

QUIET_MS = 10 * 60 * clock.SECOND
LINKS = ".copydesk/automations/links.md"
LINKS_TEXT = b"---\nkind: broken_links\nenabled: true\ndailyLimit: 5\n---\nOnly in docs/.\n"


@dataclass
class FilesBench:
    bench: Bench
    watch: RepositoryWatch

    def push(
        self,
        files: Mapping[str, bytes | None],
        message: str = "Change",
        *,
        branch: str = "main",
        mode: FileMode = FileMode.BLOB,
    ) -> str:
        """Commits files to a branch, which begins at main. None deletes a file."""
        repository = pygit2.Repository(str(self.bench.repository))
        ref = f"refs/heads/{branch}"
        base = ref if ref in repository.references else "refs/heads/main"
        parent = repository.lookup_reference(base).target
        index = pygit2.Index()
        index.read_tree(repository[parent].peel(pygit2.Tree))
        for path, data in files.items():
            if data is None:
                index.remove(path)
            else:
                index.add(pygit2.IndexEntry(path, repository.create_blob(data), mode))
        tree = index.write_tree(repository)
        commit = repository.create_commit(None, AUTHOR, AUTHOR, message, tree, [parent])
        repository.references.create(ref, commit, force=True)
        return str(commit)

    def push_and_look(self, files: Mapping[str, bytes | None], message: str = "Change") -> str:
        commit = self.push(files, message)
        self.watch.look()
        return commit

    def let_quiet_period_pass(self) -> None:
        earlier = {name: automation_sources.c[name] - QUIET_MS for name in ("pending_since", "changed_at")}
        with self.bench.desk.database.write() as tx:
            tx.execute(update(automation_sources).values(earlier))

    def settle(self) -> None:
        """Looks, waits until it is quiet, and looks again."""
        self.watch.look()
        self.let_quiet_period_pass()
        self.watch.look()

    def set(self, **settings: str) -> None:
        self.bench.desk.projects.change(self.bench.project.id, settings, actor="test")

    def list_all(self) -> list[Automation]:
        return [each.automation for each in self.bench.desk.automations.list_for_project(self.bench.project.id)]

    def only(self) -> Automation:
        [automation] = self.list_all()
        return automation

    @property
    def state(self) -> FilesState:
        return self.bench.desk.automation_files.get_state(self.bench.project.id)

    def problems(self) -> dict[str, list[str]]:
        """Returns the problems of each file that is not valid, by its name."""
        return {
            Path(file.path).name: [problem.message for problem in file.problems] for file in self.state.invalid_files
        }


@pytest.fixture
def files(bench: Bench) -> FilesBench:
    bench.desk.projects.change(bench.project.id, {"automation_files": "true"}, actor="test")
    watch = RepositoryWatch(
        bench.desk.database,
        bench.desk.automations.firing,
        bench.desk.list_watched_repositories,
        quiet_ms=QUIET_MS,
        lease_ms=60 * clock.SECOND,
        sync_files=bench.desk.automation_files.sync_all,
    )
    return FilesBench(bench, watch)
