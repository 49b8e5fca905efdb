"""Authors of the triggering commits are asked to review the pull request of an automation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
import pytest

from copydesk.jobs.projects.context_repositories import NewContext
from tests.automations.test_appended_runs import MODEL, Automated, open_automated
from tests.jobs.publish.forges.test_authors import push_as
from tests.support.drills import mark_drills
from tests.support.repositories import make_repository


def ask_authors(automated: Automated, **fields: Any) -> None:
    """Lets the automation ask authors, and adds the context repository `code` of the same forge."""
    service, fake = automated.service, automated.fake
    fake.add_repository("acme/code")
    fake.max_reviewers = 15
    service.desk.contexts.add(service.project, NewContext("code", fake.repository_url("acme/code")), actor="test")
    changes = {"reviewers": ["authors"], **fields}
    service.desk.automations.change(service.project, automated.automation_id, changes, actor="test")


def add_authors(automated: Automated, *logins: str, **about: Any) -> None:
    for login in logins:
        automated.fake.add_user(login, **about)
    automated.fake.published_addresses = frozenset(automated.fake.users)


def run_after(automated: Automated, key: str, *logins: str) -> dict[str, Any]:
    """Runs after commits by these people in the code."""
    commits = push_as(automated.fake.repositories["acme/code"].folder, *logins)
    return automated.run(key, f"{len(commits)} new commits in code.", commits={"code": commits})


def list_reviewers(automated: Automated) -> list[str]:
    return [user.login for user in automated.pull.reviewers]


def read_event(automated: Automated, job_id: str) -> list[dict[str, Any]]:
    _, events = automated.service.desk.jobs.list_events(automated.service.project.id, job_id)
    return [event.data for event in events if event.kind == "reviewers"]


@pytest.fixture(params=mark_drills(("github", "gitlab", "gitea", "forgejo"), default=("github", "gitlab", "gitea")))
def automated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Automated]:
    with open_automated(tmp_path, request.param) as automated:
        yield automated


@pytest.mark.deep
def test_authors_of_the_triggering_commits_are_asked(automated: Automated) -> None:
    ask_authors(automated)
    add_authors(automated, "rosa", "omar")
    job = run_after(automated, "1", "rosa", "stranger", "omar", "copydesk")
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    assert sorted(list_reviewers(automated)) == ["omar", "rosa"], "not the account of the token itself"
    assert read_event(automated, job["id"]) == [{"requested": ["omar", "rosa"], "notes": []}]
    add_authors(automated, "mia")
    run_after(automated, "2", "mia")
    assert sorted(list_reviewers(automated)) == ["mia", "omar", "rosa"], "a later run adds its authors"
    assert automated.fake.violations == []


@pytest.mark.deep
def test_author_without_access_is_skipped(automated: Automated) -> None:
    ask_authors(automated)
    add_authors(automated, "rosa")
    add_authors(automated, "guest", access="none")
    job = run_after(automated, "1", "rosa", "guest")
    assert (job["status"], job["reason"], job["message"]) == ("completed", None, None)
    assert list_reviewers(automated) == ["rosa"]
    [event] = read_event(automated, job["id"])
    assert event["requested"] == ["rosa"]
    assert [note.partition(":")[0] for note in event["notes"]] == ["guest could not be added as a reviewer"]


@pytest.mark.deep
def test_at_most_five_authors_are_asked(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        ask_authors(automated)
        logins = [f"dev{n}" for n in range(8)]
        add_authors(automated, *logins)
        job = run_after(automated, "1", *logins)
        assert list_reviewers(automated) == ["dev7", "dev6", "dev5", "dev4", "dev3"]
        [event] = read_event(automated, job["id"])
        assert event["notes"] == ["Only the newest 5 of 8 authors were asked."]


@pytest.mark.deep
def test_authors_on_another_host_are_not_asked(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        add_authors(automated, "ada")
        code = make_repository(tmp_path / "code.git", {"a.py": b"1\n"})
        service = automated.service
        service.desk.contexts.add(service.project, NewContext("code", str(code)), actor="test")
        changes = {"reviewers": ["authors"]}
        service.desk.automations.change(service.project, automated.automation_id, changes, actor="test")
        head = str(pygit2.Repository(str(code)).revparse_single("main").id)
        job = automated.run("1", commits={"code": [head]})
        assert (job["status"], list_reviewers(automated)) == ("completed", [])
        [event] = read_event(automated, job["id"])
        assert "not on the same forge" in event["notes"][0]


@pytest.mark.deep
def test_run_without_commits_asks_nobody_and_says_so(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        ask_authors(automated)
        job = automated.run("1", "Scheduled.")
        assert read_event(automated, job["id"]) == [
            {"requested": [], "notes": ["No commits started this run, so there are no authors to ask."]}
        ]


@pytest.mark.deep
def test_without_authors_in_the_reviewers_nobody_is_looked_up(tmp_path: Path) -> None:
    with open_automated(tmp_path, "github") as automated:
        ask_authors(automated, reviewers=[], model=MODEL)
        add_authors(automated, "rosa")
        job = run_after(automated, "1", "rosa")
        assert (list_reviewers(automated), read_event(automated, job["id"])) == ([], [])


@pytest.mark.deep
def test_refused_lookup_does_not_fail_the_run(tmp_path: Path) -> None:
    with open_automated(tmp_path, "gitlab") as automated:
        ask_authors(automated)
        automated.run("1", commits={"code": ["0" * 40], "gone": ["1" * 40]})
        [job] = automated.service.desk.jobs.list_newest(automated.service.project.id, 0, 5)
        assert (job.status, job.reason) == ("completed", None)
        [event] = read_event(automated, job.id)
        assert event["requested"] == []
        assert [note[:46] for note in event["notes"]] == [
            "The authors of the commits in code could not b",
            "The authors of the commits in gone could not b",
        ]
