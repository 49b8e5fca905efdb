"""Where an automation begins to watch: at the commits that its repositories have when it is created."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
import pytest
from sqlalchemy import select

from copydesk.automations.automation import Automation
from copydesk.automations.tables import automation_runs, automation_sources, look_requests
from copydesk.automations.triggers.watch import RepositoryWatch
from copydesk.jobs.projects.context_repositories import NewContext
from tests.automations.conftest import Bench
from tests.support.repositories import commit, make_repository


@dataclass
class StartBench:
    bench: Bench
    code: Path

    def push(self, message: str, *, docs: bool = False) -> str:
        path = self.bench.repository if docs else self.code
        return commit(pygit2.Repository(str(path)), {"page.md": message.encode()}, message=message)

    def tag(self, name: str) -> None:
        repository = pygit2.Repository(str(self.code))
        repository.create_reference(f"refs/tags/{name}", repository.lookup_reference("refs/heads/main").target)

    def create(self, enabled: bool = True, **trigger: Any) -> Automation:
        return self.bench.create(trigger=trigger, grouping="new", enabled=enabled)

    def change(self, automation: Automation, **values: Any) -> None:
        self.bench.desk.automations.change(self.bench.project, automation.id, values, actor="Ada")

    def look(self) -> None:
        desk = self.bench.desk
        listing = desk.list_watched_repositories
        RepositoryWatch(desk.database, desk.automations.firing, listing, quiet_ms=0, lease_ms=1000).look()

    def read(self, table: Any, automation: Automation) -> list[Any]:
        with self.bench.desk.database.read() as tx:
            query = select(table).where(table.c.automation_id == automation.id)
            return list(tx.execute(query))

    def list_ends(self, automation: Automation) -> list[Any]:
        """Returns the commits or tags that the runs cover."""
        self.look()
        return [run.trigger["after"] for run in self.read(automation_runs, automation)]

    def due_looks(self) -> list[str]:
        with self.bench.desk.database.read() as tx:
            return list(tx.execute(select(look_requests.c.name).where(look_requests.c.due_at.is_not(None))).scalars())


@pytest.fixture
def start(bench: Bench, tmp_path: Path) -> StartBench:
    code = make_repository(tmp_path / "code.git", {"src/cli.py": b"--port\n"})
    bench.desk.contexts.add(bench.project, NewContext("code", str(code)), actor="test")
    return StartBench(bench, code)


@pytest.mark.deep
def test_commit_between_creation_and_first_look_starts_a_run(start: StartBench) -> None:
    start.push("Before")
    code, docs = start.create(type="code_change"), start.create(type="content_update")
    code_head, docs_head = start.push("After"), start.push("After", docs=True)
    assert start.list_ends(code) == [{"code": {"main": code_head}}]
    assert start.list_ends(docs) == [{"": {"main": docs_head}}]
    [run] = start.read(automation_runs, code)
    assert run.trigger["text"] == "1 new commit in code."


def test_commit_before_creation_starts_no_run(start: StartBench) -> None:
    start.push("Before")
    automation = start.create(type="code_change")
    assert start.list_ends(automation) == []


def test_tag_between_creation_and_first_look_starts_a_run(start: StartBench) -> None:
    start.tag("v1")
    automation = start.create(type="release", tags="v*")
    start.tag("v2")
    start.tag("nightly")
    start.look()
    assert [run.trigger["tags"] for run in start.read(automation_runs, automation)] == [["code v2"]]


def test_automation_begins_when_it_is_first_enabled(start: StartBench) -> None:
    automation = start.create(enabled=False, type="code_change")
    assert start.read(automation_sources, automation) == []
    start.push("While it is disabled")
    start.change(automation, enabled=True)
    head = start.push("Afterwards")
    start.look()
    [run] = start.read(automation_runs, automation)
    assert (run.trigger["text"], run.trigger["after"]) == ("1 new commit in code.", {"code": {"main": head}})


def test_changes_while_an_automation_is_switched_off_are_in_its_next_run(start: StartBench) -> None:
    automation = start.create(type="code_change")
    start.change(automation, enabled=False)
    start.push("While it is off")
    start.change(automation, enabled=True)
    start.look()
    [run] = start.read(automation_runs, automation)
    assert run.trigger["text"] == "1 new commit in code."


@pytest.mark.deep
def test_another_type_of_trigger_begins_anew(start: StartBench) -> None:
    automation = start.create(type="code_change")
    start.push("Nobody wants to know")
    start.tag("v1")
    start.change(automation, trigger={"type": "release"})
    start.tag("v2")
    start.look()
    assert [run.trigger["tags"] for run in start.read(automation_runs, automation)] == [["code v2"]]
    start.push("Nor this")
    start.change(automation, trigger={"type": "code_change"})
    head = start.push("But this")
    assert start.list_ends(automation)[1:] == [{"code": {"main": head}}]


def test_other_paths_keep_what_was_seen(start: StartBench) -> None:
    automation = start.create(type="code_change")
    head = start.push("Before the change of paths")
    start.change(automation, trigger={"type": "code_change", "paths": ["**"]})
    assert start.list_ends(automation) == [{"code": {"main": head}}]


def test_unreadable_repository_begins_with_a_first_look_that_is_due_at_once(start: StartBench) -> None:
    hidden = start.code.rename(start.code.with_suffix(".hidden"))
    automation = start.create(type="code_change")
    assert start.due_looks() == ["code"]
    hidden.rename(start.code)
    assert start.list_ends(automation) == []
    head = start.push("After the first look")
    assert start.list_ends(automation) == [{"code": {"main": head}}]
