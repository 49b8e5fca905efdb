"""A desk on each database, with one project, for tests of automations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from copydesk.automations.automation import Automation
from copydesk.automations.tables import automations
from copydesk.automations.triggers.scheduler import Scheduler
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.job import COMPLETED, Job
from copydesk.jobs.storage.tables import jobs, runs
from tests.support.repositories import make_repository

PROMPT = "Replace colour with color."


@dataclass(frozen=True)
class Bench:
    desk: Desk
    project: Project
    repository: Path

    def create(self, **values: Any) -> Automation:
        fields = {"name": "Nightly", "prompt": PROMPT, "trigger": {"type": "api"}, **values}
        return self.desk.automations.create(self.project, fields, actor="Ada")

    def run(self, automation: Automation) -> Job:
        fired = self.desk.automations.run_now(self.project, automation.id, actor="Ada")
        return self.desk.jobs.get(self.project.id, fired.job_id)

    def list_jobs(self) -> list[Job]:
        return self.desk.jobs.list_newest(self.project.id, 0, 1000)

    def read_data(self, job: Job) -> str:
        """Returns what Copydesk collected for the agent."""
        return self.desk.jobs.read_data(job.id)

    def load(self, automation: Automation) -> Automation:
        return self.desk.automations.get(self.project.id, automation.id).automation

    @property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.desk.database, self.desk.automations.firing)

    def make_due(self, automation: Automation, slot: int) -> None:
        """Sets the next slot of a schedule, as if the clock had moved on."""
        with self.desk.database.write() as tx:
            tx.execute(update(automations).where(automations.c.id == automation.id).values(next_slot_at=slot))

    def finish(self, job_id: str, pull_state: str | None = None, reason: str | None = None, **values: Any) -> None:
        """Ends a job as a worker would, with a pull request in this state or without one."""
        link = f"http://127.0.0.1/review/x/pulls/{abs(hash(job_id)) % 1000}" if pull_state else None
        with self.desk.database.write() as tx:
            ended = {"status": COMPLETED, "pr_link": link, "pull_state": pull_state, "reason": reason, **values}
            tx.execute(update(jobs).where(jobs.c.id == job_id).values(ended))
            tx.execute(update(runs).where(runs.c.job_id == job_id).values(state="done", reason=reason))
            tx.exec_driver_sql(
                f"update messages set run_id = (select max(id) from runs where job_id = '{job_id}') "
                f"where job_id = '{job_id}' and run_id is null"
            )


@pytest.fixture
def bench(migrated_url: str, tmp_path: Path) -> Iterator[Bench]:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    desk = open_desk_lazily(Settings(data=tmp_path / "data", database_url=migrated_url))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    yield Bench(desk, project, repository)
    desk.close()
