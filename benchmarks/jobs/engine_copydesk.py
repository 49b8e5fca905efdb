"""Runs one round on Copydesk's engine in a separate process: DATABASE_URL JOBS on the command line, JSON out."""

import json
import sys
import tempfile
import threading
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sqlalchemy import text

from benchmarks.jobs.engine_race import CONCURRENT_WORKFLOWS, STEPS_PER_WORKFLOW, EngineRound, run_race
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Claim, Queue, QueueLimits
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.job import COMPLETED, JobOutcome
from copydesk.jobs.service import NewJob

UNLIMITED = 1_000_000_000
MARK_MESSAGES_PROCESSED = text("update messages set run_id = :run where job_id = :job and run_id is null")


class TrivialExecutor:
    """Marks the job's message as processed in its first step: a job with an unprocessed message runs again."""

    def __init__(self, database: Database, ended: threading.Semaphore) -> None:
        self.database, self.ended = database, ended

    def execute(self, attempt: Attempt) -> None:
        try:
            self._run_steps(Journal(self.database, attempt.claim), attempt.claim)
        finally:
            self.ended.release()

    def _run_steps(self, journal: Journal, claim: Claim) -> None:
        with journal.step("step-0", int) as step, step.transaction() as tx:
            tx.execute(MARK_MESSAGES_PROCESSED, {"job": claim.job_id, "run": claim.run_id})
            step.save(0)
        for number in range(1, STEPS_PER_WORKFLOW):
            journal.run_step(f"step-{number}", int, partial(int, number))
        journal.finish_run(JobOutcome(COMPLETED))

    def run_maintenance(self) -> None: ...

    def close(self) -> None: ...


def run_round(database_url: str, jobs: int, data: Path) -> EngineRound:
    desk = open_desk(Settings(data=data, database_url=database_url, jobs_per_hour=UNLIMITED))
    project = desk.projects.create("Trivial", repository=str(data), ref="main", actor="benchmark")
    ended = threading.Semaphore(0)
    bounds = QueueLimits(10 * SECOND, project_slots=CONCURRENT_WORKFLOWS, total_slots=CONCURRENT_WORKFLOWS)
    worker = Worker(
        Queue(desk.database, bounds), TrivialExecutor(desk.database, ended), slots=CONCURRENT_WORKFLOWS, job_seconds=60
    )
    thread = threading.Thread(target=worker.run)
    thread.start()

    def assert_completed(job_id: str) -> None:
        assert desk.jobs.get(project.id, job_id).status is COMPLETED

    try:
        return run_race(jobs, lambda: desk.jobs.create(project, NewJob("Trivial")).job.id, ended, assert_completed)
    finally:
        worker.stop()
        thread.join()
        desk.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(run_round(sys.argv[1], int(sys.argv[2]), Path(folder)))))
