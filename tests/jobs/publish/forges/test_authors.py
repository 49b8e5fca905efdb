"""The authors of commits, as each forge knows them."""

from pathlib import Path

import pygit2
import pytest

from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Proposal
from tests.jobs.publish.forges.conftest import BRANCH, ForgeBench
from tests.support.repositories import commit


def push_as(folder: Path, *logins: str) -> list[str]:
    """Commits once for each login. Returns the commits, newest first."""
    repository = pygit2.Repository(str(folder))
    ids = [
        commit(repository, {f"{n}.md": b"x\n"}, author=pygit2.Signature(login, f"{login}@example.org", n + 1, 0))
        for n, login in enumerate(logins)
    ]
    return ids[::-1]


def publish_addresses(desk: ForgeBench, *logins: str) -> None:
    """Lets GitLab's search find these people. The other forges need no search."""
    if desk.kind == "gitlab":
        desk.fake.published_addresses = frozenset(logins)


def test_authors_are_accounts_without_bots_newest_first(desk: ForgeBench) -> None:
    for login in ("rosa", "omar", "renovate[bot]", "ci-bot"):
        desk.fake.add_user(login, kind="Bot" if login.endswith("[bot]") else "User")
    publish_addresses(desk, "rosa", "omar", "ci-bot")
    commits = push_as(desk.fake.repository.folder, "zoe", "rosa", "omar", "renovate[bot]", "ci-bot", "rosa", "stranger")
    assert desk.forge.find_authors(commits[:-1]) == ["rosa", "omar"]
    assert desk.forge.find_authors([commits[2]]) == []
    assert desk.fake.violations == []


def test_twenty_commits_cost_one_list(desk: ForgeBench) -> None:
    desk.fake.add_user("rosa")
    publish_addresses(desk, "rosa")
    commits = push_as(desk.fake.repository.folder, *["rosa"] * 20)
    before = len(desk.fake.requests)
    assert desk.forge.find_authors(commits) == ["rosa"]
    assert len(desk.fake.requests) - before == (2 if desk.kind == "gitlab" else 1)


def test_unknown_commit_is_refused(desk: ForgeBench) -> None:
    with pytest.raises(ForgeRefused):
        desk.forge.find_authors(["0" * 40])


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_gitlab_names_the_author_of_the_merge_request_if_the_address_is_private(desk: ForgeBench) -> None:
    rosa = desk.fake.add_user("rosa")
    repository = desk.fake.repository
    head = desk.fake.commit("feature", {"a.md": b"a\n"})
    desk.fake.open(repository, author=rosa, head="feature", base="main", title="A", body="")
    assert desk.forge.find_authors([head]) == [], "an open merge request is not how the commit came"
    desk.fake.merge(1)
    assert desk.forge.find_authors([head]) == ["rosa"]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_gitlab_keeps_the_reviewers_that_are_there(desk: ForgeBench) -> None:
    desk.fake.max_reviewers = 5
    for login in ("rosa", "omar"):
        desk.fake.add_user(login)
    desk.forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    assert desk.forge.request_reviewers(1, ["rosa"]) == []
    assert desk.forge.request_reviewers(1, ["omar"]) == []
    assert [user.login for user in desk.fake.pulls[0].reviewers] == ["rosa", "omar"]


def test_pull_request_names_the_account_that_opened_it(desk: ForgeBench) -> None:
    opened = desk.forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    assert desk.forge.get_pull(opened.number).author == desk.fake.pulls[0].author.login
