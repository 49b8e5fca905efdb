"""Workers that are killed (kill -9) while a run appends to a pull request: one comment for each appended run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from copydesk.automations.automation import TriggerEvent
from copydesk.automations.firing import Fired
from tests.conftest import DATABASE_NAMES
from tests.crash.forge_case import ForgeCrashCase
from tests.crash.harness import FILES_AFTER_FOLLOW_UP, FILES_BEFORE, open_new_desk
from tests.jobs.publish.forges.stage import create_project, fake_forge
from tests.support.drills import mark_drills
from tests.support.repositories import list_branches

FORGES = ("github", "gitlab", "gitea", "forgejo", "gitea-1.16")
KILL_POINTS = tuple(f"comment:{moment}" for moment in ("before", "acted", "inside", "recorded"))
KILL_POINTS += ("open:acted", "open:recorded", "reviewers:acted", "reviewers:inside", "settle:inside")


@dataclass
class CommentCase(ForgeCrashCase):
    automation_id: str = ""

    def fire(self, key: str) -> None:
        fired = self.desk.automations.firing.fire(self.project, self.automation_id, TriggerEvent(key, f"Event {key}."))
        assert isinstance(fired, Fired)
        self.job_id = fired.job_id

    def check_pull_request(self, runs: int) -> str:
        (pull,) = self.fake.pulls
        pull.update_heads()
        texts = [comment.body for comment in pull.comments]
        assert len(texts) == runs - 1
        assert all(f"What started it: Event {number}." in text for number, text in enumerate(texts, 2))
        assert pull.body.count("**Round ") == (runs if runs > 1 else 0)
        return str(pull.sha)


@pytest.fixture
def case(kind: str, database: str, tmp_path: Path) -> Iterator[CommentCase]:
    """A project whose automation has opened a pull request and fired again."""
    with (
        fake_forge(kind, tmp_path / "forge", FILES_BEFORE) as fake,
        open_new_desk(database, tmp_path) as (desk, settings),
    ):
        project = create_project(desk, kind, fake)
        fields = {"name": "Nightly", "prompt": "Go.", "trigger": {"type": "api"}, "grouping": "append",
                  "reviewers": ["authors"]}  # fmt: skip
        automation = desk.automations.create(project, fields, actor="test")
        repository = fake.repository.folder
        main = list_branches(repository)["main"]
        case = CommentCase(tmp_path, desk, settings, project, repository, main, fake=fake, automation_id=automation.id)
        try:
            case.fire("1")
            case.recover()
            case.check_published()
            case.fire("2")
            yield case
        finally:
            case.close()


def combine(points: tuple[str, ...], default: tuple[tuple[str, str, str], ...]) -> list[object]:
    return mark_drills(
        [(kind, base, point) for kind in FORGES for base in DATABASE_NAMES for point in points], default=default
    )


@pytest.mark.parametrize(
    ("kind", "database", "point"),
    combine(
        KILL_POINTS,
        (
            ("github", "sqlite", "comment:acted"),
            ("gitlab", "postgres", "comment:acted"),
            ("gitea", "sqlite", "comment:acted"),
            ("github", "postgres", "comment:inside"),
            ("github", "sqlite", "comment:before"),
        ),
    ),
)
def test_killed_run_that_appends_comments_once(case: CommentCase, point: str) -> None:
    case.crash(point)
    case.recover()
    case.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)


@pytest.mark.drill
@pytest.mark.parametrize(("kind", "database", "point"), combine(("comment:acted", "comment:inside"), ()))
def test_run_killed_twice_comments_once(case: CommentCase, point: str) -> None:
    case.crash(point)
    case.crash(point)
    case.recover()
    case.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)
