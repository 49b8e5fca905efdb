"""The common base of fake forges: a server, and routes that check calls and responses against the published schema."""

import json
import re
import threading
import traceback
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.forges.calls import Call, CallRefused, Reply, Request, Route
from tests.support.forges.faults import Fault
from tests.support.forges.schema import Operation, find_problems
from tests.support.forges.server import ForgeHandler, ForgeServer
from tests.support.forges.state import Repository, Token
from tests.support.forges.webhooks import Delivery, Hook, Webhooks
from tests.support.forges.world import ForgeWorld
from tests.support.git_http import GitHttpServer

TOKEN_PARAMETER_PATTERN = re.compile(r"((?:private_|access_)?token=)[^&]*")
RawResponse = tuple[int, list[tuple[str, str]], bytes]


class FakeForge(ForgeWorld):
    """A fake forge on 127.0.0.1.

    `violations` lists requests that do not match the published schema; `check` raises if a response did not match.
    """

    kind: ClassVar[str]
    read_scopes: ClassVar[tuple[str, ...]]
    push_scopes: ClassVar[tuple[str, ...]]
    redirects_without_suffix: ClassVar[bool] = False
    """Whether a git URL without `.git` is redirected to the one with it."""
    hook_failures_allowed: ClassVar[int | None] = None
    """After so many failures in a row the forge disables a webhook; None if it never does."""
    new_id_again: ClassVar[bool] = False
    """Whether a redelivered webhook gets a new delivery id."""
    routes: ClassVar[list[Route]] = []

    def __init__(self, folder: Path, repository: str = "acme/docs", *, base_path: str = "", **about: Any) -> None:
        self.base_path = base_path
        """The path below which the forge is served, such as `/forge`."""
        self.requests: list[Request] = []
        self.violations: list[str] = []
        self.broken: list[str] = []
        self.webhooks = Webhooks(self.sign, new_id_again=self.new_id_again, failures_allowed=self.hook_failures_allowed)
        super().__init__(folder, repository, **about)

    def __init_subclass__(cls) -> None:
        members = [member for base in reversed(cls.__mro__) for member in vars(base).values() if callable(member)]
        routes = [one for member in members for one in getattr(member, "routes", [])]
        cls.routes = sorted(routes, key=lambda one: ":rest}" in one.path)  # the ones that match any rest come last

    def __enter__(self) -> Self:
        self._server = ForgeServer(("127.0.0.1", 0), ForgeHandler)
        self._server.forge, self._server.git = self, GitHttpServer(self.root)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.webhooks.close()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raises if a response or a webhook of the fake did not match the published schema."""
        assert not self.broken, "\n".join(self.broken)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self.base_path}"

    @property
    def api(self) -> str:
        return self.url + self.prefix

    def repository_url(self, path: str) -> str:
        return f"{self.url}/{path}.git"

    # Differences between forges.

    @abstractmethod
    def operation(self, name: str, call: Call) -> Operation:
        """Returns the published description of a call."""

    @abstractmethod
    def read_token(self, call: Call) -> str | None:
        """Returns the token of the caller."""

    @abstractmethod
    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> CallRefused:
        """Builds the forge's error for a status."""

    @abstractmethod
    def rate_limit_response(self, fault: Fault) -> RawResponse:
        """Builds the forge's rate limit response."""

    @abstractmethod
    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        """Returns the headers of a webhook, including its signature."""

    @abstractmethod
    def find_repository_name(self, call: Call) -> str | None:
        """Returns the full name of the repository in the path of the call, if it has one."""

    def authenticate(self, call: Call) -> Token | None:
        """Returns the caller's token. Returns None for an anonymous caller if the forge answers anonymous calls."""
        value = self.read_token(call)
        token = self.tokens.get(value) if value is not None else None
        if token is None or not token.alive or token.is_unknown():
            raise self.refusal(401)
        return token

    def effective_scopes(self, token: Token) -> frozenset[str]:
        """Returns the effective scopes of a token, which may be more than its listed scopes."""
        return token.scopes

    def scope_refusal(self, token: Token, needs: list[str]) -> CallRefused:
        return self.refusal(403, "scope", needs)

    def common_headers(self, call: Call | None) -> dict[str, str]:
        """Returns the headers of every response."""
        return {}

    def canonical_path(self, path: str) -> str:
        """Returns the path that routes use, if a forge has several paths for the same resource."""
        return path

    def adjust_response(self, call: Call, data: Any) -> Any:
        """Adjusts the data of a response before it is sent."""
        return data

    # Handling a call.

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> RawResponse:
        address = urlsplit(target)
        path = self.canonical_path(address.path.removeprefix(self.prefix))
        call = Call(method, path, _query(address.query), {k.lower(): v for k, v in headers.items()}, None)
        with self.lock:
            reply = self._answer(call, body)
        response_headers = {**self.common_headers(call), **reply.headers}
        if reply.data is None:
            return reply.status, list(response_headers.items()), b""
        return (
            reply.status,
            [("Content-Type", "application/json"), *response_headers.items()],
            json.dumps(reply.data).encode(),
        )

    def _answer(self, call: Call, body: bytes) -> Reply:
        operation: Operation | None = None
        try:
            matched_route = self._route(call)
            operation = self.operation(matched_route.operation, call)
            call.token = self.authenticate(call)
            self._admit(call, matched_route)
            self._read(call, operation, body)
            reply: Reply = getattr(self, matched_route.act)(call)
        except CallRefused as refused:
            reply = refused.reply
        except Exception:
            self.broken.append(f"{call.method} {call.path}\n{traceback.format_exc()}")
            return Reply(500, {"message": "The fake failed."})
        reply.data = self.adjust_response(call, reply.data)
        if call.repository_or_none is not None:
            call.repository_or_none.tick()
        if operation is not None:
            wrong = list(operation.check_response(reply.status, reply.data))
            self.broken += [f"{call.method} {call.path} answered {reply.status}: {one}" for one in wrong]
        return reply

    def _route(self, call: Call) -> Route:
        for candidate in self.routes:
            match = candidate.pattern.fullmatch(call.path)
            if match and candidate.method == call.method:
                call.params = {name: unquote(value) for name, value in match.groupdict().items()}
                return candidate
        self.violations.append(f"{call.method} {call.path}: no such call")
        raise self.refusal(404)

    def _admit(self, call: Call, matched_route: Route) -> None:
        """Refuses a caller with 404 for a repository that they may not see, and with 403 if they may only read."""
        path = self.find_repository_name(call)
        if path is not None:
            if path in self.renamed:
                raise self.redirect_to_renamed(call, self.repositories[self.renamed[path]])
            repository = self.repositories.get(path)
            if repository is None or (repository.private and not (call.token and call.token.reaches(repository))):
                raise self.refusal(404, "repository")
            call.repository_or_none = repository
            if matched_route.method != "GET" and repository.archived:
                raise self.refusal(403, "archived")
            if call.token and not call.token.user.may(matched_route.level):
                raise self.refusal(403, "level", [matched_route.level])
        if (
            call.token
            and matched_route.needs
            and not self.effective_scopes(call.token).intersection(matched_route.needs)
        ):
            raise self.scope_refusal(call.token, list(matched_route.needs))

    @abstractmethod
    def redirect_to_renamed(self, call: Call, repository: Repository) -> CallRefused:
        """Redirects calls to a renamed repository."""

    def _read(self, call: Call, operation: Operation, body: bytes) -> None:
        if body:
            try:
                form = "x-www-form-urlencoded" in call.headers.get("content-type", "")
                call.body = _query(body.decode()) if form else json.loads(body)
            except ValueError:
                self.violations.append(f"{call.method} {call.path}: not JSON")
                raise self.refusal(400, "json") from None
        query_problems, body_problems = (
            operation.check_query({**call.params, **call.query}),
            operation.check_body(call.body),
        )
        self.violations += [f"{call.method} {call.path}: {one}" for one in (*query_problems, *body_problems)]
        if query_problems.wrong or body_problems.wrong:
            raise self.refusal(422, "request", [*query_problems.wrong, *body_problems.wrong])

    # Git access, and the log.

    def git_refusal(self, path: str, password: str | None, pushing: bool) -> tuple[int, str]:
        """Returns a status and a text: 0 allows the caller, 301 comes with the new name of the repository."""
        if path in self.renamed:
            return 301, self.renamed[path]
        token, repository = self.tokens.get(password or ""), self.repositories.get(path)
        if token is None or not token.alive or token.is_unknown():
            anonymous = password is None and repository is not None and not repository.private and not pushing
            return (0, "") if anonymous else (401, "Invalid username or token.\n")
        if repository is None or not token.reaches(repository):
            return 404, "Repository not found.\n"
        scopes = self.push_scopes if pushing else self.read_scopes
        if not self.effective_scopes(token).intersection(scopes) or (pushing and not token.user.may("write")):
            return 403, f"Permission to {path}.git denied to {token.user.login}.\n"
        if pushing and repository.archived:
            return 403, "This repository was archived so it is read-only.\n"
        return 0, ""

    def record_request(self, method: str, target: str, status: int) -> None:
        self.requests.append(Request(method, TOKEN_PARAMETER_PATTERN.sub(r"\1…", target), status))

    def publish(self, event: str, described: Any, payload: Any, **how: Any) -> None:
        """Sends a webhook after checking its payload against the description."""
        wrong = list(find_problems(described, payload, **how))
        self.broken += [f"webhook {event}: {one}" for one in wrong]
        self.webhooks.emit(event, payload)


def _query(text: str) -> dict[str, Any]:
    """Parses a query into name → value; a name with brackets, or a repeated one, has a list."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name.endswith("[]"):
            values.setdefault(name[:-2], []).append(value)
        else:
            values[name] = value
    return values
