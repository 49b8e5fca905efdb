"""The requests of GitLab's own description of its API (OpenAPI 3.0, version 19.5), written down as a table.

Every operation that the adapter and the fake use is described, so NOT_DESCRIBED is empty; an operation in it would be
checked against gitlab_published.py alone. The description does not say what every call can answer (COMMON_STATUSES),
the largest page (MAX_PAGE_ITEMS), the limits of a title, or the headers of pages: for these, GitLab's documentation and
sources stay the judge. It calls labels a list; the server also splits a text at its commas.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Described = Mapping[str, str | tuple[str, ...]]
"""Name → type, alternatives of types separated by `|`, or the allowed values. A plural is a list."""

MAX_PAGE_ITEMS = 100
COMMON_STATUSES = frozenset({301, 401, 403, 405, 429})
"""A moved project, a missing or weak token, a write to a moved project, a rate limit."""
NOT_DESCRIBED: frozenset[str] = frozenset()

PAGES: Described = {"page": "integer", "per_page": "integer"}
SORT = ("asc", "desc")
PROJECT: Described = {"id": "string|integer"}
PROJECT_TEXT: Described = {"id": "string"}
"""The same parameter, which some calls describe as a text only."""
NOTEABLE: Described = {**PROJECT_TEXT, "noteable_id": "integer"}
MERGE_REQUEST: Described = {**PROJECT, "merge_request_iid": "integer"}
ATTRIBUTES: Described = {"with_custom_attributes": "boolean", "custom_attributes": "object"}
MEMBER_STATES, MERGE_REQUEST_STATES = ("awaiting", "active"), ("opened", "closed", "locked", "merged", "all")


@dataclass(frozen=True)
class DescribedRequest:
    """The parameters of an operation by their place, the required names, and the statuses of its answers."""

    path: Described = field(default_factory=dict)
    query: Described = field(default_factory=dict)
    body: Described | None = None
    required: tuple[str, ...] = ()
    """Required fields of the body; no parameter of a query is required, and every parameter of a path is."""
    any_of: tuple[str, ...] = ()
    """Fields of the body of which at least one is required."""
    statuses: tuple[int, ...] = (200, 400, 404)


FILTERS: Described = {
    "author_id": "integer",
    "author_username": "string",
    "assignee_id": "integer|string",
    "assignee_username": "strings",
    "reviewer_username": "string",
    "labels": "strings",
    "milestone": "string",
    "my_reaction_emoji": "string",
    "reviewer_id": "integer|string",
}
LIST_MERGE_REQUESTS: Described = {
    **FILTERS,
    **{f"not[{name}]": kind for name, kind in FILTERS.items()},
    "not": "object",
    "not[reviewer_id]": "integer",
    "state": MERGE_REQUEST_STATES,
    "order_by": (
        *("created_at", "label_priority", "milestone_due", "popularity", "priority", "title", "updated_at"),
        "merged_at",
    ),
    "sort": SORT,
    "with_labels_details": "boolean",
    "with_merge_status_recheck": "boolean",
    **{
        f"{verb}_{end}": "string"
        for verb in ("created", "updated", "merged", "deployed")
        for end in ("after", "before")
    },
    "view": ("simple",),
    "scope": ("created-by-me", "assigned-to-me", "created_by_me", "assigned_to_me", "reviews_for_me", "all"),
    **dict.fromkeys(("source_branch", "target_branch", "search", "in", "environment", "merge_user_username"), "string"),
    **dict.fromkeys(("source_project_id", "merge_user_id"), "integer"),
    "wip": ("yes", "no"),
    "draft": "boolean",
    **dict.fromkeys(("approver_ids", "approved_by_ids", "approved_by_usernames"), "string|array"),
    "iids": "integers",
    **PAGES,
}
MERGE_REQUEST_FIELDS: Described = {
    **dict.fromkeys(("title", "target_branch", "description", "milestone", "merge_after"), "string"),
    **dict.fromkeys(("assignee_id", "milestone_id", "approvals_before_merge"), "integer"),
    **dict.fromkeys(("assignee_ids", "reviewer_ids"), "integers"),
    **dict.fromkeys(("labels", "add_labels", "remove_labels"), "strings"),
    **dict.fromkeys(("remove_source_branch", "allow_collaboration", "allow_maintainer_to_push", "squash"), "boolean"),
}
CREATE_MERGE_REQUEST: Described = {
    **dict.fromkeys(("title", "source_branch", "target_branch"), "string"),
    "target_project_id": "integer",
    **MERGE_REQUEST_FIELDS,
}
UPDATE_MERGE_REQUEST: Described = {
    **MERGE_REQUEST_FIELDS,
    "state_event": ("close", "reopen"),
    "discussion_locked": "boolean",
}
CREATE_NOTE: Described = {
    **dict.fromkeys(("body", "created_at", "merge_request_diff_head_sha"), "string"),
    **dict.fromkeys(("confidential", "internal"), "boolean"),
}
LIST_COMMITS: Described = {
    **dict.fromkeys(("ref_name", "since", "until", "path", "author"), "string"),
    **dict.fromkeys(("follow", "all", "with_stats", "first_parent", "trailers"), "boolean"),
    "order": ("default", "topo"),
    **PAGES,
}
LIST_USERS: Described = {
    **dict.fromkeys(("username", "extern_uid", "public_email", "provider", "search", "two_factor"), "string"),
    **dict.fromkeys(("created_after", "created_before"), "string"),
    **dict.fromkeys(("active", "humans", "external", "blocked", "admins", "auditors", "skip_ldap"), "boolean"),
    **dict.fromkeys(("without_projects", "without_project_bots"), "boolean"),
    **{f"exclude_{group}": "boolean" for group in ("active", "external", "humans", "internal")},
    "order_by": ("id", "name", "username", "created_at", "updated_at"),
    "sort": SORT,
    **ATTRIBUTES,
    **PAGES,
}

REQUEST, NOTES = (
    "/projects/{id}/merge_requests/{merge_request_iid}",
    "/projects/{id}/merge_requests/{noteable_id}/notes",
)
FAKE_ONLY = frozenset({"GET /projects/{id}/members/all", "GET /user"})
"""Requests that the fake answers to other clients; the adapter does not send them."""
REQUESTS: Mapping[str, DescribedRequest] = {
    "GET /personal_access_tokens/self": DescribedRequest(statuses=(200, 401, 404)),
    "GET /projects/{id}": DescribedRequest(PROJECT, {"statistics": "boolean", "license": "boolean", **ATTRIBUTES}),
    "GET /projects/{id}/labels/{name}": DescribedRequest(
        {**PROJECT, "name": "string|integer"}, {"include_ancestor_groups": "boolean"}
    ),
    "GET /projects/{id}/members/all": DescribedRequest(
        PROJECT_TEXT,
        {"query": "string", "user_ids": "integers", "show_seat_info": "boolean", "state": MEMBER_STATES, **PAGES},
    ),
    "GET /projects/{id}/members/all/{user_id}": DescribedRequest({**PROJECT_TEXT, "user_id": "integer"}),
    "GET /projects/{id}/merge_requests": DescribedRequest(
        PROJECT, LIST_MERGE_REQUESTS, statuses=(200, 400, 401, 404, 422)
    ),
    "POST /projects/{id}/merge_requests": DescribedRequest(
        PROJECT,
        body=CREATE_MERGE_REQUEST,
        required=("title", "source_branch", "target_branch"),
        statuses=(201, 400, 401, 404, 409, 422),
    ),
    f"GET {REQUEST}": DescribedRequest(
        MERGE_REQUEST,
        dict.fromkeys(("render_html", "include_diverged_commits_count", "include_rebase_in_progress"), "boolean"),
    ),
    f"PUT {REQUEST}": DescribedRequest(
        MERGE_REQUEST,
        body=UPDATE_MERGE_REQUEST,
        any_of=tuple(name for name in UPDATE_MERGE_REQUEST if name != "approvals_before_merge"),
        statuses=(200, 400, 404, 409, 422),
    ),
    f"GET {REQUEST}/commits": DescribedRequest(MERGE_REQUEST, PAGES),
    f"GET {NOTES}": DescribedRequest(
        NOTEABLE,
        {
            "order_by": ("created_at", "updated_at"),
            "sort": SORT,
            "activity_filter": ("all_notes", "only_comments", "only_activity"),
            **PAGES,
        },
    ),
    f"POST {NOTES}": DescribedRequest(NOTEABLE, body=CREATE_NOTE, required=("body",), statuses=(201, 400, 404)),
    "GET /projects/{id}/protected_branches": DescribedRequest(
        PROJECT, {"search": "string", **PAGES}, statuses=(200, 400, 401, 404)
    ),
    "GET /projects/{id}/push_rule": DescribedRequest(PROJECT),
    "GET /projects/{id}/repository/commits": DescribedRequest(PROJECT, LIST_COMMITS, statuses=(200, 401, 404)),
    "GET /projects/{id}/repository/commits/{sha}/merge_requests": DescribedRequest(
        {**PROJECT, "sha": "string"}, {"state": MERGE_REQUEST_STATES, **PAGES}, statuses=(200, 404)
    ),
    "GET /user": DescribedRequest(statuses=(200, 401, 403)),
    "GET /users": DescribedRequest(query=LIST_USERS, statuses=(200, 400)),
}


def find_request_problems(
    line: str, path: Mapping[str, str], query: Mapping[str, Any], body: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yields how a request differs from the description.

    `line` is `METHOD /path` with its names, `path` has their values.
    """
    described = REQUESTS.get(line)
    if described is None:
        if line not in NOT_DESCRIBED:
            yield "not described"
        return
    yield from (f"{name}: missing from the path" for name in described.path if name not in path)
    for name, value in path.items():
        yield from _check(name, value, described.path, is_text=True)
    for name, value in query.items():
        yield from _check(name, value, described.query, is_text=True)
    page_items = str(query.get("per_page", ""))
    if page_items.isdigit() and int(page_items) > MAX_PAGE_ITEMS:
        yield f"per_page: more than {MAX_PAGE_ITEMS}"
    if described.body is None:
        yield from () if body is None else ("has a body",)
        return
    fields = body or {}
    for name, value in fields.items():
        yield from _check(name, value, described.body, is_text=False)
    yield from (f"{name}: required" for name in described.required if name not in fields)
    if described.any_of and not any(name in described.any_of for name in fields):
        yield "has none of the fields of which one is required"


def is_described_status(line: str, status: int) -> bool:
    """Returns whether the operation can answer with this status, by its description or as every call can."""
    described = REQUESTS.get(line)
    return described is None or status in COMMON_STATUSES or status in described.statuses


def _check(name: str, value: Any, described: Described, *, is_text: bool) -> Iterator[str]:
    kind = described.get(name)
    if kind is None:
        yield f"{name}: not described"
    elif isinstance(kind, tuple):
        if value not in kind:
            yield f"{name}: not one of {', '.join(kind)}"
    elif not any(_has_type(value, one, is_text=is_text) for one in kind.split("|")):
        yield f"{name}: not {kind}"


def _has_type(value: Any, kind: str, *, is_text: bool) -> bool:
    """Returns whether the value has the type. A path and a query are text, with commas between the items of a list."""
    if kind.endswith("s"):
        items = value.split(",") if is_text and isinstance(value, str) else value
        return isinstance(items, list) and all(_has_type(one, kind[:-1], is_text=is_text) for one in items)
    if is_text and kind in ("integer", "boolean"):
        return str(value).isdigit() if kind == "integer" else value in ("true", "false")
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"boolean": bool, "array": list, "object": dict}.get(kind, str))
