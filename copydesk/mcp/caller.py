"""The client whose HTTP request is being served. The SDK runs each tool in the context of its request."""

from contextvars import ContextVar
from dataclasses import dataclass

from copydesk.core.accounts.api_keys import ApiKey


class CallerLeft(Exception):
    """The client disconnected, so that nothing can receive the result of its call."""


@dataclass(eq=False)
class Caller:
    key: ApiKey
    authorization: str
    """The header, with which tools call the API."""
    request_id: str
    address: str | None
    has_left: bool = False
    """Whether the response has ended without a result of the call. Only calls within a session go on after that."""


current_caller = ContextVar[Caller | None]("current_caller", default=None)
"""None on standard input and output."""


def get_caller() -> Caller:
    """Returns the client of the current request. Only for requests over HTTP."""
    caller = current_caller.get()
    assert caller is not None
    return caller
