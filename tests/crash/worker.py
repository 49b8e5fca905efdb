"""A worker that meets its end at a named point, `<step>:<moment>`: the real one, with its journal and tools watched.

Moments: `before` the act, in its `middle`, once it `acted`, `inside` the transaction that records it (everything
written, nothing committed), and once it is `recorded`.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from copydesk.core.db.database import Database
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.agent import loop
from copydesk.jobs.agent.conversation import Conversation, Reply, ToolCall, ToolResult
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.execution import journal, queue
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.job import JobOutcome, Phase
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.workflow import executor
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.scripted import ScriptedModel

T = TypeVar("T")


@dataclass(frozen=True)
class Orders:
    """What a worker process is told. It says what happened, line by line, in the file `diary`."""

    settings: dict[str, Any]
    diary: Path
    script: Sequence[Reply] | None
    """Replies of a model in the worker itself; None to use the model that the job names."""
    point: str | None = None
    signal: int = signal.SIGKILL
    path: str | None = None
    """The PATH where git is looked for."""
    slow: float = 0
    """After the signal: seconds that each model call takes; the next heartbeat is late by a third of it."""


@dataclass
class Fate:
    """Knows which step each thread is in, and strikes once, at the point of the orders."""

    orders: Orders
    met: bool = False
    was_late: bool = False
    here: threading.local = field(default_factory=threading.local)
    writing: threading.RLock = field(default_factory=threading.RLock)
    """Whoever is paused is not in the middle of another thread's write: no process could write to SQLite meanwhile."""

    def note(self, line: str) -> None:
        with open(self.orders.diary, "a") as diary:
            diary.write(f"{line}\n")

    def enter(self, step: str) -> None:
        self.here.step = step
        self.reach("before")

    def reach(self, moment: str) -> None:
        point = f"{getattr(self.here, 'step', 'none')}:{moment}"
        if point == self.orders.point and not self.met:
            self.met = True
            self.note(f"reached {point}")
            with self.writing:
                os.kill(os.getpid(), self.orders.signal)
                time.sleep(0.1)  # a signal to the process may take effect a moment later: not one statement further


def work(orders: Orders) -> None:
    """Runs until it is killed."""
    fate = Fate(orders)
    if orders.path is not None:
        os.environ["PATH"] = orders.path
    _watch(fate)
    desk = open_desk(Settings(**orders.settings))
    model = None if orders.script is None else WatchedModel(orders.script, fate=fate)
    worker = desk.create_worker(None if model is None else lambda _name: model)
    worker.executor = WatchedExecutor(worker.executor, fate)
    worker.run()


@dataclass
class WatchedModel(ScriptedModel):
    fate: Fate = field(kw_only=True)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.fate.note(f"asked {sum(isinstance(entry, Reply) for entry in conversation)}")
        self.fate.reach("middle")
        if self.fate.met:
            await asyncio.sleep(self.fate.orders.slow)
        return await super().reply(conversation, workspace)


@dataclass
class WatchedExecutor:
    inner: Any
    fate: Fate

    def execute(self, attempt: Attempt) -> None:
        self.fate.note(f"attempt {attempt.claim.attempt}")
        self.inner.execute(attempt)
        self.fate.note(f"left {attempt.claim.attempt}")

    def run_maintenance(self) -> None:
        self.inner.run_maintenance()

    def close(self) -> None:
        self.inner.close()


def _watch(fate: Fate) -> None:
    class WatchedJournal(journal.Journal):
        @contextmanager
        def step(self, name: str, result_type: type[T]) -> Iterator[journal.Step[T]]:
            if not self.has_result(name):
                fate.enter(name)
            with super().step(name, result_type) as step:
                yield step

        def enter_phase(self, phase: Phase) -> None:
            fate.enter(phase)
            super().enter_phase(phase)
            fate.reach("recorded")

        def finish_run(self, outcome: JobOutcome, **values: Any) -> bool:
            fate.enter("settle")
            settled = super().finish_run(outcome, **values)
            fate.reach("recorded")
            return settled

    class WatchedStep(journal.Step[T]):
        def save(self, result: T, **options: Any) -> None:
            if self._tx is not None:
                super().save(result, **options)
                return
            fate.reach("acted")
            super().save(result, **options)
            fate.reach("recorded")

        @contextmanager
        def transaction(self) -> Iterator[Connection]:
            with super().transaction() as tx:
                yield tx
            fate.reach("recorded")

    class WatchedToolbox(Toolbox):
        def call(self, call: ToolCall) -> ToolResult:
            result = super().call(call)
            fate.reach("middle")
            return result

    really_claim, really_renew = queue.Queue.claim, queue.Queue.renew
    really_write, really_fetch = Database.write, Git.fetch

    def claim(self: queue.Queue, worker: str) -> queue.Claim | None:
        fate.enter("claim")
        return really_claim(self, worker)

    def renew(self: queue.Queue, worker: str, run_ids: Collection[str]) -> set[str]:
        if fate.met and not fate.was_late:
            fate.was_late = True
            time.sleep(fate.orders.slow / 3)
        return really_renew(self, worker, run_ids)

    @contextmanager
    def write(self: Database) -> Iterator[Connection]:
        with fate.writing, really_write(self) as tx:
            yield tx
            fate.reach("inside")

    def fetch(self: Git, folder: Path, refspecs: Sequence[str], **options: Any) -> None:
        really_fetch(self, folder, refspecs, **options)
        fate.reach("middle")

    for owner, name, watched in (
        (executor, "Journal", WatchedJournal),
        (journal, "Step", WatchedStep),
        (loop, "Toolbox", WatchedToolbox),
        (queue.Queue, "claim", claim),
        (queue.Queue, "renew", renew),
        (Database, "write", write),
        (Git, "fetch", fetch),
    ):
        assert hasattr(owner, name)
        setattr(owner, name, watched)
