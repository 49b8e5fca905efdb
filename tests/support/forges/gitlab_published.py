"""GitLab's operations: requests from its own description, responses written down from its documentation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from tests.support.forges.gitlab_entities import (
    CurrentUser,
    GitLabEntity,
    Member,
    MergeRequest,
    MergeRequestBasic,
    Note,
    PersonalToken,
    Project,
    UserBasic,
)
from tests.support.forges.gitlab_openapi import NOTES, REQUEST, REQUESTS, Described, is_described_status
from tests.support.forges.schema import Operation, Problems

TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict[str, Any],
    "array": list[Any],
    "integers": list[int],
    "strings": list[str] | str,
}
"""The types that the server accepts. It splits a text at its commas where the description has a list of texts."""


class ErrorResponse(GitLabEntity):
    """`message` is a sentence, a list of sentences, or lists by field; authentication and validation use `error`."""

    message: str | list[str] | dict[str, list[str]] | None = None
    error: str | None = None
    error_description: str | None = None
    scope: str | None = None


@dataclass(frozen=True)
class GitLabOperation(Operation):
    """An operation whose answers must have a status that the description has."""

    def check_response(self, status: int, data: object) -> Problems:
        problems = super().check_response(status, data)
        if not is_described_status(self.line, status):
            problems.wrong.append(f"{status} is not described")
        return problems


def describe_operation(line: str, answer: Any) -> Operation:
    """Builds an operation whose path, query and body are those of the description."""
    described = REQUESTS[line]
    query = _build_model(line, {**described.path, **described.query}, tuple(described.path))
    body = None if described.body is None else _build_model(line, described.body, described.required)
    return GitLabOperation(line, query, body, answer, errors={400: ErrorResponse})


def _build_model(name: str, described: Described, required: tuple[str, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {
        re.sub(r"\W", "_", key): (_find_type(kind) | None, Field(default=... if key in required else None, alias=key))
        for key, kind in described.items()
    }
    return create_model(name, **fields)


def _find_type(kind: str | tuple[str, ...]) -> Any:
    return Literal[kind] if isinstance(kind, tuple) else reduce(or_, (TYPES[one] for one in kind.split("|")))


OPERATIONS = {
    line: describe_operation(line, answer)
    for line, answer in {
        "GET /projects/{id}": Project,
        "GET /projects/{id}/merge_requests": list[MergeRequestBasic],
        "POST /projects/{id}/merge_requests": MergeRequest,
        f"GET {REQUEST}": MergeRequest,
        f"PUT {REQUEST}": MergeRequest,
        f"GET {NOTES}": list[Note],
        f"POST {NOTES}": Note,
        "GET /projects/{id}/members/all": list[Member],
        "GET /projects/{id}/members/all/{user_id}": Member,
        "GET /users": list[UserBasic],
        "GET /user": CurrentUser,
        "GET /personal_access_tokens/self": PersonalToken,
    }.items()
}
