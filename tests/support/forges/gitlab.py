"""A fake GitLab, checked against its own description and models of its documentation."""

from collections.abc import Mapping
from typing import Any, Literal

from tests.support.forges import gitlab_published as published
from tests.support.forges import gitlab_webhooks
from tests.support.forges.base import FakeForge, RawResponse
from tests.support.forges.calls import Call, CallRefused, Reply, build_link_header, paginate, route
from tests.support.forges.faults import Fault
from tests.support.forges.gitlab_openapi import MAX_PAGE_ITEMS, find_request_problems
from tests.support.forges.gitlab_shapes import GitLabShapes, Json
from tests.support.forges.schema import Operation
from tests.support.forges.state import Comment, Pull, Repository, Token, User, now
from tests.support.forges.webhooks import Delivery, Hook

PROJECT, REQUESTS = "/projects/{id}", "/projects/{id}/merge_requests"
REQUEST, NOTES = REQUESTS + "/{merge_request_iid:int}", REQUESTS + "/{noteable_id:int}/notes"
READ, WRITE = ("api", "read_api"), ("api",)
INSUFFICIENT_SCOPE_MESSAGE = "The request requires higher privileges than provided by the access token."
MAX_TITLE_CHARS = 255
REVOKED_TOKEN_MESSAGE = "Token was revoked. You have to re-authorize from the user."
EXPIRED_TOKEN_MESSAGE = "Token is expired. You can either do re-authorization or token refresh."
MOVED_PROJECT_MESSAGE = "405 Method Not Allowed - Non GET methods are not allowed for moved projects"


PageHeaders = Literal["all", "uncounted", "next-page"]
"""All of them; without the number of items and pages, and the link to the last one; or without links as well."""


class GitLab(FakeForge):
    kind, prefix = "GitLab", "/api/v4"
    all_scopes = frozenset({"api", "read_repository", "write_repository"})
    read_scopes = ("api", "read_repository", "write_repository")
    push_scopes = ("api", "write_repository")
    closes_on_delete = False
    redirects_without_suffix = True
    hook_failures_allowed = 4
    rejection_text = (
        "\n========================================================================\n\n"
        "GitLab: You are not allowed to create protected branches on this project.\n"
        "- REF\n"
        "\n========================================================================\n\n"
    )
    signature_rules = ("reject_unsigned_commits",)
    shown_scopes: set[str] | None = None
    """The scopes that every token shows, if not its own."""
    page_headers: PageHeaders = "all"
    """Which headers a page has. GitLab counts at most 10,000 items."""
    max_reviewers = 1
    """The free tier keeps one reviewer of a merge request, and drops the others."""
    published_addresses: frozenset[str] = frozenset()
    """The logins of users who publish their address `LOGIN@example.org`, by which a search finds them."""

    @property
    def shapes(self) -> GitLabShapes:
        return GitLabShapes(self.url)

    def operation(self, name: str, call: Call) -> Operation:
        return published.OPERATIONS[name]

    def _read(self, call: Call, operation: Operation, body: bytes) -> None:
        """Checks the request also where the fake is as lenient as the server, and names each problem once."""
        known_count = len(self.violations)
        super()._read(call, operation, body)
        problems = find_request_problems(operation.line, call.params, call.query, call.body)
        violations = [f"{call.method} {call.path}: {problem}" for problem in problems]
        self.violations += [one for one in violations if one not in self.violations[known_count:]]

    def read_token(self, call: Call) -> str | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        bearer = value if scheme.lower() == "bearer" else None
        return call.headers.get("private-token") or bearer or call.query.pop("private_token", None)

    def effective_scopes(self, token: Token) -> frozenset[str]:
        """Expands a fine-grained token, whose only scope is `granular`, to all scopes."""
        return self.all_scopes if token.scopes == {"granular"} else super().effective_scopes(token)

    def authenticate(self, call: Call) -> Token | None:
        token = self.tokens.get(self.read_token(call) or "")
        if token is None:
            raise self.refusal(401)
        if token.is_unknown():
            raise self.refusal(401)
        if not token.alive:
            message = REVOKED_TOKEN_MESSAGE if token.revoked else EXPIRED_TOKEN_MESSAGE
            raise CallRefused(401, {"error": "invalid_token", "error_description": message})
        return token

    def find_repository_name(self, call: Call) -> str | None:
        project_id = call.params.get("id")
        if project_id is None or not project_id.isdigit():
            return project_id
        return next((path for path, one in self.repositories.items() if one.id == int(project_id)), project_id)

    def redirect_to_renamed(self, call: Call, repository: Repository) -> CallRefused:
        if call.method != "GET":
            return CallRefused(405, {"message": MOVED_PROJECT_MESSAGE})
        rest = call.path.split("/", 3)[3:]
        target = "/".join([f"{self.api}/projects/{repository.id}", *rest])
        return CallRefused(301, {"message": "Moved Permanently"}, {"Location": target})

    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> CallRefused:
        if why == "scope":
            about = {
                "error": "insufficient_scope",
                "error_description": INSUFFICIENT_SCOPE_MESSAGE,
                "scope": " ".join(details or []),
            }
            return CallRefused(403, about)
        if why in ("request", "json"):
            message = ", ".join(_format_problem(one) for one in details or []) or "body is invalid"
            return CallRefused(400, {"error": message})
        plain = {401: "401 Unauthorized", 403: "403 Forbidden", 404: "404 Not found"}
        return CallRefused(status, {"message": "404 Project Not Found" if why == "repository" else plain[status]})

    def rate_limit_response(self, fault: Fault) -> RawResponse:
        seconds = str(int(fault.seconds))
        limits = {"RateLimit-Limit": "60", "RateLimit-Observed": "61", "RateLimit-Remaining": "0"}
        headers = [("Content-Type", "text/plain"), ("Retry-After", seconds), *limits.items()]
        return 429, headers, b"Retry later\n"

    def common_headers(self, call: Call | None) -> dict[str, str]:
        return {"X-Request-Id": f"fake-{len(self.requests)}", "RateLimit-Limit": "2000", "RateLimit-Remaining": "1999"}

    def paginate_reply(self, call: Call, items: list[Json]) -> Reply:
        page_items, number, pages = paginate(call, items, default=20)
        size = min(int(call.query.get("per_page", 20)), MAX_PAGE_ITEMS)
        following, before = str(number + 1) if number < pages else "", str(number - 1) if number > 1 else ""
        headers = {"X-Page": str(number), "X-Per-Page": str(size), "X-Next-Page": following, "X-Prev-Page": before}
        if self.page_headers != "next-page":
            is_counted = self.page_headers == "all"
            headers["Link"] = build_link_header(self.api, call, number, pages, with_last=is_counted)
        if self.page_headers == "all":
            headers |= {"X-Total": str(len(items)), "X-Total-Pages": str(pages)}
        return Reply(200, page_items, headers)

    def find_requested_pull(self, call: Call) -> Pull:
        pull = call.repository.find(int(call.params.get("merge_request_iid") or call.params["noteable_id"]))
        if pull is None:
            raise self.refusal(404)
        return pull

    # The project and people.

    @route("GET", PROJECT, "GET /projects/{id}", needs=READ)
    def get_project(self, call: Call) -> Reply:
        return Reply(200, self.shapes.project(call.repository, call.user))

    @route("GET", PROJECT + "/members/all", "GET /projects/{id}/members/all", needs=READ)
    def list_members(self, call: Call) -> Reply:
        members = [user for user in self.users.values() if user.may("read")]
        return self.paginate_reply(call, [self.shapes.member(user, call.repository.created) for user in members])

    @route("GET", PROJECT + "/members/all/{user_id:int}", "GET /projects/{id}/members/all/{user_id}", needs=READ)
    def get_member(self, call: Call) -> Reply:
        for user in self.users.values():
            if user.id == int(call.params["user_id"]) and user.may("read"):
                return Reply(200, self.shapes.member(user, call.repository.created))
        raise self.refusal(404)

    @route("GET", "/users", "GET /users", needs=(*READ, "read_user"))
    def find_users(self, call: Call) -> Reply:
        username = call.query.get("username", "").lower()
        users = [user for user in self.users.values() if username in ("", user.login.lower())]
        if "search" in call.query:
            users = [user for user in users if f"{user.login}@example.org" == call.query["search"]]
            users = [user for user in users if user.login in self.published_addresses]
        return self.paginate_reply(call, [self.shapes.user(user) for user in users])

    @route("GET", "/user", "GET /user", needs=(*READ, "read_user"))
    def get_user(self, call: Call) -> Reply:
        return Reply(200, self.shapes.current_user(call.user, self.repository.created))

    @route("GET", "/personal_access_tokens/self", "GET /personal_access_tokens/self")
    def get_token(self, call: Call) -> Reply:
        assert call.token is not None
        shape = self.shapes.token(call.token, self.repository.created)
        return Reply(200, shape if self.shown_scopes is None else {**shape, "scopes": sorted(self.shown_scopes)})

    # Merge requests.

    @route("GET", REQUESTS, "GET /projects/{id}/merge_requests", needs=READ)
    def list_requests(self, call: Call) -> Reply:
        query = call.query
        pulls = [pull for pull in self.visible_pulls(call.repository.pulls) if self._matches_filter(pull, query)]
        if query.get("sort") == "asc":
            pulls.reverse()
        return self.paginate_reply(call, [self.shapes.listed_merge_request(pull) for pull in pulls])

    def _matches_filter(self, pull: Pull, query: Json) -> bool:
        ends = (query.get("source_branch", pull.head), query.get("target_branch", pull.base))
        return query.get("state", "all") in (self.shapes.state(pull), "all") and ends == (pull.head, pull.base)

    @route("POST", REQUESTS, "POST /projects/{id}/merge_requests", needs=WRITE, level="write")
    def create_request(self, call: Call) -> Reply:
        body, repository, heads = call.body, call.repository, call.repository.heads()
        head, base = body["source_branch"], body["target_branch"]
        self._refuse_long_title(body)
        if head == base:
            raise CallRefused(422, {"message": ["You can't use same project/branch for source and target"]})
        if head not in heads:
            raise CallRefused(400, {"message": {"source_branch": ["does not exist"]}})
        if base not in heads:
            raise CallRefused(400, {"message": {"target_branch": ["does not exist"]}})
        if existing := repository.open_pull(head, base):
            raise self._refuse_duplicate(existing)
        text = body.get("description") or ""
        pull = self.open(repository, author=call.user, head=head, base=base, title=body["title"], body=text)
        self._apply_changes(pull, body)
        return Reply(201, self.shapes.merge_request(pull, call.user))

    def _refuse_long_title(self, body: Json) -> None:
        if len(body.get("title") or "") > MAX_TITLE_CHARS:
            message = f"is too long (maximum is {MAX_TITLE_CHARS} characters)"
            raise CallRefused(400, {"message": {"title": [message]}})

    def _refuse_duplicate(self, existing: Pull) -> CallRefused:
        message = f"Another open merge request already exists for this source branch: !{existing.number}"
        return CallRefused(409, {"message": [message]})

    @route("GET", REQUEST, "GET /projects/{id}/merge_requests/{merge_request_iid}", needs=READ)
    def get_request(self, call: Call) -> Reply:
        return Reply(200, self.shapes.merge_request(self.find_requested_pull(call), call.user))

    @route("PUT", REQUEST, "PUT /projects/{id}/merge_requests/{merge_request_iid}", needs=WRITE, level="write")
    def update_request(self, call: Call) -> Reply:
        """Updates a merge request. GitLab answers 200 even for a state change that is not possible."""
        pull, body = self.find_requested_pull(call), call.body or {}
        if not body:
            raise self.refusal(400, "request", ["title: at least one parameter must be provided"])
        self._refuse_long_title(body)
        event = body.get("state_event")
        if event == "reopen" and pull.state == "closed" and not pull.merged and pull.head in pull.repository.heads():
            if existing := pull.repository.open_pull(pull.head, pull.base):
                raise self._refuse_duplicate(existing)
            self.set_pull_state(pull, "open", call.user, "reopened")
        elif event == "close" and pull.state == "open":
            self.set_pull_state(pull, "closed", call.user, "closed")
        pull.title, pull.body = body.get("title", pull.title), body.get("description", pull.body)
        pull.base, pull.updated = body.get("target_branch", pull.base), now()
        self._apply_changes(pull, body)
        return self.get_request(call)

    def _apply_changes(self, pull: Pull, body: Json) -> None:
        """Applies the changes. Creates labels that do not exist; ignores unknown reviewers."""
        if "labels" in body:
            pull.labels = _split_names(body["labels"])
        labels = [name for name in pull.labels if name not in _split_names(body.get("remove_labels", ""))]
        pull.labels = labels + [name for name in _split_names(body.get("add_labels", "")) if name not in labels]
        if "reviewer_ids" in body:
            readers = [user for user in self.users.values() if user.id in body["reviewer_ids"] and user.may("read")]
            readers.sort(key=lambda user: body["reviewer_ids"].index(user.id))
            pull.reviewers = readers[: self.max_reviewers]

    @route("GET", NOTES, "GET /projects/{id}/merge_requests/{noteable_id}/notes", needs=READ)
    def list_notes(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        notes = [self.shapes.note(pull, one) for one in pull.comments]
        return self.paginate_reply(call, notes if call.query.get("sort") == "asc" else notes[::-1])

    @route("POST", NOTES, "POST /projects/{id}/merge_requests/{noteable_id}/notes", needs=WRITE)
    def create_note(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        comment = self.add_comment(pull, Comment(self.new_id(), call.user, call.body["body"]))
        return Reply(201, self.shapes.note(pull, comment))

    # Webhooks.

    def announce_event(self, event: str, pull: Pull, who: User, comment: Comment | None) -> None:
        if self.webhooks.hooks:
            described = gitlab_webhooks.NoteEvent if comment else gitlab_webhooks.MergeRequestEvent
            payload = gitlab_webhooks.build_payload(self.shapes, event, pull, who, comment)
            self.publish("note" if comment else "merge_request", described, payload)

    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        return gitlab_webhooks.build_headers(delivery, hook, self.url)


def _split_names(value: Any) -> list[str]:
    return [name for name in (value.split(",") if isinstance(value, str) else value) if name]


def _format_problem(problem: str) -> str:
    """Formats a schema problem in GitLab's words."""
    name, _, message = problem.partition(": ")
    if message == "Field required":
        return f"{name} is missing"
    return f"{name} does not have a valid value" if message.startswith("Input should be '") else f"{name} is invalid"
