"""Rules of GitLab: every request is in its published description, and all pages of a list are read."""

import ast
import inspect
import re
import textwrap
import time
from collections.abc import Mapping
from typing import Any

import pytest

from copydesk.jobs.publish.forges.forge import Proposal
from copydesk.jobs.publish.forges.rest.gitlab import GitLab
from tests.jobs.publish.forges.conftest import BRANCH, TOKEN, ForgeBench
from tests.support.forges.gitlab_openapi import (
    FAKE_ONLY,
    NOT_DESCRIBED,
    NOTES,
    REQUEST,
    REQUESTS,
    find_request_problems,
    is_described_status,
)

PULLS = "/projects/{id}/merge_requests"
CALLS: Mapping[str, tuple[str, ...]] = {
    "_check_rules": ("GET /projects/{id}/push_rule",),
    "_find_merge_request_author": ("GET /projects/{id}/repository/commits/{sha}/merge_requests",),
    "_find_user_by_address": ("GET /users",),
    "_find_user_id": ("GET /users",),
    "_has_label": ("GET /projects/{id}/labels/{name}",),
    "_is_protected": ("GET /projects/{id}/protected_branches",),
    "_lacks_scope": ("GET /personal_access_tokens/self",),
    "_list_commits": ("GET /projects/{id}/repository/commits",),
    "_list_reviewer_ids": (f"GET {REQUEST}",),
    "_list_texts": (f"GET {NOTES}",),
    "_list_own_pulls": (f"GET {PULLS}",),
    "_request_pull": (f"POST {PULLS}", f"GET {REQUEST}", f"PUT {REQUEST}"),
    "_run_access_checks": ("GET /projects/{id}",),
    "add_comment": (f"POST {NOTES}",),
    "can_write": ("GET /projects/{id}/members/all/{user_id}",),
    "list_comments": (f"GET {NOTES}",),
    "pull_contains": (f"GET {REQUEST}/commits",),
    "request_reviewers": (f"PUT {REQUEST}",),
}
"""The methods of the adapter that send a request, each once, and what they send."""
UNREACHED = {"_request_reviewer"}
"""Methods for the other forges, which GitLab inherits and never calls."""
FILLER_COUNT = 110
"""More than a page of items."""
gitlab_only = pytest.mark.parametrize("desk", ["gitlab"], indirect=True)


@gitlab_only
def test_every_request_is_in_the_published_description(desk: ForgeBench) -> None:
    """The fixture asserts that no request has a path, name, type or value that the description lacks."""
    desk.fake.repository.label("docs")
    desk.fake.add_user("rosa")
    head = desk.publish(labels=["docs", "no such"], reviewers=["rosa", "nobody"], draft=True).pull.head
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
    assert desk.fake.violations == []
    sent = {find_line(request.method, request.path) for request in desk.fake.requests}
    assert sent == {line for lines in CALLS.values() for line in lines}
    assert sent == (REQUESTS.keys() | NOT_DESCRIBED) - FAKE_ONLY


def test_every_call_in_the_code_of_the_adapter_is_listed() -> None:
    counts = {name: count_http_calls(member) for name, member in inspect.getmembers(GitLab, inspect.isfunction)}
    assert {name: count for name, count in counts.items() if count and name not in UNREACHED} == dict.fromkeys(CALLS, 1)


def count_http_calls(function: Any) -> int:
    """Counts the expressions `self.http.name(…)` in the source of a method, without those that send nothing."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [func.attr for func in calls if isinstance(func, ast.Attribute) and ast.unparse(func.value) == "self.http"]
    return sum(name not in ("close", "is_token_new") for name in names)


def find_line(method: str, target: str) -> str:
    path = target.partition("?")[0].removeprefix("/api/v4")
    for line in REQUESTS:
        pattern = re.sub(r"\{(noteable_id|merge_request_iid|user_id)\}", r"\\d+", line.partition(" ")[2])
        if method == line.partition(" ")[0] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return line
    raise AssertionError(f"{method} {path} is not described")


# The check of requests itself.

PATH = {"id": "acme/docs"}
NUMBERED = {**PATH, "merge_request_iid": "1"}
NEW = {"title": "Fix the links", "source_branch": BRANCH, "target_branch": "main"}


@pytest.mark.parametrize(
    ("line", "path", "query", "body", "problem"),
    [
        (f"DELETE {REQUEST}", NUMBERED, {}, None, "not described"),
        (f"GET {PULLS}", PATH, {"head": BRANCH}, None, "head: not described"),
        (f"GET {PULLS}", PATH, {"id": "7"}, None, "id: not described"),
        (f"GET {PULLS}", PATH, {"state": "open"}, None, "state: not one of opened, closed, locked, merged, all"),
        (f"GET {PULLS}", PATH, {"page": "second"}, None, "page: not integer"),
        (f"GET {PULLS}", PATH, {"per_page": "101"}, None, "per_page: more than 100"),
        (f"GET {PULLS}", PATH, {"draft": "yes"}, None, "draft: not boolean"),
        (f"GET {PULLS}", PATH, {}, {"state": "all"}, "has a body"),
        (f"GET {REQUEST}", PATH, {}, None, "merge_request_iid: missing from the path"),
        (f"GET {REQUEST}", {**PATH, "merge_request_iid": "!1"}, {}, None, "merge_request_iid: not integer"),
        (f"POST {PULLS}", PATH, {}, {**NEW, "title": None}, "title: not string"),
        (f"POST {PULLS}", PATH, {}, {**NEW, "head": BRANCH}, "head: not described"),
        (f"POST {PULLS}", PATH, {}, {"title": "Fix", "source_branch": BRANCH}, "target_branch: required"),
        (f"POST {PULLS}", PATH, {"title": "Fix"}, NEW, "title: not described"),
        (f"PUT {REQUEST}", NUMBERED, {}, {"reviewer_ids": ["7"]}, "reviewer_ids: not integers"),
        (f"PUT {REQUEST}", NUMBERED, {}, {"add_labels": "docs,guide"}, "add_labels: not strings"),
        (f"PUT {REQUEST}", NUMBERED, {}, {"squash": 1}, "squash: not boolean"),
        (f"PUT {REQUEST}", NUMBERED, {}, {"milestone_id": True}, "milestone_id: not integer"),
        (f"PUT {REQUEST}", NUMBERED, {}, {"state_event": "closed"}, "state_event: not one of close, reopen"),
        (f"PUT {REQUEST}", NUMBERED, {}, {}, "has none of the fields of which one is required"),
        (f"POST {NOTES}", {**PATH, "noteable_id": "1"}, {}, None, "body: required"),
    ],
)
def test_request_that_differs_from_the_description_is_a_problem(
    line: str, path: dict[str, str], query: dict[str, Any], body: dict[str, Any] | None, problem: str
) -> None:
    assert list(find_request_problems(line, path, query, body)) == [problem]


@pytest.mark.parametrize(
    ("line", "path", "query", "body"),
    [
        (
            f"GET {PULLS}",
            PATH,
            {"state": "all", "labels": "docs,guide", "iids": ["1", "2"], "not[milestone]": "1.0"},
            None,
        ),
        (f"POST {PULLS}", PATH, {}, {**NEW, "reviewer_ids": [7], "labels": ["docs"], "squash": True}),
        ("GET /projects/{id}/labels/{name}", {**PATH, "name": "docs"}, {"include_ancestor_groups": "false"}, None),
        ("GET /users", {}, {"username": "rosa"}, None),
    ],
)
def test_request_with_described_parameters_is_no_problem(
    line: str, path: dict[str, str], query: dict[str, Any], body: dict[str, Any] | None
) -> None:
    assert list(find_request_problems(line, path, query, body)) == []


@gitlab_only
def test_fake_records_a_request_that_only_the_server_tolerates(desk: ForgeBench) -> None:
    """The server splits labels at commas, which the description does not promise."""
    http: Any = desk.forge
    desk.publish()
    http.http.request(object, "PUT", "/projects/acme%2Fdocs/merge_requests/1", body={"add_labels": "docs,guide"})
    http.http.request(object, "GET", "/projects/acme%2Fdocs", query={"id": 7})
    assert [one.partition(": ")[2] for one in desk.fake.violations] == ["add_labels: not strings", "id: not described"]
    desk.fake.violations.clear()


def test_answers_have_described_statuses() -> None:
    assert is_described_status(f"POST {PULLS}", 409)
    assert is_described_status(f"POST {PULLS}", 429)
    assert not is_described_status(f"POST {PULLS}", 200)
    assert not is_described_status("GET /users", 404)


# Pages.


@pytest.mark.deep
@gitlab_only
@pytest.mark.parametrize("page_headers", ["all", "uncounted", "next-page"])
def test_all_pages_of_a_list_are_read(desk: ForgeBench, page_headers: str) -> None:
    desk.fake.page_headers = page_headers
    first_commit = desk.fake.repository.heads()[BRANCH]
    for number in range(FILLER_COUNT):
        desk.fake.commit(BRANCH, {"docs/index.md": f"# Version {number}\n".encode()})
    for _ in range(FILLER_COUNT):
        desk.fake.close(desk.forge.open_pull(Proposal(BRANCH, "main", "Fix the links", "Three.")).number)
    for number in range(2 * FILLER_COUNT):
        desk.fake.comment(1, f"Comment {number}")
    desk.fake.faults.protected |= {f"branch-{number}" for number in range(FILLER_COUNT)} | {"copydesk/*"}
    assert [pull.number for pull in desk.forge.find_pulls(BRANCH, "main")] == list(range(1, FILLER_COUNT + 1))
    assert desk.forge.pull_contains(1, first_commit)
    comments = desk.forge.list_comments(1, 0)
    assert {comment.text for comment in comments} == {f"Comment {number}" for number in range(2 * FILLER_COUNT)}
    assert len(comments) == 2 * FILLER_COUNT
    assert any("does not allow this token's role" in one for one in desk.forge.find_access_problems(BRANCH))


@gitlab_only
def test_fake_sends_only_the_headers_of_its_mode(desk: ForgeBench) -> None:
    headers = {}
    for mode in ("all", "uncounted", "next-page"):
        desk.fake.page_headers = mode
        authorization = {"Authorization": f"Bearer {TOKEN}"}
        target = f"{desk.fake.prefix}/users?per_page=1"
        desk.fake.add_user(f"user-{mode}")
        sent = dict(desk.fake.answer("GET", target, authorization, b"")[1])
        assert sent["X-Next-Page"] == "2"
        headers[mode] = (set(sent) & {"Link", "X-Total", "X-Total-Pages"}, 'rel="last"' in sent.get("Link", ""))
    assert headers == {
        "all": ({"Link", "X-Total", "X-Total-Pages"}, True),
        "uncounted": ({"Link"}, False),
        "next-page": (set(), False),
    }
