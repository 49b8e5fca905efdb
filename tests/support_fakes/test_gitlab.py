"""The fake GitLab, driven by python-gitlab: an independent client."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gitlab as independent
import pytest

from tests.support.forges import gitlab
from tests.support.forges.gitlab_published import OPERATIONS
from tests.support.forges.receiver import receive_deliveries

pytestmark = pytest.mark.drill  # tests of the test tools

TOKEN, BRANCH, PROJECT = "glpat-copydesk", "copydesk/job_1", "acme/web/docs"
NEW = {"source_branch": BRANCH, "target_branch": "main", "title": "A guide"}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[gitlab]:
    with gitlab(tmp_path, repository=PROJECT) as running:
        running.add_token(TOKEN)
        running.commit(BRANCH, {"guide.md": b"# Guide\n"})
        yield running
        assert running.violations == []


def connect_gitlab(fake: gitlab, token: str = TOKEN) -> Any:
    return independent.Gitlab(fake.url, private_token=token, retry_transient_errors=False)


def catch_refusal(call: Any, *args: Any, **about: Any) -> tuple[int | None, Any]:
    with pytest.raises(independent.GitlabError) as failure:
        call(*args, **about)
    body = failure.value.response_body
    return failure.value.response_code, json.loads(body) if body else failure.value.error_message


def test_merge_request_can_be_opened_updated_and_merged(fake: gitlab) -> None:
    project = connect_gitlab(fake).projects.get(PROJECT)
    reviewer = fake.add_user("reviewer")
    assert connect_gitlab(fake).users.list(username="reviewer")[0].id == reviewer.id
    made = project.mergerequests.create(
        {**NEW, "description": "Text", "labels": ["docs"], "reviewer_ids": [reviewer.id]}
    )
    assert (made.iid, made.sha, made.labels) == (1, fake.repository.heads()[BRANCH], ["docs"])
    assert [one["username"] for one in made.reviewers] == ["reviewer"]
    assert [one.iid for one in project.mergerequests.list(source_branch=BRANCH, state="opened")] == [1]
    assert project.mergerequests.list(source_branch="other", get_all=True) == []
    project.mergerequests.update(1, {"title": "Draft: The guide"})
    assert (project.mergerequests.get(1).title, project.mergerequests.get(1).draft) == ("Draft: The guide", True)
    made.notes.create({"body": "Done."})
    assert [note.body for note in made.notes.list(get_all=True)] == ["Done."]
    sha = fake.merge(1)
    got = project.mergerequests.get(1)
    assert (got.state, got.merge_commit_sha, fake.repository.heads()["main"]) == ("merged", sha, sha)
    assert project.mergerequests.list(state="opened", get_all=True) == []


def test_project_and_people_match_the_published_schema(fake: gitlab) -> None:
    client = connect_gitlab(fake)
    reader = fake.add_user("reader", access="read")
    project = client.projects.get(PROJECT)
    assert (project.default_branch, project.archived, project.namespace["full_path"]) == ("main", False, "acme/web")
    assert project.permissions["project_access"]["access_level"] == 30
    assert project.members_all.get(reader.id).access_level == 20
    assert {one.username for one in project.members_all.list(get_all=True)} == {"copydesk", "reader"}
    assert catch_refusal(project.members_all.get, 1)[0] == 404
    client.auth()
    assert (client.user.username, client.personal_access_tokens.get("self").scopes[0]) == ("copydesk", "api")


def test_a_second_merge_request_of_a_branch_is_refused(fake: gitlab) -> None:
    requests = connect_gitlab(fake).projects.get(PROJECT).mergerequests
    requests.create(NEW)
    said = "Another open merge request already exists for this source branch: !1"
    assert catch_refusal(requests.create, NEW) == (409, {"message": [said]})


def test_a_merge_request_needs_two_branches(fake: gitlab) -> None:
    requests = connect_gitlab(fake).projects.get(PROJECT).mergerequests
    gone = catch_refusal(requests.create, {**NEW, "source_branch": "gone"})
    assert gone == (400, {"message": {"source_branch": ["does not exist"]}})
    assert catch_refusal(requests.create, {**NEW, "source_branch": "main"})[0] == 422


def test_a_merge_request_outlives_its_branch_but_does_not_reopen(fake: gitlab) -> None:
    requests = connect_gitlab(fake).projects.get(PROJECT).mergerequests
    requests.create(NEW)
    fake.delete_branch(BRANCH)
    assert requests.get(1).state == "opened"
    requests.update(1, {"state_event": "close"})
    assert requests.get(1).state == "closed"
    requests.update(1, {"state_event": "reopen"})
    assert requests.get(1).state == "closed"


def test_insufficient_tokens_are_refused_with_the_right_status(fake: gitlab) -> None:
    fake.add_token("reader", scopes=frozenset({"read_api"}))
    fake.add_user("stranger", access="none")
    fake.add_token("outside", user="stranger")
    fake.add_token("old", lasts=-1)
    fake.add_user("guest", access="read")
    fake.add_token("guests", user="guest")
    status, said = catch_refusal(connect_gitlab(fake, "reader").projects.get(PROJECT).mergerequests.create, NEW)
    assert (status, said["error"], said["scope"]) == (403, "insufficient_scope", "api")
    assert catch_refusal(connect_gitlab(fake, "outside").projects.get, PROJECT) == (
        404,
        {"message": "404 Project Not Found"},
    )
    assert catch_refusal(connect_gitlab(fake, "old").projects.get, PROJECT)[1]["error"] == "invalid_token"
    assert catch_refusal(connect_gitlab(fake, "unknown").projects.get, PROJECT) == (
        401,
        {"message": "401 Unauthorized"},
    )
    assert catch_refusal(connect_gitlab(fake, "guests").projects.get(PROJECT).mergerequests.create, NEW)[0] == 403
    project = connect_gitlab(fake).projects.get(PROJECT)
    fake.repository.archived = True
    assert catch_refusal(project.mergerequests.create, NEW) == (403, {"message": "403 Forbidden"})


def test_rate_limit_response_says_when_to_retry(fake: gitlab) -> None:
    client = independent.Gitlab(fake.url, private_token=TOKEN)
    fake.faults.secondary_limit(retry_after=0)
    assert client.projects.get(PROJECT).id == fake.repository.id
    assert [one.status for one in fake.requests] == [429, 200]


def test_moved_project_redirects_only_reads(fake: gitlab) -> None:
    project = connect_gitlab(fake).projects.get(PROJECT)
    fake.rename(PROJECT, "acme/handbook")
    assert project.mergerequests.create(NEW).iid == 1
    old = connect_gitlab(fake).projects.get(PROJECT, lazy=True)
    assert catch_refusal(old.mergerequests.create, NEW)[0] == 405
    assert connect_gitlab(fake).projects.get(PROJECT).path_with_namespace == "acme/handbook"


@pytest.mark.parametrize("signed", [True, False])
def test_webhooks_carry_their_secret_or_are_signed_with_it(fake: gitlab, signed: bool) -> None:
    key = b"0" * 32
    with receive_deliveries() as received:
        fake.webhooks.add(received.url, f"whsec_{base64.b64encode(key).decode()}" if signed else "sesame")
        connect_gitlab(fake).projects.get(PROJECT).mergerequests.create(NEW)
        fake.comment(1, "@copydesk shorter, please")
        fake.comment(1, "@copydesk this line", file="guide.md")
        fake.close(1)
        fake.reopen(1)
        fake.merge(1)
        fake.webhooks.flush()
        fake.webhooks.redeliver(fake.webhooks.deliveries[-1])
    said = [json.loads(body)["object_attributes"] for _, body in received.deliveries]
    assert [one["action"] for one in said] == ["open", "create", "create", "close", "reopen", "merge", "merge"]
    for headers, body in received.deliveries:
        if signed:
            text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            mark = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
            assert headers["webhook-signature"] == f"v1,{mark}"
        else:
            assert headers["x-gitlab-token"] == "sesame"
    assert {headers["x-gitlab-event"] for headers, _ in received.deliveries} == {"Merge Request Hook", "Note Hook"}
    assert received.deliveries[-1][0]["idempotency-key"] == received.deliveries[-2][0]["idempotency-key"]


def test_every_route_is_in_the_operations_table(fake: gitlab) -> None:
    lines = [f"{one.method} {one.path}".replace(":int", "") for one in fake.routes]
    assert lines == [one.operation for one in fake.routes]
    assert set(lines) == set(OPERATIONS)


def test_requests_outside_the_published_schema_are_refused_and_recorded(tmp_path: Path) -> None:
    with gitlab(tmp_path) as fake:
        fake.add_token(TOKEN)
        requests = connect_gitlab(fake).projects.get("acme/docs").mergerequests
        assert catch_refusal(
            connect_gitlab(fake).http_post, "/projects/acme%2Fdocs/merge_requests", post_data={"title": 1}
        ) == (
            400,
            {"error": "title is invalid, source_branch is missing, target_branch is missing"},
        )
        assert catch_refusal(requests.list, state="open")[1] == {"error": "state does not have a valid value"}
        assert len(fake.violations) == 4
