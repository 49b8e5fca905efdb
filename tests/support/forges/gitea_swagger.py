"""The requests of Gitea's own description of its API that the adapter sends, written down by hand.

Generated clients exist for Forgejo only; the query and the fields of a body are those of Gitea 1.16, the oldest version
that is supported, so that no request needs a newer one unless it says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.forges.gitea_versions import Version

PAGES = {"page": "integer", "limit": "integer"}
STATES = ("open", "closed", "all")
SORTS = ("oldest", "recentupdate", "leastupdate", "mostcomment", "leastcomment", "priority")
PEOPLE_FIELDS = {"assignee": "string", "assignees": "strings", "milestone": "integer", "due_date": "string"}


@dataclass(frozen=True)
class PublishedRequest:
    """The names and types of a request. A tuple as the type lists the allowed values."""

    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    required: tuple[str, ...] = ()
    since: Version = (1, 0)


REPO = "/repos/{owner}/{repo}"
REQUESTS: Mapping[str, PublishedRequest] = {
    "GET /version": PublishedRequest(),
    "GET /user": PublishedRequest(),
    "GET /orgs/{org}/labels": PublishedRequest(PAGES),
    f"GET {REPO}": PublishedRequest(),
    f"GET {REPO}/assignees": PublishedRequest(),
    f"GET {REPO}/branch_protections": PublishedRequest(),
    f"GET {REPO}/commits": PublishedRequest({**PAGES, "sha": "string", "path": "string"}),
    f"GET {REPO}/collaborators/{{collaborator}}/permission": PublishedRequest(since=(1, 17)),
    f"GET {REPO}/issues/{{index}}": PublishedRequest(),
    f"GET {REPO}/issues/{{index}}/comments": PublishedRequest({"since": "string", "before": "string"}),
    f"POST {REPO}/issues/{{index}}/comments": PublishedRequest(body={"body": "string"}, required=("body",)),
    f"POST {REPO}/issues/{{index}}/labels": PublishedRequest(body={"labels": "integers"}),
    f"GET {REPO}/labels": PublishedRequest(PAGES),
    f"GET {REPO}/teams": PublishedRequest(),
    f"GET {REPO}/pulls": PublishedRequest(
        {**PAGES, "state": STATES, "sort": SORTS, "milestone": "integer", "labels": "integers"}
    ),
    f"POST {REPO}/pulls": PublishedRequest(
        body={
            **dict.fromkeys(("base", "body", "head", "title"), "string"),
            "labels": "integers",
            **PEOPLE_FIELDS,
        }
    ),
    f"GET {REPO}/pulls/{{index}}": PublishedRequest(),
    f"PATCH {REPO}/pulls/{{index}}": PublishedRequest(
        body={
            **dict.fromkeys(("base", "body", "state", "title"), "string"),
            "labels": "integers",
            "unset_due_date": "boolean",
            **PEOPLE_FIELDS,
        }
    ),
    f"GET {REPO}/pulls/{{base}}/{{head}}": PublishedRequest(since=(1, 22)),
    f"GET {REPO}/pulls/{{index}}/commits": PublishedRequest(PAGES),
    f"GET {REPO}/pulls/{{index}}/reviews": PublishedRequest(PAGES),
    f"GET {REPO}/pulls/{{index}}/reviews/{{id}}/comments": PublishedRequest(),
    f"POST {REPO}/pulls/{{index}}/requested_reviewers": PublishedRequest(
        body={"reviewers": "strings", "team_reviewers": "strings"}
    ),
}


def find_request_problems(
    line: str, query: Mapping[str, Any], body: Mapping[str, Any] | None, version: Version
) -> Iterator[str]:
    """Yields how a request differs from the description of this version. `line` is `METHOD /path` with its names."""
    published = REQUESTS.get(line)
    if published is None:
        yield "not a request that the adapter is known to send"
        return
    if version < published.since:
        yield f"needs version {published.since[0]}.{published.since[1]}"
    for name, value in query.items():
        yield from _check(name, value, published.query, is_text=True)
    if body is not None and published.body is None:
        yield "has a body"
    for name, value in (body or {}).items():
        yield from _check(name, value, published.body or {}, is_text=False)
    yield from (f"{name}: required" for name in published.required if name not in (body or {}))


def _check(name: str, value: Any, described: Mapping[str, Any], *, is_text: bool) -> Iterator[str]:
    kind = described.get(name)
    if kind is None:
        yield f"{name}: not described"
    elif isinstance(kind, tuple):
        if value not in kind:
            yield f"{name}: not one of {', '.join(kind)}"
    elif not _has_type(value, kind, is_text=is_text):
        yield f"{name}: not {kind}"


def _has_type(value: Any, kind: str, *, is_text: bool) -> bool:
    if kind.endswith("s"):
        return isinstance(value, list) and all(_has_type(one, kind[:-1], is_text=is_text) for one in value)
    if kind == "integer":
        return str(value).isdigit() if is_text else isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, bool if kind == "boolean" else str)
