"""One job of one project, with its workers as separate processes, and the invariants after every crash."""

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pygit2
from sqlalchemy import select

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.conversation import Reply
from copydesk.jobs.job import ACTIVE, COMPLETED, Job
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import runs, steps
from copydesk.jobs.workspace.workspace import short_hash
from tests.crash.worker import WorkerOrders, run_worker
from tests.support import migrated_databases
from tests.support.leases import expire_leases
from tests.support.processes import forkserver
from tests.support.repositories import list_branches, make_repository
from tests.support.scripted_model import calls, finish

TIMEOUT_SECONDS = 180.0
LONG_LEASE_SECONDS = 60.0
"""Longer than any pause between two heartbeats, even on a busy machine."""
SHORT_LEASE_SECONDS = 1.0
"""For tests that wait until a lease expires."""

FILES_BEFORE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n", "docs/other.md": b"# Other\n"}
FILES_AFTER = {**FILES_BEFORE, "docs/index.md": b"# Hello\n\nThe color of things.\n", "docs/new.md": b"# New\n"}
FILES_AFTER_FOLLOW_UP = {**FILES_AFTER, "docs/new.md": b"# Newer\n"}


def edit_call(path: str, data: bytes, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "hash": short_hash(data), "replacements": [{"old": old, "new": new}]}


TWO_CALLS = (
    edit_call("docs/index.md", FILES_BEFORE["docs/index.md"], "colour", "color"),
    ("write", {"path": "docs/new.md", "content": "# New\n"}),
)
SCRIPT = (
    calls(*TWO_CALLS),
    finish(),
    calls(edit_call("docs/new.md", FILES_AFTER["docs/new.md"], "New", "Newer")),
    finish(),
)


@dataclass
class CrashCase:
    folder: Path
    desk: Desk
    settings: dict[str, Any]
    project: Project
    repository: Path
    main: str
    script: tuple[Reply, ...] | None = SCRIPT
    model: str = "mechanic"
    job_id: str = ""
    workers: list[ForkServerProcess] = field(default_factory=list)

    @property
    def job(self) -> Job:
        return self.desk.jobs.get(self.project.id, self.job_id)

    @property
    def branch(self) -> str:
        return f"copydesk/{self.job_id}"

    @property
    def head(self) -> str | None:
        return list_branches(self.repository).get(self.branch)

    def create(self) -> None:
        self.job_id = self.desk.jobs.create(self.project, NewJob("Spell color so.", model=self.model)).job.id

    def send_message(self) -> None:
        self.desk.jobs.add_message(self.project, self.job_id, "Make it newer.")

    def start(
        self,
        point: str | None = None,
        sent: int = signal.SIGKILL,
        git: Path | None = None,
        slow: float = 0,
        **settings: Any,
    ) -> ForkServerProcess:
        """Starts a worker that is sent this signal at that point, uses this git, or runs unharmed."""
        path = None if git is None else f"{git}:{os.environ['PATH']}"
        orders = WorkerOrders({**self.settings, **settings}, self.diary_file, self.script, point, sent, path, slow)
        worker = forkserver.Process(target=run_worker, args=(orders,), daemon=True)
        worker.start()
        self.workers.append(worker)
        return worker

    def crash(self, point: str | None = None, git: Path | None = None, **settings: Any) -> None:
        """Starts a worker and waits until it is killed; fails if it was not."""
        expire_leases(self.desk.database)
        worker = self.start(point, git=git, **settings)
        worker.join(TIMEOUT_SECONDS)
        assert worker.exitcode == -signal.SIGKILL, "the worker did not come to the point where it is killed"

    def recover(self, **settings: Any) -> None:
        """Lets an unharmed worker finish the job."""
        expire_leases(self.desk.database)
        worker = self.start(**settings)
        self.wait_for_end()
        worker.kill()
        worker.join()

    def wait_for_end(self) -> None:
        wait_until(lambda: self.job.status is not ACTIVE, "the job to end")

    def wait_for_line(self, line: str) -> None:
        wait_until(lambda: line in self.diary, f"'{line}'")

    @property
    def diary_file(self) -> Path:
        return self.folder / "diary"

    @property
    def diary(self) -> list[str]:
        return self.diary_file.read_text().splitlines() if self.diary_file.exists() else []

    @property
    def requests_by_turn(self) -> Counter[int]:
        """Counts the model requests for each reply of the conversation, starting at 0."""
        return Counter(int(line.removeprefix("asked ")) for line in self.diary if line.startswith("asked "))

    @property
    def count_recorded_replies(self) -> int:
        """Counts the replies in the journal."""
        query = select(steps.c.name).join(runs, runs.c.id == steps.c.run_id).where(runs.c.job_id == self.job_id)
        with self.desk.database.read() as tx:
            return sum(name.endswith("-reply") for name in tx.execute(query).scalars())

    def check_published(self, commits: int = 1, files: dict[str, bytes] = FILES_AFTER) -> None:
        """Asserts that the job is completed, with one pull request for one branch with exactly its changes."""
        job = self.job
        assert (job.status, job.reason) == (COMPLETED, None), (job.status, job.reason, job.message)
        head = self.check_pull_request(commits)
        assert list_branches(self.repository) == {"main": self.main, self.branch: head}
        assert job.head == head
        repository = pygit2.Repository(str(self.repository))
        above = [str(commit.id) for commit in repository.walk(head)]
        assert above.index(self.main) == commits
        assert _read_files(repository, head) == files
        _, events = self.desk.jobs.list_events(self.project.id, self.job_id)
        assert [event.seq for event in events] == list(range(1, job.last_event + 1))

    def check_pull_request(self, _runs: int) -> str:
        """Returns the head of the single pull request; subclasses check its text for this number of runs."""
        (pull,) = self.desk.pulls.list_for_project(self.project.id)
        assert self.job.pr_link == pull.link(self.desk.settings.base_url)
        return pull.head

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.join()
            worker.close()


@contextmanager
def open_new_desk(database: str, folder: Path, **settings: Any) -> Iterator[tuple[Desk, dict[str, Any]]]:
    """Opens a desk on a new database of this kind, and returns it with the settings of its workers."""
    url = migrated_databases.new_database(database, folder)
    desk_settings = {
        "data": folder / "data",
        "database_url": url,
        "lease_seconds": LONG_LEASE_SECONDS,
        "max_attempts": 5,
        **settings,
    }
    desk = open_desk(Settings(**desk_settings))
    try:
        yield desk, desk_settings
    finally:
        desk.close()


@contextmanager
def open_case(database: str, folder: Path, **settings: Any) -> Iterator[CrashCase]:
    """Opens a project with its repository."""
    with open_new_desk(database, folder, **settings) as (desk, desk_settings):
        repository = make_repository(folder / "docs.git", FILES_BEFORE)
        project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
        case = CrashCase(folder, desk, desk_settings, project, repository, list_branches(repository)["main"])
        try:
            yield case
        finally:
            case.close()


def wait_until(happened: Callable[[], bool], description: str, seconds: float = TIMEOUT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {description}"
        time.sleep(0.02)


GIT_WRAPPER = """#!/bin/sh
# Stands before git on the worker's PATH. Whatever else is asked of it, it is git.
worker=$PPID
case " $* " in
*" push "*) {killing} ;;
*) exec {git} "$@" ;;
esac
"""
KILL_COMMANDS = {
    "before": 'kill -9 "$worker"',
    "during": '{git} "$@" & kill -9 "$worker"; wait $!; echo "git ended" >>{diary}',
    "after": '{git} "$@"; kill -9 "$worker"',
    "long before": 'kill -9 "$worker"; sleep 3; {git} "$@"; echo "git ended" >>{diary}',
}


def write_killing_git(case: CrashCase, moment: str) -> Path:
    """Writes a folder with a git that kills its worker at a push."""
    folder, words = case.folder / "bin", {"git": shutil.which("git"), "diary": case.diary_file}
    folder.mkdir()
    (folder / "git").write_text(GIT_WRAPPER.format(killing=KILL_COMMANDS[moment].format(**words), **words))
    (folder / "git").chmod(0o755)
    return folder


def _read_files(repository: pygit2.Repository, commit: str) -> dict[str, bytes]:
    index = pygit2.Index()
    index.read_tree(repository[commit].peel(pygit2.Tree))
    return {entry.path: repository[entry.id].peel(pygit2.Blob).data for entry in index}
