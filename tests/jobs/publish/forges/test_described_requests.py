"""Every request that an adapter can send is one that the forge's published API describes.

The fakes check each request against the description: GitHub's OpenAPI as generated into githubkit, Gitea's swagger as
generated into pyforgejo and as written down, and GitLab's OpenAPI as written down.
"""

from collections.abc import Callable

import pytest

from copydesk.jobs.publish.forges.forge import Forge, PlannedCommit, Proposal
from tests.jobs.publish.forges.conftest import BRANCH, ForgeBench
from tests.support.repositories import list_branches


def call_everything(desk: ForgeBench) -> set[str]:
    """Calls every method of the adapter; returns their names."""
    forge = desk.forge
    calls: dict[str, Callable[[], object]] = {
        "repository": lambda: forge.repository,
        "find_access_problems": lambda: forge.find_access_problems(BRANCH, PlannedCommit("docs@acme.org", "docs")),
        "open_pull": lambda: forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three.", draft=True)),
        "find_pulls": lambda: forge.find_pulls(BRANCH, "main"),
        "get_pull": lambda: forge.get_pull(1),
        "pull_contains": lambda: forge.pull_contains(1, "0" * 40),
        "ignores_pushes_while_closed": lambda: forge.ignores_pushes_while_closed,
        "update_pull": lambda: forge.update_pull(forge.get_pull(1), title="Fix all links", body="All."),
        "add_comment": lambda: forge.add_comment(1, "A comment."),
        "list_comments": lambda: forge.list_comments(1, 0),
        "has_comment": lambda: forge.has_comment(1, "A comment", 0),
        "add_labels": lambda: forge.add_labels(1, ["docs", "a/b c", "missing"]),
        "request_reviewers": lambda: forge.request_reviewers(1, ["rosa", "acme/writers", "nobody-here"]),
        "find_authors": lambda: forge.find_authors([list_branches(desk.fake.repository.folder)["main"]]),
        "can_write": lambda: forge.can_write("rosa"),
        "requires_review": lambda: forge.requires_review("main"),
        "is_token_new": lambda: forge.is_token_new(),
        "git_token": lambda: forge.git_token(),
        "close_pull": lambda: forge.close_pull(1),
        "reopen_pull": lambda: forge.reopen_pull(1),
        "close": lambda: forge.close(),
    }
    for call in calls.values():
        call()
    return set(calls)


def test_every_request_of_an_adapter_is_described(desk: ForgeBench) -> None:
    for label in ("docs", "a/b c"):
        desk.fake.repository.label(label)
    desk.fake.repository.teams = ("writers",)
    desk.fake.add_user("rosa")
    called = call_everything(desk)
    assert called == {name for name in vars(Forge) if not name.startswith("_")}
    assert desk.fake.violations == []


@pytest.mark.parametrize("desk", ["github", "gitlab", "gitea"], indirect=True)
def test_branch_and_label_with_a_slash_are_one_part_of_a_path(desk: ForgeBench) -> None:
    desk.fake.repository.label("a/b c")
    desk.forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three."))
    desk.forge.find_access_problems(BRANCH)
    assert desk.forge.add_labels(1, ["a/b c"]) == []
    branch_lines = [request.path for request in desk.fake.requests if "rules/branches" in request.path]
    assert all("copydesk%2Fjob_1" in line for line in branch_lines)
    assert bool(branch_lines) == (desk.kind == "github")
