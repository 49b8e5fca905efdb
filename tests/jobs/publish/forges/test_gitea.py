"""Rules of Gitea and Forgejo: their versions, paths, teams, renamed repositories and refusals."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.errors import ForgeRefused
from copydesk.jobs.publish.forges.forge import Credentials
from copydesk.jobs.publish.forges.registry import create_forge
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.repository_access import find_usable_branch
from tests.jobs.publish.forges.conftest import BRANCH, TOKEN, ForgeBench, make_project
from tests.jobs.publish.forges.extra_calls import FAKE_FORGES, OLDER_FORGES, OLDEST_GITEA, forge_kind
from tests.support.forges.gitea_swagger import REQUESTS

NEWEST, FORGEJO = "gitea-1.24", "forgejo-12"
OLDEST_AND_NEWEST = (OLDEST_GITEA, NEWEST, FORGEJO)
oldest_and_newest = pytest.mark.parametrize("desk", OLDEST_AND_NEWEST, indirect=True)
each_version = pytest.mark.parametrize(
    "desk",
    [pytest.param(name, marks=() if name in OLDEST_AND_NEWEST else pytest.mark.deep) for name in OLDER_FORGES],
    indirect=True,
)


@contextmanager
def open_bench(folder: Path, name: str = "gitea", **about: Any) -> Iterator[ForgeBench]:
    """A fake with other settings than those of the fixture `desk`."""
    with FAKE_FORGES[forge_kind(name)](folder, **about) as fake:
        fake.add_token(TOKEN)
        fake.commit(BRANCH, {"docs/index.md": b"# Hello\n"})
        project = make_project(forge_kind(name), fake.repository_url("acme/docs"))
        forge = create_forge(project, Credentials(token=TOKEN))
        yield ForgeBench(forge_kind(name), fake, forge)
        forge.close()
        assert fake.violations == []


# Versions.


@each_version
def test_job_has_one_pull_request_when_the_first_was_closed_or_merged_unnoticed(desk: ForgeBench) -> None:
    head = desk.publish().pull.head
    desk.fake.close(1)
    with pytest.raises(ForgeRefused, match="closed while the agent was working"):
        desk.publish(head=head)
    desk.fake.reopen(1)
    desk.fake.merge(1)
    desk.fake.delete_branch(BRANCH)
    assert desk.publish(head=head).pull.state == "merged"
    assert len(desk.fake.pulls) == 1


@each_version
def test_closed_pull_request_is_reopened_on_every_version(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    assert desk.publish("Again", "More.", known=1, asked_at=int(time.time() * 1000) + 10_000).pull.number == 1
    assert desk.fake.pull(1).state == "open"


@oldest_and_newest
def test_reopened_pull_request_that_lacks_the_push_is_noted(desk: ForgeBench) -> None:
    desk.publish()
    desk.fake.close(1)
    head = desk.fake.commit(BRANCH, {"docs/more.md": b"# More\n"})
    asked_at = int(time.time() * 1000) + 10_000
    [note] = desk.publish("Again", "More.", known=1, asked_at=asked_at, head=head).notes
    assert "shows only the commits that it had when it was closed" in note


@each_version
def test_write_permission_is_known_on_every_version(desk: ForgeBench) -> None:
    for access, may in (("write", True), ("read", False)):
        desk.fake.add_user(f"{access}r", access=access)
        assert desk.forge.can_write(f"{access}r") is may
    assert not desk.forge.can_write("nobody-here")


@pytest.mark.parametrize("desk", [OLDEST_GITEA], indirect=True)
def test_write_permission_that_an_old_organization_hides_is_refused_with_the_reason(desk: ForgeBench) -> None:
    desk.fake.organizations["acme"] = []
    with pytest.raises(ForgeRefused, match=r"who has write access.*Update Gitea to 1\.17"):
        desk.forge.can_write("rosa")


@pytest.mark.deep
def test_pull_request_closed_unnoticed_is_found_behind_many_newer_ones(tmp_path: Path) -> None:
    with open_bench(tmp_path, version="1.21.11") as desk:
        head = desk.publish().pull.head
        author = desk.fake.users["copydesk"]
        for number in range(70):
            branch = f"other-{number}"
            desk.fake.branch(branch)
            desk.fake.open(desk.fake.repository, author=author, head=branch, base="main", title=branch, body="")
            desk.fake.close(number + 2)
        desk.fake.merge(1)
        desk.fake.pull(1).updated = desk.fake.pull(2).created
        assert desk.publish(head=head).pull.number == 1


def test_server_whose_version_has_no_number_is_treated_as_an_old_one(tmp_path: Path) -> None:
    with open_bench(tmp_path, version="development") as desk:
        head = desk.publish().pull.head
        desk.fake.merge(1)
        desk.fake.delete_branch(BRANCH)
        assert desk.publish(head=head).pull.state == "merged"
        assert not any("/pulls/main/" in request.path for request in desk.fake.requests)
        assert desk.forge.find_access_problems(BRANCH) == []


def test_server_that_is_too_old_is_reported_with_both_versions(tmp_path: Path) -> None:
    with open_bench(tmp_path, version="1.15.11") as desk:
        [problem] = desk.forge.find_access_problems(BRANCH)
    assert "1.15.11" in problem
    assert "1.16" in problem


@oldest_and_newest
def test_supported_server_has_no_access_problems(desk: ForgeBench) -> None:
    assert desk.forge.find_access_problems(BRANCH) == []


# Every request is in Gitea's published description.


@oldest_and_newest
def test_every_request_is_in_the_published_description(desk: ForgeBench) -> None:
    """The fixture asserts that no request has a name, type or path that the description lacks."""
    desk.fake.repository.label("docs")
    desk.fake.add_user("rosa")
    head = desk.publish(labels=["docs", "no such"], reviewers=["rosa", "acme/writers"], draft=True).pull.head
    desk.publish("Fix all links", "More.", known=1)
    desk.forge.add_comment(1, "Noted.")
    desk.fake.comment(1, "Shorter, please.", file="docs/index.md", line=3)
    desk.forge.list_comments(1, 0)
    desk.forge.can_write("rosa")
    desk.forge.find_authors([str(head)])
    desk.forge.find_access_problems(BRANCH)
    desk.fake.close(1)
    desk.publish("Again", "More.", known=1, asked_at=int(time.time() * 1000) + 10_000)
    desk.forge.close_pull(1)
    desk.forge.reopen_pull(1)
    desk.fake.merge(1)
    desk.publish(head=head)
    desk.fake.users["copydesk"].access = "none"
    desk.forge.find_access_problems(BRANCH)
    sent = {_find_line(request.method, request.path) for request in desk.fake.requests}
    newer_only = {line for line, request in REQUESTS.items() if request.since > desk.fake.version}
    older_only = {"GET /repos/{owner}/{repo}/issues/{index}"} if desk.fake.version >= (1, 18) else set()
    assert sent == REQUESTS.keys() - newer_only - older_only


def _find_line(method: str, target: str) -> str:
    path = target.partition("?")[0].removeprefix("/api/v1")
    for line in sorted(REQUESTS, key=lambda line: ("{head}" in line, line.count("{"))):
        pattern = re.sub(r"\{(index|id)\}", r"\\d+", line.partition(" ")[2])
        pattern = re.sub(r"\{head\}", ".+", pattern)
        if method == line.partition(" ")[0] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return line
    raise AssertionError(f"{method} {path} is not published")


# Reviewers.


@oldest_and_newest
def test_team_that_a_persons_repository_drops_is_noted(desk: ForgeBench) -> None:
    published = desk.publish(reviewers=["acme/writers"])
    [note] = published.notes
    assert note.startswith("acme/writers could not be added as a reviewer: ")
    assert "organization" in note


@oldest_and_newest
def test_teams_and_people_that_were_requested_before_are_not_noted(desk: ForgeBench) -> None:
    """A worker that continues after a crash requests the same reviewers again."""
    desk.fake.organizations["acme"] = ["writers"]
    desk.fake.add_user("rosa")
    for _ in range(2):
        assert desk.publish(reviewers=["acme/writers", "rosa"]).notes == []
    assert desk.fake.requested_teams == {1: ["writers"]}


@oldest_and_newest
def test_unknown_team_is_noted_in_the_forges_words(desk: ForgeBench) -> None:
    desk.fake.organizations["acme"] = ["writers"]
    [note] = desk.publish(reviewers=["acme/editors"]).notes
    assert "Team 'editors' not exist" in note


# Renamed repositories and owners.


@each_version
def test_renamed_repository_is_named_with_the_command_that_follows_it(desk: ForgeBench) -> None:
    desk.fake.rename("acme/docs", "acme/handbook")
    with pytest.raises(ForgeRefused) as refused:
        desk.publish()
    command = f"copydesk project set repository={desk.fake.url}/acme/handbook"
    assert "has moved to acme/handbook" in str(refused.value)
    assert command in str(refused.value)
    assert desk.forge.find_access_problems(BRANCH) == [str(refused.value)]


@pytest.mark.parametrize("desk", ["gitea", "github"], indirect=True)
def test_git_says_that_a_repository_has_moved(desk: ForgeBench) -> None:
    git = Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token)
    desk.fake.rename("acme/docs", "acme/handbook")
    with pytest.raises(RepositoryFailed, match=r"moved.*copydesk project set repository=ADDRESS"):
        git.list_heads("HEAD")


# A forge below a path.


@pytest.mark.parametrize("name", ["gitea", "forgejo"])
def test_forge_below_a_path_is_used_like_any_other(tmp_path: Path, name: str) -> None:
    with open_bench(tmp_path, name, base_path="/tools/forge") as desk:
        assert desk.publish().pull.url == f"{desk.fake.url}/acme/docs/pulls/1"
        project = make_project(name, desk.fake.repository_url("acme/docs"))
        assert find_usable_branch(project, {"forge_token": TOKEN}, None) == "main"
        mirror = Mirror(tmp_path / "mirror.git", Git(project.repository, get_token=desk.forge.git_token))
        mirror.push(mirror.fetch_head(BRANCH), "copydesk/job_9", None)
        assert mirror.find_head("copydesk/job_9") == desk.fake.repository.heads()[BRANCH]
        desk.fake.rename("acme/docs", "acme/handbook")
        with pytest.raises(ForgeRefused, match=f"repository={desk.fake.url}/acme/handbook"):
            desk.publish()


# Refusals in plain words.


@each_version
def test_push_to_a_protected_branch_is_refused_in_plain_words(desk: ForgeBench, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "mirror.git", Git(desk.fake.repository_url("acme/docs"), get_token=desk.forge.git_token))
    head = mirror.fetch_head(BRANCH)
    desk.fake.faults.protect("copydesk/*")
    with pytest.raises(RepositoryFailed) as refused:
        mirror.push(head, "copydesk/job_9", None)
    message = str(refused.value)
    assert "Not allowed to push to protected branch copydesk/job_9" in message
    assert "branch_prefix" in message
    assert not any(noise in message for noise in ("remote", "pre-receive hook", "failed to push", "error:", "http"))


def read_publish_error(desk: ForgeBench) -> str:
    with pytest.raises(ForgeRefused) as refused:
        desk.publish("Fix all links", "More.", known=1)
    return str(refused.value)


@each_version
@pytest.mark.parametrize(
    "read_error", [read_publish_error, lambda desk: " ".join(desk.forge.find_access_problems(BRANCH))]
)
@pytest.mark.parametrize("private", [True, False])
def test_revoked_token_is_named_as_the_cause(
    desk: ForgeBench, read_error: Callable[[ForgeBench], str], private: bool
) -> None:
    desk.publish()
    desk.fake.repository.private = private
    desk.fake.revoke(TOKEN)
    message = read_error(desk)
    assert "rejected the token; it may have expired or been revoked" in message
    assert not any(
        noise in message for noise in ("user does not exist", "no repository", "write access", "answered 404")
    )


@oldest_and_newest
def test_repository_that_the_token_cannot_see_is_not_blamed_on_the_token(desk: ForgeBench) -> None:
    desk.fake.users["copydesk"].access = "none"
    [problem] = desk.forge.find_access_problems(BRANCH)
    assert "has no repository acme/docs, or the token has no access to it" in problem
