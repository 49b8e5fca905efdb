"""A call to a forge's API: its route, its request and its response."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.support.forges.state import Repository, Token, User


@dataclass
class Reply:
    status: int
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class CallRefused(Exception):
    """An error response of the forge."""

    def __init__(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        self.reply = Reply(status, data, dict(headers or {}))


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, Any]
    headers: dict[str, str]
    body: Any
    params: dict[str, str] = field(default_factory=dict)
    token: Token | None = None
    repository_or_none: Repository | None = None

    @property
    def repository(self) -> Repository:
        assert self.repository_or_none is not None
        return self.repository_or_none

    @property
    def user(self) -> User:
        assert self.token is not None
        return self.token.user


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    pattern: re.Pattern[str]
    act: str
    operation: str
    needs: tuple[str, ...]
    """Scopes; one of them is enough."""
    level: str
    """The access level on the repository that the user needs."""


@dataclass(frozen=True)
class Request:
    """One entry of the log; status 0 means that the connection was cut."""

    method: str
    path: str
    status: int


def route(
    method: str, path: str, operation: str, *, needs: tuple[str, ...] = (), level: str = "read"
) -> Callable[[Callable[[Any, Call], Reply]], Callable[[Any, Call], Reply]]:
    """Adds a route. `{name}` matches a segment, `{name:int}` a number, `{name:rest}` the remaining path."""
    kinds = {"": "[^/]+", ":int": r"\d+", ":rest": ".+"}
    pattern = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: f"(?P<{found[1]}>{kinds[found[2] or '']})", path)

    def remember(act: Callable[[Any, Call], Reply]) -> Callable[[Any, Call], Reply]:
        act.__dict__.setdefault("routes", []).append(
            Route(method, path, re.compile(pattern), act.__name__, operation, needs, level)
        )
        return act

    return remember


def paginate(call: Call, items: list[Any], *, size: str = "per_page", default: int = 30) -> tuple[list[Any], int, int]:
    """Returns the requested page, its number, and the number of pages."""
    per_page = max(1, min(int(call.query.get(size, default)), 100))
    number = int(call.query.get("page", 1))
    pages = max(1, -(-len(items) // per_page))
    return items[(number - 1) * per_page : number * per_page], number, pages


def build_link_header(api: str, call: Call, number: int, pages: int, *, with_last: bool = True) -> str:
    """Builds the Link header, which links the pages; without the last one if the forge did not count them."""

    def link(to: int, name: str) -> str:
        return f'<{api}{call.path}?{urlencode({**call.query, "page": to}, doseq=True)}>; rel="{name}"'

    later = [link(number + 1, "next"), *([link(pages, "last")] if with_last else [])] if number < pages else []
    earlier = [link(number - 1, "prev"), link(1, "first")] if number > 1 else []
    return ", ".join([*later, *earlier])
