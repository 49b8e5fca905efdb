"""A worker in this process, on a project of a fake forge, for tests of failures between the two."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from copydesk.jobs.agent.conversation import Conversation, Model, Reply
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.worker import AttemptExecutor
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.service import NewJob
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.scripted_model import ScriptedModel, Turn

TIMEOUT_SECONDS = 180.0


@dataclass
class JobBench:
    fake: Any
    desk: Desk
    project: Project
    model: ScriptedModel
    raised_errors: threading.Event
    """Set when a run is over, in any way."""

    @property
    def pull(self) -> Any:
        [only] = self.fake.pulls
        return only

    def start(self, prompt: str = "Spell color so.", **options: Any) -> str:
        return self.desk.jobs.create(self.project, NewJob(prompt, **options)).job.id

    def run_job(self, prompt: str = "Spell color so.", **options: Any) -> Job:
        return self.wait_for_end(self.start(prompt, **options))

    def run_follow_up(self, job: Job, prompt: str = "Name the other one too.") -> Job:
        self.desk.jobs.add_message(self.project, job.id, prompt)
        return self.wait_for_end(job.id)

    def get(self, job_id: str) -> Job:
        return self.desk.jobs.get(self.project.id, job_id)

    def wait_for_end(self, job_id: str) -> Job:
        wait_until(lambda: self.get(job_id).status is not ACTIVE)
        return self.get(job_id)

    def events(self, job_id: str, kind: str) -> list[Any]:
        """Returns the data of the events of this kind."""
        return [event.data for event in self.desk.jobs.list_events(self.project.id, job_id)[1] if event.kind == kind]


@contextmanager
def start_bench(
    fake: Any,
    desk: Desk,
    project: Project,
    *script: Turn,
    model: Model | None = None,
    haste: float = 1.0,
    minutes: float = 30,
) -> Iterator[JobBench]:
    """Starts a worker. `haste` divides the pauses of the workflow; `minutes` is the time limit of a job."""
    scripted, left = ScriptedModel(script), threading.Event()
    worker = desk.create_worker(lambda _name: model or scripted)
    worker.executor, worker.job_seconds = _WatchedExecutor(worker.executor, haste, left), minutes * 60
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    try:
        yield JobBench(fake, desk, project, scripted, left)
    finally:
        worker.stop()
        running.join()


@dataclass
class _WatchedExecutor:
    inner: AttemptExecutor
    haste: float
    left: threading.Event

    def execute(self, attempt: Attempt) -> None:
        self.left.clear()
        self.inner.execute(_HastyAttempt(attempt, self.haste))  # type: ignore[arg-type]
        self.left.set()

    def run_maintenance(self) -> None:
        self.inner.run_maintenance()

    def close(self) -> None:
        self.inner.close()


@dataclass
class _HastyAttempt:
    """An attempt with shortened pauses."""

    inner: Attempt
    haste: float

    def pause(self, seconds: float) -> None:
        self.inner.pause(seconds / self.haste)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def act_during_turn(act: Callable[[], object], turn: Turn) -> Turn:
    """Returns a turn that runs `act` while the model works on it."""

    def both(conversation: Conversation, workspace: Workspace) -> Reply:
        act()
        return turn if isinstance(turn, Reply) else turn(conversation, workspace)

    return both


def wait_until(happened: Callable[[], bool], seconds: float = TIMEOUT_SECONDS) -> float:
    """Waits and returns the seconds that it took."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < seconds, "waited in vain"
        time.sleep(0.01)
    return time.monotonic() - began
