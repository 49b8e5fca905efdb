"""Errors that users see. Each class has a message and, for HTTP, a status and a code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from os import strerror
from typing import ClassVar


@dataclass(frozen=True)
class ErrorDetail:
    field: str
    message: str


class UserFacingError(Exception):
    """An error whose message is meant for the person who caused it or can fix it."""

    message: str = "Something went wrong."
    """The default message, used unless one is passed when the error is raised."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message or self.message
        super().__init__(self.message)


class DataFolderMissing(UserFacingError):
    """There is no Copydesk data where the settings say. The message names the place."""

    message = "There is no Copydesk data folder."


class RequestError(UserFacingError):
    """A refused request, with the status and the code of the HTTP response."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_request"
    message = "The request was refused."

    def __init__(
        self,
        message: str | None = None,
        *,
        details: Sequence[ErrorDetail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = tuple(details)
        self.headers = dict(headers or {})


class InvalidRequest(RequestError):
    message = "The request is not valid."


class KeyMissing(RequestError):
    status, code = 401, "key_missing"
    message = "Send an API key as 'Authorization: Bearer desk_…'."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"WWW-Authenticate": "Bearer"})


class KeyRejected(KeyMissing):
    status, code = 401, "key_rejected"
    message = "This API key is unknown, revoked or expired."


class ScopeMissing(RequestError):
    status, code = 403, "scope_missing"
    message = "This API key does not have the scope that this call needs."


class AddressRefused(RequestError):
    status, code = 403, "address_refused"
    message = "This API key may not be used from this address."


class NotFound(RequestError):
    status, code = 404, "not_found"
    message = "There is nothing at this address."


class ProjectNotFound(NotFound):
    code = "project_not_found"
    message = "Project not found, or this key has no access to it."


class Conflict(RequestError):
    status, code = 409, "conflict"
    message = "The request conflicts with the current state."


class RequestTooLarge(RequestError):
    status, code = 413, "too_large"
    message = "The request body is too large."


class WrongMediaType(RequestError):
    status, code = 415, "wrong_media_type"
    message = "The body must be JSON: send 'Content-Type: application/json'."


class StoreUnavailable(RequestError):
    status, code = 503, "store_down"
    message = "The store is unavailable; try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class DiskFull(StoreUnavailable):
    code = "disk_full"
    message = "The disk is full; nothing from this request was stored."


def is_disk_full(error: BaseException) -> bool:
    """Returns whether this error means that the disk or a quota is full.

    Python sets `errno`; git and libgit2 say it only in the message.
    """
    return getattr(error, "errno", None) in (ENOSPC, EDQUOT) or strerror(ENOSPC) in str(error)
