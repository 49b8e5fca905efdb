"""A project whose main branch moves between the runs of a job, worked on in this process by the mechanic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pygit2

from copydesk.automations.automation import Automation, AutomationRun
from copydesk.jobs.agent.conversation import Conversation, Reply
from copydesk.jobs.agent.mechanic.model import build_reply
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.job import Job
from copydesk.jobs.service import NewJob
from copydesk.jobs.workspace.workspace import Workspace
from tests.automations.conftest import PROMPT, Bench
from tests.support.repositories import commit, list_branches, read_file

OLD, NEW = b"# Page\n\nThe colour of things.\n", b"# Page\n\nThe color of things.\n"


@dataclass
class DirectMechanic:
    """The mechanic in this process. It calls `during` before its next answer, and `later` before the one after it."""

    name: str = "mechanic"
    during: Callable[[], Any] | None = None
    later: Callable[[], Any] | None = None

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        action, self.during, self.later = self.during, self.later, None
        if action:
            action()
        return build_reply(conversation, workspace)


@dataclass
class Pushes:
    bench: Bench
    sender: str
    """Who sends the messages: `automation` or `person`."""
    model: Any = field(default_factory=DirectMechanic)
    job_id: str = ""

    @cached_property
    def worker(self) -> Worker:
        return self.bench.desk.create_worker(lambda _name: self.model)

    @cached_property
    def automation(self) -> Automation:
        return self.bench.create(grouping="append")

    @cached_property
    def repository(self) -> pygit2.Repository:
        return pygit2.Repository(str(self.bench.repository))

    def run(self, prompt: str = PROMPT) -> Job:
        """Sends a message, which is the job's first or a further one, and works on it."""
        self.send(prompt)
        self.work()
        return self.job

    def send(self, prompt: str = PROMPT) -> None:
        desk, project = self.bench.desk, self.bench.project
        if self.sender == "automation":
            self.job_id = self.bench.run(self.automation).id
        elif self.job_id:
            desk.jobs.add_message(project, self.job_id, prompt)
        else:
            self.job_id = desk.jobs.create(project, NewJob(prompt)).job.id

    def work(self) -> None:
        """Works until no run waits."""
        while claim := self.worker.queue.claim(self.worker.id):
            self.worker.executor.execute(Attempt(claim, 120))

    def push(self, path: str = "docs/two.md", data: bytes = OLD, branch: str = "main") -> str:
        return commit(self.repository, {path: data}, branch=branch)

    def reset_main(self, to: str) -> None:
        self.repository.lookup_reference("refs/heads/main").set_target(to)

    @property
    def main(self) -> str:
        return list_branches(self.bench.repository)["main"]

    @property
    def job(self) -> Job:
        return self.bench.desk.jobs.get(self.bench.project.id, self.job_id)

    @property
    def head(self) -> pygit2.Commit:
        return self.repository[list_branches(self.bench.repository)[self.job.branch]].peel(pygit2.Commit)

    def read(self, path: str, job: Job | None = None) -> bytes | None:
        return read_file(self.bench.repository, (job or self.job).branch, path)

    def list_changed(self) -> list[str]:
        """Returns the paths that the job shows as changed."""
        return [file.path for file in self.bench.desk.jobs.changed_files([self.job_id])[self.job_id]]

    def list_runs(self) -> list[AutomationRun]:
        return self.bench.desk.automations.list_runs(self.bench.project.id, self.automation.id)[0]

    def read_pull(self) -> str:
        [pull] = [each for each in self.list_pulls() if each.job_id == self.job_id]
        return str(pull.body)

    def list_pulls(self) -> list[Any]:
        return list(self.bench.desk.pulls.list_for_project(self.bench.project.id))


@contextmanager
def open_pushes(bench: Bench, sender: str, model: Any = None) -> Iterator[Pushes]:
    pushes = Pushes(bench, sender, *([model] if model else []))
    try:
        yield pushes
    finally:
        pushes.worker.executor.close()
