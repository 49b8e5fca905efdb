"""A worker in this process, on a project of a fake forge, for tests of what goes wrong between the two."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from copydesk.core.projects import Project
from copydesk.desk import Desk
from copydesk.jobs.agent.conversation import Conversation, Model, Reply
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.service import NewJob
from copydesk.jobs.worker import Attempt, Workflow
from copydesk.jobs.workspace import Workspace
from tests.support.scripted import ScriptedModel, Turn

PATIENCE = 180.0


@dataclass
class Bench:
    fake: Any
    desk: Desk
    project: Project
    model: ScriptedModel
    left: threading.Event
    """Set when a run is over, whatever way it ended."""

    @property
    def pull(self) -> Any:
        [only] = self.fake.pulls
        return only

    def start(self, prompt: str = "Spell color so.", **options: Any) -> str:
        return self.desk.jobs.create(self.project, NewJob(prompt, **options)).job.id

    def done(self, prompt: str = "Spell color so.", **options: Any) -> Job:
        return self.end_of(self.start(prompt, **options))

    def followed_up(self, job: Job, prompt: str = "Name the other one too.") -> Job:
        self.desk.jobs.message(self.project, job.id, prompt)
        return self.end_of(job.id)

    def get(self, job_id: str) -> Job:
        return self.desk.jobs.get(self.project.id, job_id)

    def end_of(self, job_id: str) -> Job:
        wait_until(lambda: self.get(job_id).status is not ACTIVE)
        return self.get(job_id)

    def events(self, job_id: str, kind: str) -> list[Any]:
        """What the events of this kind say."""
        return [event.data for event in self.desk.jobs.events(self.project.id, job_id)[1] if event.kind == kind]


@contextmanager
def bench_on(
    fake: Any,
    desk: Desk,
    project: Project,
    *script: Turn,
    model: Model | None = None,
    haste: float = 1.0,
    minutes: float = 30,
) -> Iterator[Bench]:
    """`haste` divides the pauses that the workflow makes; `minutes` is what a job may take."""
    scripted, left = ScriptedModel(script), threading.Event()
    worker = desk.worker(lambda _name: model or scripted)
    worker.workflow, worker.job_seconds = _Watched(worker.workflow, haste, left), minutes * 60
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    try:
        yield Bench(fake, desk, project, scripted, left)
    finally:
        worker.stop()
        running.join()


@dataclass
class _Watched:
    inner: Workflow
    haste: float
    left: threading.Event

    def perform(self, attempt: Attempt) -> None:
        self.left.clear()
        self.inner.perform(_Hasty(attempt, self.haste))  # type: ignore[arg-type]
        self.left.set()

    def housekeeping(self) -> None:
        self.inner.housekeeping()

    def close(self) -> None:
        self.inner.close()


@dataclass
class _Hasty:
    """An attempt whose pauses are shorter than it was told."""

    inner: Attempt
    haste: float

    def pause(self, seconds: float) -> None:
        self.inner.pause(seconds / self.haste)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def meanwhile(act: Callable[[], object], turn: Turn) -> Turn:
    """The turn, and what somebody does while the model thinks about it."""

    def both(conversation: Conversation, workspace: Workspace) -> Reply:
        act()
        return turn if isinstance(turn, Reply) else turn(conversation, workspace)

    return both


def wait_until(happened: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """How long it took."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < seconds, "waited in vain"
        time.sleep(0.01)
    return time.monotonic() - began
