"""The fake Gitea and Forgejo, driven by pyforgejo: an independent client generated from the published schema."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pyforgejo import PyforgejoApi
from pyforgejo.core.api_error import ApiError

from tests.support.forges import forgejo, gitea
from tests.support.forges.gitea_published import operation
from tests.support.forges.receiver import receive_deliveries

pytestmark = pytest.mark.drill  # tests of the test tools

TOKEN, BRANCH = "gta_copydesk", "copydesk/job_1"
NEW = {"owner": "acme", "repo": "docs", "head": BRANCH, "base": "main", "title": "A guide"}
HERE = {"owner": "acme", "repo": "docs", "index": 1}


@pytest.fixture
def fake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[gitea]:
    """Forgejo; also Gitea in tests that request both, because they differ little."""
    with getattr(request, "param", forgejo)(tmp_path) as running:
        running.add_token(TOKEN)
        running.commit(BRANCH, {"guide.md": b"# Guide\n"})
        yield running
        assert running.violations == []


def connect_gitea(fake: gitea, token: str = TOKEN) -> PyforgejoApi:
    return PyforgejoApi(base_url=fake.api, api_key=token)


def catch_refusal(call: Any, **about: Any) -> tuple[int | None, str]:
    with pytest.raises(ApiError) as failure:
        call(**about)
    body: Any = failure.value.body
    return failure.value.status_code, body["message"] if isinstance(body, dict) else body


@pytest.mark.parametrize("fake", [gitea, forgejo], indirect=True)
def test_pull_request_can_be_opened_updated_and_merged(fake: gitea) -> None:
    client = connect_gitea(fake)
    repository, issue = client.repository, client.issue
    fake.add_user("reviewer")
    label = issue.create_label(owner="acme", repo="docs", name="docs", color="#00aabb")
    made = repository.repo_create_pull_request(**NEW, body="Text")
    assert (made.number, made.head and made.head.sha) == (1, fake.repository.heads()[BRANCH])
    found = repository.repo_get_pull_request_by_base_head(owner="acme", repo="docs", base="main", head=BRANCH)
    assert found.number == 1
    assert [pull.number for pull in repository.repo_list_pull_requests(owner="acme", repo="docs", state="open")] == [1]
    assert repository.repo_edit_pull_request(**HERE, title="WIP: The guide", body="More").draft is True
    issue.create_comment(**HERE, body="Done.")
    assert [one.body for one in issue.get_comments(**HERE)] == ["Done."]
    labels: Any = [label.id]
    assert [one.name for one in issue.add_label(**HERE, labels=labels)] == ["docs"]
    asked = repository.repo_create_pull_review_requests(**HERE, reviewers=["reviewer"])
    assert [one.state for one in asked] == ["REQUEST_REVIEW"]
    sha = fake.merge(1)
    got = repository.repo_get_pull_request(**HERE)
    assert (got.state, got.merged, got.merge_commit_sha, fake.repository.heads()["main"]) == ("closed", True, sha, sha)
    assert repository.repo_list_pull_requests(owner="acme", repo="docs", state="open") == []
    assert catch_refusal(repository.repo_edit_pull_request, **HERE, state="open")[0] == 412


def test_repository_and_people_match_the_published_schema(fake: gitea) -> None:
    fake.add_token(TOKEN, scopes=frozenset({"write:repository", "read:user"}))
    client = connect_gitea(fake)
    fake.add_user("reader", access="read")
    fake.add_user("owner", access="admin")
    fake.add_token("owners", user="owner")
    about = client.repository.repo_get(owner="acme", repo="docs")
    assert (about.default_branch, about.archived, about.permissions and about.permissions.push) == ("main", False, True)
    assert client.user.get_current().login == "copydesk"
    ask = {"owner": "acme", "repo": "docs", "collaborator": "reader"}
    assert catch_refusal(client.repository.repo_get_repo_permissions, **ask)[0] == 403
    assert connect_gitea(fake, "owners").repository.repo_get_repo_permissions(**ask).permission == "read"


def test_a_second_pull_request_of_a_branch_is_refused(fake: gitea) -> None:
    create = connect_gitea(fake).repository.repo_create_pull_request
    create(**NEW)
    status, said = catch_refusal(create, **NEW, request_options={"max_retries": 0})
    assert (status, said.startswith("pull request already exists for these targets [id: ")) == (409, True)


def test_a_pull_request_needs_two_branches(fake: gitea) -> None:
    create = connect_gitea(fake).repository.repo_create_pull_request
    assert catch_refusal(create, **{**NEW, "head": "gone"}) == (404, "The target couldn't be found.")
    assert catch_refusal(create, **{**NEW, "head": "main"})[0] == 422


def test_a_closed_pull_request_is_still_found_by_its_branches(fake: gitea) -> None:
    repository = connect_gitea(fake).repository
    repository.repo_create_pull_request(**NEW)
    repository.repo_edit_pull_request(**HERE, state="closed")
    by = {"owner": "acme", "repo": "docs", "base": "main", "head": BRANCH}
    assert repository.repo_get_pull_request_by_base_head(**by).state == "closed"
    assert repository.repo_edit_pull_request(**HERE, state="open").state == "open"
    fake.delete_branch(BRANCH)
    assert repository.repo_get_pull_request(**HERE).state == "closed"


def test_insufficient_tokens_are_refused_with_the_right_status(fake: gitea) -> None:
    fake.add_token("reader", scopes=frozenset({"read:repository"}))
    fake.add_user("stranger", access="none")
    fake.add_token("outside", user="stranger")
    fake.add_token("old", lasts=-1)
    status, said = catch_refusal(connect_gitea(fake, "reader").repository.repo_create_pull_request, **NEW)
    assert (status, "required=[write:repository]" in said) == (403, True)
    assert catch_refusal(connect_gitea(fake, "outside").repository.repo_get, owner="acme", repo="docs")[0] == 404
    assert catch_refusal(connect_gitea(fake, "old").repository.repo_get, owner="acme", repo="docs")[0] == 401
    fake.repository.archived = True
    assert catch_refusal(connect_gitea(fake).repository.repo_create_pull_request, **NEW)[0] == 423


def test_a_renamed_repository_redirects(fake: gitea) -> None:
    fake.rename("acme/docs", "acme/handbook")
    about = connect_gitea(fake).repository.repo_get(owner="acme", repo="docs")
    assert about.full_name == "acme/handbook"


@pytest.mark.parametrize("fake", [gitea, forgejo], indirect=True)
def test_webhooks_are_signed(fake: gitea) -> None:
    with receive_deliveries() as received:
        fake.webhooks.add(received.url, "sesame")
        connect_gitea(fake).repository.repo_create_pull_request(**NEW)
        fake.comment(1, "@copydesk shorter, please")
        fake.comment(1, "@copydesk this line", file="guide.md")
        fake.merge(1)
        fake.webhooks.flush()
        fake.webhooks.redeliver(fake.webhooks.deliveries[-1])
    kinds = [(headers["x-gitea-event"], headers["x-gitea-event-type"]) for headers, _ in received.deliveries]
    assert kinds == [
        ("pull_request", "pull_request"),
        ("issue_comment", "pull_request_comment"),
        ("pull_request_comment", "pull_request_review_comment"),
        *[("pull_request", "pull_request")] * 2,
    ]
    for headers, body in received.deliveries:
        assert headers["x-gitea-signature"] == hmac.new(b"sesame", body, hashlib.sha256).hexdigest()
        assert ("x-forgejo-event" in headers) == (fake.kind == "Forgejo")
    (first, body), (again, same) = received.deliveries[-2:]
    assert (json.loads(body)["action"], json.loads(body)["pull_request"]["merged"]) == ("closed", True)
    assert (body == same, first["x-gitea-delivery"] == again["x-gitea-delivery"]) == (True, False)


def test_every_route_is_in_the_published_api(fake: gitea) -> None:
    for one in fake.routes:
        line = f"{one.method} {one.path}".replace(":int", "").replace(":rest", "")
        assert operation(one.operation, one.method, one.path).line == line


def test_requests_outside_the_published_schema_are_refused_and_recorded(tmp_path: Path) -> None:
    with (
        gitea(tmp_path) as fake,
        httpx2.Client(base_url=fake.api, headers={"Authorization": f"token {TOKEN}"}, timeout=60) as http,
    ):
        fake.add_token(TOKEN)
        assert http.post("/repos/acme/docs/pulls", json={"head": 1}).status_code == 422
        assert http.get("/repos/acme/docs/pulls", params={"state": "opened"}).status_code == 422
        assert http.get("/repos/acme/docs/pulls", params={"head": "main"}).status_code == 200
        assert [one.partition(": ")[2] for one in fake.violations] == [
            "head: Input should be a valid string",
            "state: Input should be 'open', 'closed' or 'all'",
            "head: not described",
        ]
