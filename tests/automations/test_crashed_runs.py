"""Workers that are killed (kill -9) during a run of an automation: one pull request, to which later runs append."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select

from copydesk.automations.automation import Outcome, TriggerEvent
from copydesk.automations.firing import Fired
from copydesk.automations.tables import automation_runs
from tests.conftest import DATABASES
from tests.crash.harness import FILES_AFTER_FOLLOW_UP, CrashCase, open_case
from tests.crash.suite import FOLLOW_UP_KILL_POINTS, KILL_POINTS
from tests.support.drills import mark_drills
from tests.support.leases import expire_leases

SERVERS = 3


@dataclass
class RunCase(CrashCase):
    """A project with one automation. Its model follows a script."""

    automation_id: str = ""

    def fire(self, key: str) -> None:
        """Fires a trigger, several times, as several servers do."""
        if not self.automation_id:
            fields = {"name": "Nightly", "prompt": "Go.", "trigger": {"type": "api"}, "grouping": "append"}
            self.automation_id = self.desk.automations.create(self.project, fields, actor="test").id
        for _ in range(SERVERS):
            event = TriggerEvent(key, "Now.")
            fired = self.desk.automations.firing.fire(self.project, self.automation_id, event)
            assert isinstance(fired, Fired)
            self.job_id = fired.job_id

    def recover_with_three_servers(self) -> None:
        expire_leases(self.desk.database)
        servers = [self.start() for _ in range(SERVERS)]
        self.wait_for_end()
        for server in servers:
            server.kill()
            server.join()

    def check_runs(self, count: int) -> None:
        runs, _ = self.desk.automations.list_runs(self.project.id, self.automation_id)
        assert [(run.job_id, run.outcome) for run in runs] == [(self.job_id, Outcome.REVIEW_NEEDED)] * count
        with self.desk.database.read() as tx:
            assert tx.execute(select(func.count()).select_from(automation_runs)).scalar_one() == count


@pytest.fixture(params=DATABASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunCase]:
    with open_case(request.param, tmp_path) as plain:
        case = RunCase(plain.folder, plain.desk, plain.settings, plain.project, plain.repository, plain.main)
        try:
            yield case
        finally:
            case.close()


@pytest.mark.parametrize("point", mark_drills(KILL_POINTS, default=("claim:inside", "push:acted", "settle:inside")))
def test_killed_run_opens_one_pull_request(case: RunCase, point: str) -> None:
    case.fire("1")
    case.crash(point)
    case.recover_with_three_servers()
    case.check_published()
    case.check_runs(1)


@pytest.mark.deep
@pytest.mark.parametrize("point", mark_drills(FOLLOW_UP_KILL_POINTS, default=("pin:recorded", "push:acted")))
def test_killed_run_that_appends_continues_the_pull_request(case: RunCase, point: str) -> None:
    case.fire("1")
    case.recover()
    case.fire("2")
    case.crash(point)
    case.recover_with_three_servers()
    case.check_published(2, FILES_AFTER_FOLLOW_UP)
    case.check_runs(2)
