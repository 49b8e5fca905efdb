"""From a change of code to a pull request: context repository, watch, run, evidence and check, on one service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pygit2
import pytest
from sqlalchemy import update

from copydesk.automations.automation import Automation, Outcome
from copydesk.automations.tables import automation_sources
from copydesk.core import clock
from copydesk.jobs.agent.conversation import ToolResults
from copydesk.jobs.projects.context_repositories import NewContext
from tests.support.repositories import commit, list_branches, make_repository
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

MODEL = "openai:scripted"
DOCS = {"index.md": b"# Tool\n\nRun it with `--try-run`.\n"}
CODE = {"src/cli.py": b'parser.add_argument("--try-run")\n', "README.md": b"# Code\n"}
RENAMED = {"src/cli.py": b'parser.add_argument("--dry-run", help="Change nothing.")\n'}


class Pair:
    """A documentation project that watches a repository of code."""

    def __init__(self, service: Service, model: ScriptedModel, code: Path) -> None:
        self.service, self.model, self.code = service, model, code
        self.watch = service.desk.create_repository_watch()
        service.desk.contexts.add(service.project, NewContext("code", str(code)), actor="test")
        fields: dict[str, Any] = {
            "kind": "update_from_code",
            "model": MODEL,
            "trigger": {"type": "code_change", "repositories": ["code"], "paths": ["src/**"]},
        }
        self.automation: Automation = service.desk.automations.create(service.project, fields, actor="Ada")
        self.watch.look()

    def push(self, files: dict[str, bytes], message: str = "Change") -> str:
        return commit(pygit2.Repository(str(self.code)), files, message=message)

    def settle(self) -> None:
        """Looks, lets the quiet period pass, and looks again."""
        self.watch.look()
        quiet_ms = int(self.service.desk.settings.quiet_minutes * 60 * clock.SECOND)
        earlier = {name: automation_sources.c[name] - quiet_ms for name in ("pending_since", "changed_at")}
        with self.service.desk.database.write() as tx:
            tx.execute(update(automation_sources).values(earlier))
        self.watch.look()

    def list_finished_jobs(self) -> list[dict[str, Any]]:
        runs, _ = self.service.desk.automations.list_runs(self.service.project.id, self.automation.id)
        return [dict(self.service.client.wait(run.job_id)) for run in runs]

    def outcomes(self) -> list[Outcome]:
        runs, _ = self.service.desk.automations.list_runs(self.service.project.id, self.automation.id)
        return [run.outcome for run in runs]


@contextmanager
def open_pair(folder: Path, *script: Turn) -> Iterator[Pair]:
    model = ScriptedModel(list(script))
    repository = make_repository(folder / "docs.git", DOCS)
    code = make_repository(folder / "code.git", CODE)
    with serve(folder / "data", repository=repository, model=lambda _name: model, models=[MODEL]) as service:
        yield Pair(service, model, code)


def cite(quote: str) -> Turn:
    source = {"repository": "code", "path": "src/cli.py", "lines": "1", "quote": quote}
    citation = {"path": "index.md", "line": 3, "statement": "The flag is --dry-run.", "source": source}
    return calls(("finish", {"title": "Rename the flag", "summary": "As in the code.", "evidence": [citation]}))


@pytest.mark.deep
def test_renamed_flag_leads_to_an_edit_with_verified_evidence(tmp_path: Path) -> None:
    look = calls(("log", {"repository": "code", "limit": 1}), ("read", {"repository": "code", "path": "src/cli.py"}))
    change = edit("index.md", "--try-run", "--dry-run")
    with open_pair(tmp_path, look, change, cite('"--dry-run"')) as pair:
        head = pair.push(RENAMED, "Rename --try-run to --dry-run")
        pair.settle()
        [job] = pair.list_finished_jobs()
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert job["createdBy"] == {"kind": "automation", "name": "Update from code", "id": pair.automation.id}
        assert job["automation"] == pair.automation.id
        assert "Rename --try-run to --dry-run" in pair.service.desk.jobs.read_data(job["id"])
        [pull] = pair.service.desk.pulls.list_for_project(pair.service.project.id)
        start = (
            f"Started by the automation “Update from code”. 1 new commit in code: {head[:7]} Rename --try-run to --dry-"
        )
        assert start in pull.body
        assert "What changed since the last run" not in pull.body
        assert "**Request**" not in pull.body
        [evidence] = job["evidence"]
        assert (evidence["verified"], evidence["source"]["commit"]) == (True, head)
        assert pair.outcomes() == [Outcome.REVIEW_NEEDED]
        read = [entry for entry in pair.model.requests[1] if isinstance(entry, ToolResults)]
        assert "--dry-run" in read[0].results[1].text
        assert list_branches(pair.code) == {"main": head}, "the code is never written to"


@pytest.mark.deep
def test_invented_flag_is_found(tmp_path: Path) -> None:
    change = edit("index.md", "--try-run", "--simulate-all")
    with open_pair(tmp_path, change, *[finish()] * 5) as pair:
        pair.push(RENAMED, "Rename the flag")
        pair.settle()
        [job] = pair.list_finished_jobs()
        [names] = [check for check in job["checks"] if check["name"] == "unknown-name"]
        assert [finding["path"] for finding in names["findings"]] == ["index.md"]
        [pull] = pair.service.desk.pulls.list_for_project(pair.service.project.id)
        assert pull.draft


@pytest.mark.deep
def test_change_of_other_paths_ends_without_a_model_call(tmp_path: Path) -> None:
    with open_pair(tmp_path, finish()) as pair:
        pair.push({"README.md": b"# New\n"})
        pair.settle()
        [job] = pair.list_finished_jobs()
        assert (job["reason"], job["usage"]["requests"]) == ("no_changes", 0)
        assert pair.model.requests == []
        assert pair.outcomes() == [Outcome.NOTHING_TO_DO]


@pytest.mark.deep
def test_twenty_changes_within_a_quiet_period_make_one_run(tmp_path: Path) -> None:
    with open_pair(tmp_path, edit("index.md", "--try-run", "--dry-run"), cite('"--dry-run"')) as pair:
        for number in range(19):
            pair.push({f"src/part{number}.py": b"x = 1\n"}, f"Part {number}")
            pair.watch.look()
        pair.push(RENAMED, "Rename the flag")
        pair.settle()
        [job] = pair.list_finished_jobs()
        assert "Part 0" in pair.service.desk.jobs.read_data(job["id"])
        assert "Rename the flag" in pair.service.desk.jobs.read_data(job["id"])


@pytest.mark.deep
def test_next_change_continues_the_open_pull_request(tmp_path: Path) -> None:
    script = [
        edit("index.md", "--try-run", "--dry-run"),
        cite('"--dry-run"'),
        edit("index.md", "Run it", "Start it"),
        finish(),
    ]
    with open_pair(tmp_path, *script) as pair:
        pair.push(RENAMED, "Rename the flag")
        pair.settle()
        [first] = pair.list_finished_jobs()
        pair.push({"src/cli.py": RENAMED["src/cli.py"] + b"# start\n"}, "Say start")
        pair.settle()
        jobs = pair.list_finished_jobs()
        assert {job["id"] for job in jobs} == {first["id"]}
        [pull] = pair.service.desk.pulls.list_for_project(pair.service.project.id)
        assert (pull.state, jobs[0]["prLink"]) == ("open", first["prLink"])
