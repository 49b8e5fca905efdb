"""Runs that append to an automation's pull request: each is dated in its text, and told in a comment."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from copydesk.automations.automation import TriggerEvent
from copydesk.automations.firing import Fired
from copydesk.core.text.reader_data import quote_reader_data
from copydesk.jobs.publish.pull_body import RunOrigin, render_origins
from copydesk.jobs.storage.message_origins import OriginCommit
from copydesk.jobs.storage.tables import runs, steps
from tests.jobs.publish.forges.stage import FILES, create_project, fake_forge
from tests.support.drills import mark_drills
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, Turn, edit, finish
from tests.support.service import Service, serve

MODEL = "openai:scripted"
FIRST_DAY = 1_794_873_600_000  # 2026-11-17
SCRIPT = (
    edit("docs/index.md", "colour", "color"),
    finish("Spell color so", "One word was changed."),
    edit("docs/other.md", "# Other", "# Another"),
    finish("Name the other", "A heading was changed. Thanks @ada, fixes #7."),
)


@dataclass
class Automated:
    service: Service
    automation_id: str
    fake: Any = None

    def run(self, key: str, text: str = "Now.", details: str = "", **event: Any) -> dict[str, Any]:
        """Fires a trigger and waits for its run."""
        firing = self.service.desk.automations.firing
        fired = firing.fire(self.service.project, self.automation_id, TriggerEvent(key, text, details=details, **event))
        assert isinstance(fired, Fired)
        return dict(self.service.client.wait(fired.job_id))

    def date_stored_round(self, number: int, at: int) -> None:
        """Moves what a run has stored of its request to another day."""
        is_opening = (runs.c.number == number) & (runs.c.id == steps.c.run_id) & (steps.c.name == "open")
        with self.service.desk.database.write() as tx:
            run_id, stored = tx.execute(select(steps.c.run_id, steps.c.result).where(is_opening)).one()
            opening = json.loads(stored)
            opening["round"]["requested_at"] = at
            is_step = (steps.c.run_id == run_id) & (steps.c.name == "open")
            tx.execute(update(steps).where(is_step).values(result=json.dumps(opening).encode()))

    @property
    def pull(self) -> Any:
        [only] = self.fake.pulls
        return only

    @property
    def comments(self) -> list[str]:
        return [comment.body for comment in self.pull.comments]


@contextmanager
def open_automated(folder: Path, kind: str = "", script: tuple[Turn, ...] = SCRIPT) -> Iterator[Automated]:
    """Serves a project with an automation that appends, on a fake forge of this kind, or on the local forge."""
    local = make_repository(folder / "docs.git", FILES)
    fields = {"name": "Nightly", "prompt": "Go.", "model": MODEL, "trigger": {"type": "api"}, "grouping": "append"}
    with serve(folder / "data", repository=local, model=lambda _name: ScriptedModel(script), models=[MODEL]) as service:
        if not kind:
            automation = service.desk.automations.create(service.project, fields, actor="test")
            yield Automated(service, automation.id)
            return
        with fake_forge(kind, folder / "forge") as fake:
            project = create_project(service.desk, kind, fake)
            key = service.desk.keys.create(project.id, actor="test")[1]
            automation = service.desk.automations.create(project, fields, actor="test")
            yield Automated(replace(service, project=project, key=key), automation.id, fake)


@pytest.fixture(params=mark_drills(("github", "gitlab", "gitea", "forgejo"), default=("github", "gitlab", "gitea")))
def automated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Automated]:
    with open_automated(tmp_path, request.param) as automated:
        yield automated


@pytest.mark.deep
def test_pull_request_and_comment_link_to_the_commits_that_started_the_run(automated: Automated) -> None:
    commit = OriginCommit(id="34e83d4" + "0" * 33, title="Fix #7 for @ada", url="https://forge.example/commit/34e83d4")
    event = {"commits": {"code": [commit.id]}, "newest_commits": [commit]}
    automated.run("1", "1 new commit in code.", "What changed since the last run.", **event)
    start = "1 new commit in code: [34e83d4](https://forge.example/commit/34e83d4) Fix "
    assert f"Started by the automation “Nightly”. {start}" in automated.pull.body
    automated.run("2", "1 new commit in code.", "What changed since the last run.", **event)
    [comment] = automated.comments
    assert f"What started it: {start}" in comment
    for text in (automated.pull.body, comment):
        assert "What changed since" not in text
        assert "Go." not in text
        assert "@ada" not in text
        assert "#7" not in text


def test_many_commits_are_counted_and_a_few_are_named() -> None:
    commits = [OriginCommit(id=str(number) * 40, title=f"Change {number}") for number in range(1, 4)]
    origin = RunOrigin(automation="Nightly", text="60 new commits in code.", commits=commits, has_more_commits=True)
    named = "1111111 Change 1; 2222222 Change 2; 3333333 Change 3; …"
    assert render_origins([origin]) == f"60 new commits in code: {named}"


@pytest.mark.deep
def test_appended_run_is_told_in_one_comment_and_the_first_in_none(automated: Automated) -> None:
    change = {"before": {"code": {"main": "a" * 40}}, "after": {"code": {"main": "b" * 40}}}
    automated.run("1")
    assert automated.comments == []
    job = automated.run("2", "3 new commits in code.", data=change, commits={"code": ["b" * 40]})
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    [comment] = automated.comments
    assert "The automation “Nightly” ran again on " in comment
    assert f"What started it: 3 new commits in code (code {'a' * 12}..{'b' * 12})." in comment
    assert "A heading was changed." in comment
    assert f"{automated.service.url}/projects/{automated.service.project.id}/jobs/{job['id']}" in comment
    assert "@ada" not in comment, "a model cannot mention people"
    assert "#7" not in comment


@pytest.mark.deep
def test_run_without_a_change_adds_no_comment(tmp_path: Path) -> None:
    script = (*SCRIPT[:2], finish("Nothing", "Nothing to change."))
    with open_automated(tmp_path, "github", script) as automated:
        automated.run("1")
        job = automated.run("2")
        assert (job["reason"], job["message"]) == (None, "Nothing to change.")
        assert automated.comments == []


@pytest.mark.deep
def test_follow_up_of_a_person_adds_no_comment(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        job = automated.run("1")
        automated.service.client.message_job(job["id"], "Name the other.")
        automated.service.client.wait(job["id"])
        assert "**Round 2**" in automated.pull.body
        assert automated.comments == []


@pytest.mark.deep
def test_pull_request_that_conflicts_gets_one_comment_and_the_run_a_pull_request_of_its_own(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        old = automated.run("1")
        automated.fake.commit("main", {"docs/index.md": b"# Hello\n\nAll colour, and more.\n"})
        automated.run("2")
        runs, _ = automated.service.desk.automations.list_runs(automated.service.project.id, automated.automation_id)
        new = automated.service.client.wait(runs[0].job_id)
        assert new["id"] != old["id"]
        first, second = automated.fake.pulls
        [comment] = [each.body for each in first.comments]
        page = f"{automated.service.url}/projects/{automated.service.project.id}/jobs/{new['id']}"
        assert (
            f"This pull request conflicts with main, so the automation's run went on in a new job: {page}." in comment
        )
        assert new["reason"] is None
        assert (new["prLink"] or "").endswith(f"/{second.number}")
        kept = automated.service.client.get_job(old["id"])
        assert (kept["status"], kept["reason"], kept["summary"]) == ("completed", None, old["summary"])


@pytest.mark.deep
def test_refused_comment_does_not_fail_the_run(tmp_path: Path) -> None:
    with open_automated(tmp_path, "gitea") as automated:
        automated.run("1")
        original = automated.fake.answer

        def refuse_comments(method: str, target: str, headers: Any, body: bytes) -> Any:
            if method == "POST" and target.endswith("/comments"):
                raise automated.fake.refusal(403)
            return original(method, target, headers, body)

        automated.fake.answer = refuse_comments
        job = automated.run("2")
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert "**Round 2**" in automated.pull.body


@pytest.mark.deep
def test_words_of_readers_are_in_no_comment(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        automated.run("1")
        automated.run("2", details=quote_reader_data(["my name is Zoe Quux"]))
        assert len(automated.comments) == 1
        assert "Zoe Quux" not in automated.comments[0] + automated.pull.body


@pytest.mark.deep
def test_rounds_have_the_day_of_their_request_and_what_started_them(tmp_path: Path) -> None:
    """On the local forge, which has no comments. The day of the first run is the one it has stored, not today."""
    with open_automated(tmp_path) as automated:
        automated.run("1", "Scheduled for 2026-11-17 00:00 UTC (0 0 * * *, UTC).")
        [pull] = automated.service.desk.pulls.list_for_project(automated.service.project.id)
        start = "Started by the automation “Nightly”. Scheduled for 2026-11-17 00:00 UTC (0 0 * * *, UTC)."
        assert f"\n\n{start}\n\n" in pull.body
        assert "> Go." not in pull.body, "the prompt is on the job's page"
        automated.date_stored_round(1, FIRST_DAY)
        automated.run("2", "Released: product v2 <img src=x>.")
        [pull] = automated.service.desk.pulls.list_for_project(automated.service.project.id)
        headings = re.findall(r"^\*\*Round.*$", pull.body, re.M)
        assert headings[0] == "**Round 1** · 2026-11-17 · Scheduled for 2026-11-17 00:00 UTC (0 0 * * *, UTC)."
        assert re.fullmatch(
            r"\*\*Round 2\*\* · 20\d\d-\d\d-\d\d · Released: product v2 <\u200bimg src=x>.", headings[1]
        )
