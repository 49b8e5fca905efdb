"""Stopping and resuming: a stop, a cancellation or a full slot fails, loses or delays no job."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text, update

from copydesk.core import clock
from copydesk.core.errors import StoreUnavailable
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.conversation import Conversation, Model, Prompt, Reply
from copydesk.jobs.execution import worker as worker_module
from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Claim, Queue, QueueLimits
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.job import FAILED, Job, JobOutcome, Reason
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import jobs
from copydesk.jobs.workflow.maintenance import archive_and_expire
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.bench import wait_until
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, finish

CLAIM = Claim("run", "job", "project", 1, 1, 0, 0, 0, "worker")


@pytest.fixture
def desk(migrated_url: str, tmp_path: Path) -> Iterator[Desk]:
    desk = open_desk(Settings(data=tmp_path / "data", database_url=migrated_url, project_slots=1, lease_seconds=60))
    yield desk
    desk.close()


@pytest.fixture
def project(desk: Desk, tmp_path: Path) -> Project:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    return desk.projects.create("Docs", repository=str(repository), ref="main", actor="ada")


class SlowGit:
    """A git that records its process, takes ten minutes, and then leaves a mark."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.done, program = tmp_path / "begun", tmp_path / "done", tmp_path / "bin" / "git"
        program.parent.mkdir()
        lines = ("#!/bin/sh", f"echo $$ > {self.begun}.new", f"mv {self.begun}.new {self.begun}", "sleep 600")
        program.write_text("\n".join([*lines, f"touch {self.done}", ""]))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def wait_until_begun(self) -> None:
        """Returns once the program runs."""
        wait_until(self.begun.exists)

    def check_without_effect(self) -> None:
        """Asserts that the program, if it ever started, is gone and left no mark."""
        if self.begun.exists():
            wait_until(lambda: not Path("/proc", self.begun.read_text().strip()).exists())
        assert not self.done.exists()


def test_stop_during_a_git_command_is_not_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git, attempt = SlowGit(tmp_path, monkeypatch), Attempt(CLAIM, 600)

    def stop_in_the_middle() -> None:
        git.wait_until_begun()
        attempt.stop()

    stopping = threading.Thread(target=stop_in_the_middle)
    stopping.start()
    with pytest.raises(AttemptStopped):
        Git("/srv/docs.git", stoppable=attempt.stoppable).run(None, "fetch")
    stopping.join()
    git.check_without_effect()


def test_git_command_after_a_stop_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git, attempt = SlowGit(tmp_path, monkeypatch), Attempt(CLAIM, 600)
    attempt.stop()
    with pytest.raises(AttemptStopped):
        Git("/srv/docs.git", stoppable=attempt.stoppable).run(None, "push")
    git.check_without_effect()


@contextmanager
def run_worker(desk: Desk, model: Model) -> Iterator[Worker]:
    worker = desk.create_worker(lambda _name: model)
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        yield worker
    finally:
        worker.stop()
        running.join()


def wait_for_end(desk: Desk, project: Project, job_id: str, seconds: float = 60) -> Job:
    until = time.monotonic() + seconds
    while (job := desk.jobs.get(project.id, job_id)).status == "active" and time.monotonic() < until:
        time.sleep(0.02)
    return job


@pytest.mark.deep
def test_freed_slot_is_used_immediately(desk: Desk, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MAX_POLL_SECONDS", 600)  # the worker then polls twice per lease, every 30 s
    with run_worker(desk, ScriptedModel([finish()])):
        began = time.monotonic()
        made = [desk.jobs.create(project, NewJob("x")).job.id for _ in range(4)]
        while any(desk.jobs.get(project.id, job_id).status == "active" for job_id in made):
            assert time.monotonic() - began < 60, "each waited for the next look instead of the last one's end"
            time.sleep(0.02)


@pytest.mark.deep
def test_unavailable_database_delays_a_run(desk: Desk, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = SealedSecrets.all, list[str]()

    def away_at_first(secrets: SealedSecrets, project_id: str) -> dict[str, str]:
        asked.append(project_id)
        if len(asked) == 1:
            raise StoreUnavailable
        return real(secrets, project_id)

    monkeypatch.setattr(SealedSecrets, "all", away_at_first)
    monkeypatch.setattr(worker_module, "MAX_POLL_SECONDS", 0.1)
    job = desk.jobs.create(project, NewJob("x")).job
    with run_worker(desk, ScriptedModel([finish()])):
        assert wait_for_end(desk, project, job.id).status == "completed"
    assert len(asked) > 1


def test_run_past_its_deadline_when_claimed_times_out(desk: Desk, project: Project) -> None:
    class Hanging(ScriptedModel):
        async def reply(self, _conversation: Conversation, _workspace: Workspace) -> Reply:
            await asyncio.sleep(600)
            raise AssertionError

    job = desk.jobs.create(project, NewJob("x")).job
    Queue(desk.database, QueueLimits(60_000, 4, 4)).claim("dead")
    with desk.database.write() as tx:
        hours = {"ago": 5 * clock.HOUR}
        tx.execute(text(f"update runs set started_at = {desk.database.clock_sql} - :ago, lease_until = 1"), hours)
        tx.execute(text(f"update runs set lease_until = {desk.database.clock_sql} - 1"))
    with run_worker(desk, Hanging([])):
        found = wait_for_end(desk, project, job.id)
    assert (found.status, found.reason) == ("failed", Reason.TIMED_OUT)


def test_run_is_released_when_no_thread_can_start(
    desk: Desk, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = threading.Thread.start, list[str]()

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("run_") and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(worker_module, "MAX_POLL_SECONDS", 0.1)
    monkeypatch.setattr(worker_module, "COOL_DOWN_SECONDS", 0.1)
    job = desk.jobs.create(project, NewJob("x")).job
    with run_worker(desk, ScriptedModel([finish()])):
        assert wait_for_end(desk, project, job.id).status == "completed"
    assert refused


def test_released_run_does_not_count_as_a_crash(desk: Desk, project: Project) -> None:
    desk.jobs.create(project, NewJob("x"))
    queue = Queue(desk.database, QueueLimits(60_000, 4, 4))
    for attempt in range(1, 9):
        claim = queue.claim("worker")
        assert claim is not None
        assert (claim.attempt, claim.crashes) == (attempt, 0)
        queue.release("worker", [claim.run_id])
    assert queue.claim("worker") is not None
    with desk.database.write() as tx:
        tx.execute(text("update runs set lease_until = 1"))
    again = queue.claim("worker")
    assert again is not None
    assert again.crashes == 1


def test_a_message_that_came_while_a_run_failed_starts_the_next_one(desk: Desk, project: Project) -> None:
    job = desk.jobs.create(project, NewJob("x")).job
    queue = Queue(desk.database, QueueLimits(60_000, 4, 4))
    claim = queue.claim("worker")
    assert claim is not None
    time.sleep(0.01)
    desk.jobs.add_message(project, job.id, "and this")
    Journal(desk.database, claim).finish_run(JobOutcome(FAILED, Reason.MODEL_ERROR, "away"))
    assert desk.jobs.get(project.id, job.id).status == "active"
    second = queue.claim("worker")
    assert second is not None
    Journal(desk.database, second).finish_run(JobOutcome(FAILED, Reason.MODEL_ERROR, "away"))
    assert desk.jobs.get(project.id, job.id).status == "failed", "and does not go on for ever"


def test_follow_up_sees_a_prompt_canceled_before_its_first_turn(desk: Desk, project: Project) -> None:
    seen: list[str] = []

    class Listening(ScriptedModel):
        async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
            seen.extend(entry.text for entry in conversation if isinstance(entry, Prompt))
            return await super().reply(conversation, workspace)

    job = desk.jobs.create(project, NewJob("Write about lanterns")).job
    desk.jobs.cancel(project.id, job.id)
    desk.jobs.add_message(project, job.id, "Go on after all")
    with run_worker(desk, Listening([finish()])):
        wait_for_end(desk, project, job.id)
    assert seen == ["Write about lanterns", "Go on after all"]


def test_old_job_is_archived_unless_a_person_unarchived_it(desk: Desk, project: Project) -> None:
    job = desk.jobs.create(project, NewJob("x")).job
    desk.jobs.cancel(project.id, job.id)
    archive_and_expire(desk.database, desk.settings)
    assert desk.jobs.get(project.id, job.id).status == "failed"
    long_ago = clock.now() - 31 * clock.DAY
    with desk.database.write() as tx:
        tx.execute(update(jobs).values(finished_at=long_ago, updated_at=long_ago))
    archive_and_expire(desk.database, desk.settings)
    assert desk.jobs.get(project.id, job.id).status == "archived"
    desk.jobs.unarchive(project.id, job.id)
    archive_and_expire(desk.database, desk.settings)
    assert desk.jobs.get(project.id, job.id).status == "failed"


def test_old_job_with_a_recent_message_is_not_archived(desk: Desk, project: Project) -> None:
    job = desk.jobs.create(project, NewJob("x")).job
    desk.jobs.cancel(project.id, job.id)
    long_ago = clock.now() - 31 * clock.DAY
    with desk.database.write() as tx:
        tx.execute(update(jobs).values(created_at=long_ago, finished_at=long_ago, updated_at=long_ago))
    desk.jobs.add_message(project, job.id, "and this")
    desk.jobs.cancel(project.id, job.id)
    archive_and_expire(desk.database, desk.settings)
    assert desk.jobs.get(project.id, job.id).status == "failed"


@pytest.mark.deep
def test_terminated_service_releases_its_jobs(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    desk = open_desk(Settings(data=tmp_path / "data"))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="ada")
    desk.jobs.create(project, NewJob("x"))
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nsleep 600\n")
    (slow / "git").chmod(0o755)
    environment = {"PATH": f"{slow}:{os.environ['PATH']}", "COPYDESK_DATA": str(tmp_path / "data")}
    command = [sys.executable, "-m", "copydesk", "serve", "--port", "0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    states = text("select state, released_at from runs")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with desk.database.read() as tx:
            if tx.execute(states).one().state == "running":
                break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    with desk.database.read() as tx:
        state, released_at = tx.execute(states).one()
        assert state == "running"
        assert released_at is not None
    desk.close()
