"""Where a run starts when the base branch or the job's branch has moved since the run before."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pygit2
import pytest

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Queue, QueueLimits
from copydesk.jobs.job import Job
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.service import NewJob
from copydesk.jobs.workflow.start_finder import StartFinder
from tests.support import migrated_databases
from tests.support.repositories import commit, list_branches, make_repository

PAGE = b"# Page\n\nThe colour of things.\n"


@dataclass
class Branches:
    """A job whose first run has pushed a branch, and the finder of its second run."""

    folder: Path
    desk: Desk
    project: Project
    job: Job
    journal: Journal

    def find_with(self, mirror: str = "mirror.git") -> StartFinder:
        address = str(self.folder / "docs.git")
        return StartFinder(
            self.journal, self.job, Mirror(self.folder / mirror, Git(address)), "Copydesk", "c@d.example"
        )

    @property
    def repository(self) -> pygit2.Repository:
        return pygit2.Repository(str(self.folder / "docs.git"))

    def push(self, path: str, data: bytes, branch: str = "main") -> str:
        return commit(self.repository, {path: data}, branch=branch)

    def begin_branch(self) -> str:
        self.repository.create_reference(
            f"refs/heads/{self.job.branch}", list_branches(self.folder / "docs.git")["main"]
        )
        return self.push("page.md", PAGE.replace(b"colour", b"color"), self.job.branch)


@pytest.fixture
def branches(tmp_path: Path) -> Iterator[Branches]:
    repository = make_repository(tmp_path / "docs.git", {"page.md": PAGE})
    desk = open_desk(Settings(data=tmp_path, database_url=migrated_databases.new_sqlite(tmp_path)))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    job = replace(desk.jobs.create(project, NewJob("Go.")).job, base=list_branches(repository)["main"])
    claim = Queue(desk.database, QueueLimits(60_000, 4, 100)).claim("test")
    assert claim is not None
    yield Branches(tmp_path, desk, project, job, Journal(desk.database, replace(claim, run_number=2)))
    desk.close()


def test_newest_base_is_merged_into_the_branch_and_gives_the_same_commit_everywhere(branches: Branches) -> None:
    head = branches.begin_branch()
    newest = branches.push("two.md", b"# Two\n")
    finder = branches.find_with()
    point = finder.find()
    assert (point.base, point.head, point.has_conflict) == (newest, head, False)
    assert point.merged == point.start
    merge = finder.mirror.repository[point.start].peel(pygit2.Commit)
    assert [str(parent.id) for parent in merge.parents] == [head, newest]
    assert {entry.name for entry in merge.tree} == {"page.md", "two.md"}
    branches.push("three.md", b"# Three\n")
    elsewhere = branches.find_with("another.git")
    elsewhere.restore(point)
    assert elsewhere.mirror.has_commit(point.start)


def test_branch_that_contains_the_base_stays_as_it_is(branches: Branches) -> None:
    head = branches.begin_branch()
    point = branches.find_with().find()
    assert (point.start, point.merged, point.base, point.notes) == (head, None, branches.job.base, ())


def test_branch_that_conflicts_stays_as_it_is_and_is_compared_with_what_it_contains(branches: Branches) -> None:
    head = branches.begin_branch()
    branches.push("page.md", b"# Page\n\nAll colours.\n")
    point = branches.find_with().find()
    assert (point.start, point.has_conflict, point.base) == (head, True, branches.job.base)


def test_base_that_was_reset_is_noted(branches: Branches) -> None:
    before = branches.job.base
    assert before is not None
    withdrawn = branches.push("secret.md", b"# Secret\n")
    branches.job = replace(branches.job, base=withdrawn)
    branches.begin_branch()
    branches.repository.lookup_reference("refs/heads/main").set_target(before)
    point = branches.find_with().find()
    assert point.base == before
    assert point.notes == (
        f"main was reset and no longer contains commit {withdrawn[:12]}, but this branch still does. Merging it brings "
        "that commit back to main.",
    )


def test_base_that_only_the_branch_still_has_is_found_on_another_machine(branches: Branches) -> None:
    branches.begin_branch()
    branches.repository.references.delete("refs/heads/main")
    branches.push("page.md", b"Another history.\n")
    point = branches.find_with().find()
    assert (point.base, point.has_conflict) == (branches.job.base, True)
    branches.find_with("other.git").restore(point)
