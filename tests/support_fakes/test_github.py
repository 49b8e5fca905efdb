"""The fake GitHub, driven by githubkit: an independent client that parses every response by the published schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from githubkit.exception import GraphQLFailed
from githubkit.webhooks import verify

from tests.support.forges import github, github_published
from tests.support.forges.calls import Reply
from tests.support.forges.receiver import receive_deliveries
from tests.support_fakes.callers import BRANCH, NEW_PULL, TOKEN, catch_refusal, connect_github

pytestmark = pytest.mark.drill  # tests of the test tools


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[github]:
    with github(tmp_path) as running:
        running.add_token(TOKEN)
        running.commit(BRANCH, {"guide.md": b"# Guide\n"})
        yield running
        assert running.violations == []


@pytest.mark.parametrize("version", ["2022-11-28", "2026-03-10"])
def test_pull_request_can_be_opened_updated_and_merged(fake: github, version: str) -> None:
    hub = connect_github(fake)
    rest = hub.rest(version)
    fake.add_user("reviewer")
    made = rest.pulls.create(**NEW_PULL, body="Text", draft=True).parsed_data
    assert (made.number, made.draft, made.commits) == (1, True, 1)
    assert made.head.sha == fake.repository.heads()[BRANCH]
    assert [pull.number for pull in rest.pulls.list("acme", "docs", head=f"acme:{BRANCH}").parsed_data] == [1]
    assert rest.pulls.list("acme", "docs", head="acme:other").parsed_data == []
    assert rest.pulls.update("acme", "docs", 1, title="The guide", body="More").parsed_data.title == "The guide"
    rest.issues.create_comment("acme", "docs", 1, body="Done.")
    assert [one.body for one in rest.issues.list_comments("acme", "docs", 1).parsed_data] == ["Done."]
    assert [one.name for one in rest.issues.add_labels("acme", "docs", 1, labels=["docs"]).parsed_data] == ["docs"]
    asked = rest.pulls.request_reviewers("acme", "docs", 1, reviewers=["reviewer"]).parsed_data
    assert [user.login for user in asked.requested_reviewers] == ["reviewer"]
    sha = fake.merge(1)
    got = rest.pulls.get("acme", "docs", 1).parsed_data
    assert (got.state, got.merged, fake.repository.heads()["main"]) == ("closed", True, sha)
    assert rest.pulls.list("acme", "docs").parsed_data == []


def test_repository_and_people_match_the_published_schema(fake: github) -> None:
    hub = connect_github(fake)
    fake.add_user("reader", access="read")
    about = hub.rest.repos.get("acme", "docs").parsed_data
    assert (about.default_branch, about.archived, about.permissions.push) == ("main", False, True)
    assert hub.rest.users.get_authenticated().parsed_data.login == "copydesk"
    rights = hub.rest.repos.get_collaborator_permission_level("acme", "docs", "reader").parsed_data
    assert (rights.permission, rights.role_name) == ("read", "read")


def test_a_second_pull_request_of_a_branch_is_refused(fake: github) -> None:
    hub = connect_github(fake)
    hub.rest.pulls.create(**NEW_PULL)
    status, said, _ = catch_refusal(hub.rest.pulls.create, **NEW_PULL)
    wanted = f"A pull request already exists for acme:{BRANCH}."
    assert (status, said["errors"]) == (422, [{"resource": "PullRequest", "code": "custom", "message": wanted}])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"head": "gone"}, {"field": "head", "code": "invalid"}),
        ({"base": "gone"}, {"field": "base", "code": "invalid"}),
        ({"head": "same"}, {"code": "custom", "message": "No commits between main and same"}),
    ],
)
def test_a_pull_request_needs_two_branches_that_differ(
    fake: github, change: dict[str, str], error: dict[str, str]
) -> None:
    hub = connect_github(fake)
    fake.branch("same")
    status, said, _ = catch_refusal(hub.rest.pulls.create, **{**NEW_PULL, **change})
    assert (status, said["errors"]) == (422, [{"resource": "PullRequest", **error}])


def test_a_closed_pull_request_reopens_unless_its_branch_is_gone(fake: github) -> None:
    hub = connect_github(fake)
    hub.rest.pulls.create(**NEW_PULL)
    hub.rest.pulls.update("acme", "docs", 1, state="closed")
    assert hub.rest.pulls.update("acme", "docs", 1, state="open").parsed_data.state == "open"
    fake.delete_branch(BRANCH)
    assert hub.rest.pulls.get("acme", "docs", 1).parsed_data.state == "closed"
    status, said, _ = catch_refusal(hub.rest.pulls.update, "acme", "docs", 1, state="open")
    assert (status, said["errors"][0]["message"][-17:]) == (422, "has been deleted.")


def test_insufficient_tokens_are_refused_with_the_right_status(fake: github) -> None:
    fake.add_token("reader", scopes=frozenset({"metadata=read", "pull_requests=read"}))
    fake.add_user("stranger", access="none")
    fake.add_token("outside", user="stranger")
    fake.add_token("old", lasts=-1)
    fake.revoke(TOKEN)
    reader, outside, old, revoked = (connect_github(fake, value) for value in ("reader", "outside", "old", TOKEN))
    status, said, headers = catch_refusal(reader.rest.pulls.create, **NEW_PULL)
    assert (status, said["message"]) == (403, "Resource not accessible by personal access token")
    assert headers["x-accepted-github-permissions"] == "pull_requests=write"
    assert catch_refusal(outside.rest.repos.get, "acme", "docs")[:2][0] == 404
    assert catch_refusal(old.rest.repos.get, "acme", "docs")[1]["message"] == "Bad credentials"
    assert catch_refusal(revoked.rest.users.get_authenticated)[0] == 401


def test_archived_repositories_refuse_pull_requests(fake: github) -> None:
    fake.repository.archived = True
    hub = connect_github(fake)
    assert (
        catch_refusal(hub.rest.pulls.create, **NEW_PULL)[:2][1]["message"] == "Repository was archived so is read-only."
    )


def test_rate_limit_response_says_when_to_retry(fake: github) -> None:
    hub = connect_github(fake)
    fake.faults.rate_limit(reset_in=60)
    status, _, headers = catch_refusal(hub.rest.repos.get, "acme", "docs")
    assert (status, headers["x-ratelimit-remaining"]) == (403, "0")
    fake.faults.secondary_limit(retry_after=3, status=429, where="POST .*/pulls$")
    assert hub.rest.repos.get("acme", "docs").status_code == 200
    status, said, headers = catch_refusal(hub.rest.pulls.create, **NEW_PULL)
    assert (status, headers["retry-after"], "secondary" in said["message"]) == (429, "3", True)


def test_a_renamed_repository_redirects(fake: github) -> None:
    fake.rename("acme/docs", "acme/handbook")
    hub = connect_github(fake)
    assert hub.rest.repos.get("acme", "handbook").parsed_data.name == "handbook"
    answer = hub.rest.repos.get("acme", "docs")
    assert answer.parsed_data.full_name == "acme/handbook"
    assert [one.status for one in fake.requests][-2:] == [301, 200]


def test_drafts_are_marked_ready_with_graphql(fake: github) -> None:
    hub = connect_github(fake)
    made = hub.rest.pulls.create(**NEW_PULL, draft=True).parsed_data
    ready = (
        "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"
    )
    hub.graphql(ready, {"id": made.node_id})
    assert hub.rest.pulls.get("acme", "docs", 1).parsed_data.draft is False
    with pytest.raises(GraphQLFailed, match="Could not resolve to a node"):
        hub.graphql(ready, {"id": "PR_0"})


def test_lists_are_paginated(fake: github) -> None:
    hub = connect_github(fake)
    for number in range(3):
        fake.commit(f"b{number}", {f"{number}.md": b"x\n"})
        hub.rest.pulls.create("acme", "docs", head=f"b{number}", base="main", title="x")
    first = hub.rest.pulls.list("acme", "docs", per_page=2)
    assert [pull.number for pull in first.parsed_data] == [3, 2]
    assert 'rel="next"' in first.headers["link"]
    assert [pull.number for pull in hub.rest.pulls.list("acme", "docs", per_page=2, page=2).parsed_data] == [1]


def test_a_classic_token_shows_its_scope(fake: github) -> None:
    fake.add_token("classic", scopes=frozenset({"repo"}))
    hub = connect_github(fake, "classic")
    assert hub.rest.pulls.create(**NEW_PULL).headers["x-oauth-scopes"] == "repo"


def test_webhooks_are_signed_and_match_the_published_schema(fake: github) -> None:
    hub = connect_github(fake)
    with receive_deliveries() as received:
        fake.webhooks.add(received.url, "sesame")
        hub.rest.pulls.create(**NEW_PULL)
        fake.comment(1, "@copydesk shorter, please")
        fake.comment(1, "@copydesk this line", file="guide.md", line=1)
        fake.close(1)
        fake.reopen(1)
        fake.merge(1)
        fake.webhooks.flush()
        fake.webhooks.redeliver(fake.webhooks.deliveries[-1])
    names = [headers["x-github-event"] for headers, _ in received.deliveries]
    assert names == ["pull_request", "issue_comment", "pull_request_review_comment", *["pull_request"] * 4]
    for headers, body in received.deliveries:
        assert verify("sesame", body, headers["x-hub-signature-256"])
    last, again = received.deliveries[-2:]
    assert (last[0]["x-github-delivery"], last[1]) == (again[0]["x-github-delivery"], again[1])


def test_every_route_is_in_the_published_api(fake: github) -> None:
    lines = [(f"{one.method} {one.path}".replace(":int", ""), one.operation) for one in fake.routes]
    for line, name in lines:
        if name != "graphql":
            assert github_published.operation("2022-11-28", name).line == line


def test_requests_outside_the_published_schema_are_refused_and_recorded(tmp_path: Path) -> None:
    with github(tmp_path) as fake:
        fake.add_token(TOKEN)
        hub = connect_github(fake)
        status, said, _ = catch_refusal(
            hub.request, "POST", "/repos/acme/docs/pulls", json={"base": "main", "title": 1}
        )
        assert (status, '"head" wasn\'t supplied.' in said["message"]) == (422, True)
        hub.request("GET", "/repos/acme/docs/pulls", params={"haed": "x"})
        assert catch_refusal(hub.request, "GET", "/repos/acme/docs/nothing")[0] == 404
        assert [one.partition(": ")[2] for one in fake.violations] == [
            "title: Input should be a valid string",
            "head: Field required",
            "haed: not described",
            "no such call",
        ]


def test_response_outside_the_published_schema_fails_the_test(tmp_path: Path) -> None:
    class Broken(github):
        def get_user(self, call: Any) -> Reply:
            return Reply(200, {"login": "copydesk"})

    with pytest.raises(AssertionError, match="GET /user answered 200"), Broken(tmp_path) as fake:
        fake.add_token(TOKEN)
        connect_github(fake).request("GET", "/user")
