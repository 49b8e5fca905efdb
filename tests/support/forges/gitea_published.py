"""The schema of Forgejo and Gitea: REST from pyforgejo's generated client, webhooks written down by hand."""

import inspect
import re
from functools import cache
from importlib import import_module
from types import NoneType
from typing import Any, Literal, Union, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pyforgejo.types import Comment, Issue, Label, PrBranchInfo, PullRequest, Repository, User

from tests.support.forges.schema import Operation, build_query_model

LabelList = list[int] | list[str]
"""Labels of an issue, by id or by name; the generated client declares objects for arbitrary JSON."""
FORGEJO_ONLY_FIELDS = frozenset({"flow", "globally_editable_wiki", "pronouns", "wiki_branch"})
"""Fields that Gitea does not have."""
COMPLETE_FIELDS: dict[type[BaseModel], frozenset[str]] = {
    PullRequest: FORGEJO_ONLY_FIELDS | {"review_comments", "additions", "deletions", "changed_files"},
    Repository: FORGEJO_ONLY_FIELDS
    | {"parent", "permissions", "internal_tracker", "external_tracker", "external_wiki", "repo_transfer"},
    User: FORGEJO_ONLY_FIELDS,
    Comment: frozenset(),
    Label: frozenset(),
    PrBranchInfo: frozenset(),
}
CHECK_OPTIONS: dict[str, Any] = {"open_models": False, "complete_models": COMPLETE_FIELDS}


def list_complete_fields(absent_pull_fields: frozenset[str]) -> dict[type[BaseModel], frozenset[str]]:
    """Returns COMPLETE_FIELDS for a server whose pull requests lack some fields."""
    return {**COMPLETE_FIELDS, PullRequest: COMPLETE_FIELDS[PullRequest] | absent_pull_fields}


class ApiError(BaseModel):
    model_config = ConfigDict(extra="forbid")
    message: str
    url: str
    errors: list[str] | None = None


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Review(Payload):
    type: str
    content: str


class PullRequestPayload(Payload):
    action: Literal["opened", "closed", "reopened", "edited", "synchronized", "reviewed"]
    number: int
    pull_request: PullRequest
    requested_reviewer: User | None
    repository: Repository
    sender: User
    commit_id: str
    review: Review | None


class IssueCommentPayload(Payload):
    action: Literal["created", "edited", "deleted"]
    issue: Issue
    pull_request: PullRequest
    comment: Comment
    repository: Repository
    sender: User
    is_pull: bool


@cache
def operation(name: str, method: str, path: str) -> Operation:
    """Describes an operation such as `repository.repo_get`: its path, query and body from the client's arguments."""
    group, _, verb = name.partition(".")
    client = getattr(import_module(f"pyforgejo.{group}.client"), f"{group.title()}Client")
    hints = get_type_hints(getattr(client, verb))
    defaults = inspect.signature(getattr(client, verb)).parameters
    names = re.findall(r"\{(\w+)", path)
    fields: dict[str, tuple[Any, Any]] = {}
    for key in hints.keys() - {"return", "request_options"}:
        default = ... if defaults[key].default is inspect.Parameter.empty else None
        fields[key] = (
            LabelList | None if (key, verb) == ("labels", "add_label") else _make_enum_strict(hints[key]),
            default,
        )
    body = {key: one for key, one in fields.items() if method != "GET" and key not in names}
    rest: Any = {key: one for key, one in fields.items() if key not in body}
    body_model: Any = body
    return Operation(
        line=f"{method} {_find_published_path(client, verb)}",
        query=build_query_model(verb, rest),
        body=create_model(verb, **body_model) if body else None,
        answer=hints["return"] if hints["return"] is not NoneType else None,
        errors={400: ApiError},
        **CHECK_OPTIONS,
    )


def _make_enum_strict(hint: Any) -> Any:
    """Makes an enumeration strict; the generated client also accepts other values."""
    options = get_args(hint)
    return Union[tuple(one for one in options if one is not Any)] if Any in options and len(options) > 1 else hint  # noqa: UP007


def _find_published_path(client: Any, verb: str) -> str:
    raw = import_module(client.__module__.replace(".client", ".raw_client"))
    source = inspect.getsource(getattr(getattr(raw, f"Raw{client.__name__}"), verb))
    match = re.search(r'request\(\s*f?"([^"]+)"', source)
    assert match is not None
    return "/" + re.sub(r"\{jsonable_encoder\((\w+)\)\}", r"{\1}", match[1]).lstrip("/")
