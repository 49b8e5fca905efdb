"""Refusals: the docstring is the message, the class carries the status and the code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from inspect import getdoc
from os import strerror
from typing import ClassVar


@dataclass(frozen=True)
class Detail:
    field: str
    message: str


class Explained(Exception):
    """An error whose message is meant for the person who caused it or must mend it."""


class Refusal(Explained):
    """The request was refused."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_request"

    def __init__(
        self,
        message: str | None = None,
        *,
        details: Sequence[Detail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.message = message or (getdoc(type(self)) or "").strip()
        self.details = tuple(details)
        self.headers = dict(headers or {})
        super().__init__(self.message)


class InvalidRequest(Refusal):
    """The request is not valid."""


class KeyMissing(Refusal):
    """Send an API key as 'Authorization: Bearer desk_…'."""

    status, code = 401, "key_missing"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"WWW-Authenticate": "Bearer"})


class KeyRejected(KeyMissing):
    """This API key is unknown, revoked or expired."""

    status, code = 401, "key_rejected"


class ScopeMissing(Refusal):
    """This API key does not have the scope that the call needs."""

    status, code = 403, "scope_missing"


class AddressRefused(Refusal):
    """This API key may not be used from this address."""

    status, code = 403, "address_refused"


class NotFound(Refusal):
    """There is nothing at this address."""

    status, code = 404, "not_found"


class ProjectNotFound(NotFound):
    """There is no such project, or the API key does not open it."""

    code = "project_not_found"


class Conflict(Refusal):
    """The request conflicts with the current state."""

    status, code = 409, "conflict"


class TooLarge(Refusal):
    """The request body is too large."""

    status, code = 413, "too_large"


class WrongMediaType(Refusal):
    """The body must be JSON: send 'Content-Type: application/json'."""

    status, code = 415, "wrong_media_type"


class StoreDown(Refusal):
    """The store cannot be reached right now; try again shortly."""

    status, code = 503, "store_down"

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class NoRoom(StoreDown):
    """There is no room left on the disk; nothing was kept of this."""

    code = "no_room"


def is_for_want_of_room(error: BaseException) -> bool:
    """Whoever writes says it in its own way: Python, git, libgit2."""
    return getattr(error, "errno", None) in (ENOSPC, EDQUOT) or strerror(ENOSPC) in str(error)
