"""Workers that are killed (kill -9) while main moves between an automation's runs: no pushed page is ever skipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2
import pytest
from sqlalchemy import func, select

from copydesk.automations.automation import AutomationRun, Outcome
from copydesk.automations.tables import automation_runs
from copydesk.automations.triggers.watch import RepositoryWatch
from copydesk.core import clock
from copydesk.jobs.job import COMPLETED, Job
from tests.conftest import DATABASES
from tests.crash.harness import CrashCase, open_case
from tests.support.drills import mark_drills
from tests.support.repositories import commit, list_branches, read_file

pytestmark = pytest.mark.deep

OLD, NEW = b"# Page\n\nThe colour of things.\n", b"# Page\n\nThe color of things.\n"
MERGE_KILL_POINTS = (
    *(f"pin:{moment}" for moment in ("before", "middle", "acted", "inside", "recorded")),
    *(f"opening:{moment}" for moment in ("before", "inside", "recorded")),
    "turn-1-inbox:inside",
    "turn-1-acts:recorded",
    *(f"commit:{moment}" for moment in ("acted", "inside", "recorded")),
    *(f"push:{moment}" for moment in ("before", "acted", "inside", "recorded")),
    *(f"open:{moment}" for moment in ("inside", "recorded")),
    *(f"settle:{moment}" for moment in ("before", "inside", "recorded")),
)
CONFLICT_KILL_POINTS = (
    *(f"pin:{moment}" for moment in ("acted", "inside", "recorded")),
    *(f"handover:{moment}" for moment in ("before", "inside", "recorded")),
    *(f"settle:{moment}" for moment in ("before", "inside", "recorded")),
)


@dataclass
class PushCase(CrashCase):
    """An automation that spells all pages of the project alike, whenever its branch moves."""

    automation_id: str = ""

    def begin(self) -> None:
        """Creates the automation, and lets its first run open a pull request."""
        self.script = None
        fields = {"name": "Spelling", "prompt": "Replace colour with color.", "grouping": "append",
                  "trigger": {"type": "content_update"}}  # fmt: skip
        self.automation_id = self.desk.automations.create(self.project, fields, actor="test").id
        self.look()
        self.push("docs/one.md")
        self.look()
        self.recover()

    def push(self, path: str, data: bytes = OLD) -> None:
        commit(pygit2.Repository(str(self.repository)), {path: data})

    def look(self) -> None:
        """Looks at the repository as a server does, without a quiet period."""
        RepositoryWatch(
            self.desk.database,
            self.desk.automations.firing,
            self.desk.list_watched_repositories,
            quiet_ms=0,
            lease_ms=60 * clock.SECOND,
        ).look()
        runs = self.list_runs()
        self.job_id = runs[0].job_id if runs else ""

    def list_runs(self) -> list[AutomationRun]:
        return self.desk.automations.list_runs(self.project.id, self.automation_id)[0]

    def list_jobs(self) -> list[Job]:
        """Returns the jobs, oldest first."""
        return self.desk.jobs.list_newest(self.project.id, 0, 100)[::-1]

    def read(self, job: Job, path: str) -> bytes | None:
        return read_file(self.repository, job.branch, path)

    def check_runs(self) -> None:
        """Asserts that each run ended well, began where the one before ended, and that the last saw the newest page."""
        runs = self.list_runs()[::-1]
        assert {run.outcome for run in runs} <= {Outcome.REVIEW_NEEDED, Outcome.NOTHING_TO_DO}
        with self.desk.database.read() as tx:
            assert tx.execute(select(func.count()).select_from(automation_runs)).scalar_one() == len(runs)
        ranges = [(run.trigger["before"][""]["main"], run.trigger["after"][""]["main"]) for run in runs]
        assert [before for before, _ in ranges[1:]] == [after for _, after in ranges[:-1]]
        assert ranges[-1][1] == list_branches(self.repository)["main"]


@pytest.fixture(params=DATABASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PushCase]:
    with open_case(request.param, tmp_path) as plain:
        case = PushCase(plain.folder, plain.desk, plain.settings, plain.project, plain.repository, plain.main)
        try:
            case.begin()
            yield case
        finally:
            case.close()


@pytest.mark.parametrize(
    "point", mark_drills(MERGE_KILL_POINTS, default=("pin:acted", "commit:recorded", "push:acted", "settle:inside"))
)
def test_page_pushed_before_during_and_after_a_killed_run_is_never_skipped(case: PushCase, point: str) -> None:
    case.push("docs/two.md")
    case.look()
    case.crash(point)
    case.push("docs/three.md")
    case.look()
    case.recover()
    case.look()
    case.recover()
    case.push("docs/four.md")
    case.look()
    case.recover()
    [job] = case.list_jobs()
    assert (job.status, job.reason) == (COMPLETED, None), job.message
    assert [case.read(job, f"docs/{name}.md") for name in ("one", "two", "three", "four")] == [NEW] * 4
    assert b"colour" not in (case.read(job, "docs/index.md") or b"")
    assert len(case.desk.pulls.list_for_project(case.project.id)) == 1
    case.check_runs()


@pytest.mark.parametrize(
    "point", mark_drills(CONFLICT_KILL_POINTS, default=("pin:recorded", "handover:inside", "handover:recorded"))
)
def test_killed_run_whose_base_conflicts_goes_on_in_exactly_one_new_job(case: PushCase, point: str) -> None:
    old = case.job
    case.push("docs/one.md", b"# Page\n\nThe colour of some things.\n")
    case.push("docs/two.md")
    case.look()
    assert case.job_id == old.id
    case.crash(point)
    case.recover()
    [kept, new] = case.list_jobs()
    case.job_id = new.id
    case.recover()
    case.push("docs/three.md")
    case.look()
    assert case.job_id == new.id
    case.recover()
    [kept, new] = case.list_jobs()
    assert (kept.id, kept.status, kept.reason, kept.head) == (old.id, COMPLETED, None, old.head)
    assert (new.status, new.reason) == (COMPLETED, None), new.message
    assert [case.read(new, f"docs/{name}.md") for name in ("two", "three")] == [NEW] * 2
    assert case.read(new, "docs/one.md") == b"# Page\n\nThe color of some things.\n"
    notices = [pull.body.count("conflicts with main") for pull in case.desk.pulls.list_for_project(case.project.id)]
    assert sorted(notices) == [0, 1]
    case.check_runs()
