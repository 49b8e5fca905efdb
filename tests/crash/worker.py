"""A worker that is killed at a named point, `<step>:<moment>`: the real worker, with a watched journal and tools.

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
from tests.support.scripted_model import ScriptedModel, count_replies

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerOrders:
    """The instructions of a worker process, which writes its events to the file `diary`, line by line."""

    settings: dict[str, Any]
    diary_path: Path
    script: Sequence[Reply] | None
    """Replies of a model in the worker itself; None uses the job's model."""
    point: str | None = None
    signal: int = signal.SIGKILL
    path: str | None = None
    """The PATH for finding git."""
    slow: float = 0
    """After the signal: seconds of each model call; the next heartbeat is late by a third of it."""


@dataclass
class KillSwitch:
    """Tracks the step of each thread, and sends the signal once, at the ordered point."""

    orders: WorkerOrders
    is_triggered: bool = False
    was_late: bool = False
    thread_state: threading.local = field(default_factory=threading.local)
    writing: threading.RLock = field(default_factory=threading.RLock)
    """Prevents a pause in the middle of another thread's write, which would lock SQLite for all processes."""

    def record(self, line: str) -> None:
        with open(self.orders.diary_path, "a") as diary:
            diary.write(f"{line}\n")

    def enter(self, step: str) -> None:
        self.thread_state.step = step
        self.signal_at("before")

    def signal_at(self, moment: str) -> None:
        point = f"{getattr(self.thread_state, 'step', 'none')}:{moment}"
        if point == self.orders.point and not self.is_triggered:
            self.is_triggered = True
            self.record(f"reached {point}")
            with self.writing:
                os.kill(os.getpid(), self.orders.signal)
                time.sleep(0.1)  # a signal to the process may take effect a moment later; no further statement may run


def run_worker(orders: WorkerOrders) -> None:
    """Runs until it is killed."""
    fate = KillSwitch(orders)
    if orders.path is not None:
        os.environ["PATH"] = orders.path
    _install_watches(fate)
    desk = open_desk(Settings(**orders.settings))
    model = None if orders.script is None else WatchedModel(orders.script, fate=fate)
    worker = desk.create_worker(None if model is None else lambda _name: model)
    worker.executor = WatchedExecutor(worker.executor, fate)
    worker.run()


@dataclass
class WatchedModel(ScriptedModel):
    fate: KillSwitch = field(kw_only=True)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.fate.record(f"asked {count_replies(conversation)}")
        self.fate.signal_at("middle")
        if self.fate.is_triggered:
            await asyncio.sleep(self.fate.orders.slow)
        return await super().reply(conversation, workspace)


@dataclass
class WatchedExecutor:
    inner: Any
    fate: KillSwitch

    def execute(self, attempt: Attempt) -> None:
        self.fate.record(f"attempt {attempt.claim.attempt}")
        self.inner.execute(attempt)
        self.fate.record(f"left {attempt.claim.attempt}")

    def run_maintenance(self) -> None:
        self.inner.run_maintenance()

    def close(self) -> None:
        self.inner.close()


def _install_watches(fate: KillSwitch) -> None:
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
            fate.signal_at("recorded")

        def finish_run(self, outcome: JobOutcome, **values: Any) -> bool:
            fate.enter("settle")
            settled = super().finish_run(outcome, **values)
            fate.signal_at("recorded")
            return settled

    class WatchedStep(journal.Step[T]):
        def save(self, result: T, **options: Any) -> None:
            if self._tx is not None:
                super().save(result, **options)
                return
            fate.signal_at("acted")
            super().save(result, **options)
            fate.signal_at("recorded")

        @contextmanager
        def transaction(self) -> Iterator[Connection]:
            with super().transaction() as tx:
                yield tx
            fate.signal_at("recorded")

    class WatchedToolbox(Toolbox):
        def call(self, call: ToolCall) -> ToolResult:
            result = super().call(call)
            fate.signal_at("middle")
            return result

    really_claim, really_renew = queue.Queue.claim, queue.Queue.renew
    really_write, really_fetch = Database.write, Git.fetch

    def claim(self: queue.Queue, worker: str) -> queue.Claim | None:
        fate.enter("claim")
        return really_claim(self, worker)

    def renew(self: queue.Queue, worker: str, run_ids: Collection[str]) -> set[str]:
        if fate.is_triggered and not fate.was_late:
            fate.was_late = True
            time.sleep(fate.orders.slow / 3)
        return really_renew(self, worker, run_ids)

    @contextmanager
    def write(self: Database) -> Iterator[Connection]:
        with fate.writing, really_write(self) as tx:
            yield tx
            fate.signal_at("inside")

    def fetch(self: Git, folder: Path, refspecs: Sequence[str], **options: Any) -> None:
        really_fetch(self, folder, refspecs, **options)
        fate.signal_at("middle")

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
