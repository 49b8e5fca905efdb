"""GitHub's behavior common to all calls: versions, tokens, errors, rate limits, pages and webhooks."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.forges import github_published as published
from tests.support.forges.base import FakeForge, RawResponse
from tests.support.forges.calls import Call, CallRefused, Reply, build_link_header, paginate
from tests.support.forges.faults import Fault
from tests.support.forges.github_app import App, expand_permissions
from tests.support.forges.github_shapes import GitHubShapes, Json
from tests.support.forges.schema import Operation, build_query_model
from tests.support.forges.state import Comment, Pull, Repository, Token, User
from tests.support.forges.webhooks import Delivery, Hook

DOCS_URL = "https://docs.github.com/rest"
FIELDS_REMOVED_IN_2026 = ("merge_commit_sha", "assignee", "has_downloads")  # in version 2026-03-10
EVENT_MODEL_SUFFIXES = {"opened": "Opened", "closed": "Closed", "merged": "Closed", "reopened": "Reopened"}


class GitHubBase(FakeForge):
    kind, prefix = "GitHub", "/api/v3"
    all_scopes = expand_permissions(dict.fromkeys(("contents", "pull_requests", "issues"), "write"))
    rejection_text = (
        "error: GH013: Repository rule violations found for REF.\n"
        "Review all repository rules at https://github.com/acme/docs/rules?ref=REF\n\n"
        "- Cannot create ref due to creations being restricted.\n"
        "  Found 1 violation:\n\n  027faa7121ee9df79db623e1a2848d2cc88a8dba\n\n"
    )
    signature_rules = ("required_signatures",)
    read_scopes, push_scopes = ("contents=read", "contents=write"), ("contents=write",)

    def __init__(self, folder: Path, repository: str = "acme/docs", **about: Any) -> None:
        self.app: App | None = None
        super().__init__(folder, repository, **about)

    @property
    def shapes(self) -> GitHubShapes:
        return GitHubShapes(self.url)

    def operation(self, name: str, call: Call) -> Operation:
        if name == "graphql":
            return Operation("POST /graphql", build_query_model(name, {}), dict[str, Any], dict[str, Any])
        version = call.headers.get("x-github-api-version", published.DEFAULT_VERSION)
        if version not in published.VERSIONS:
            raise self.refusal(400, "version")
        return published.operation(version, name)

    def read_token(self, call: Call) -> str | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        return value if scheme.lower() in ("bearer", "token") else None

    def authenticate(self, call: Call) -> Token | None:
        if "user-agent" not in call.headers:
            raise self.refusal(403, "agent")
        if not (call.path.startswith("/app/") or call.path.endswith("/installation")):
            return super().authenticate(call)
        wrong = "Integration not found" if self.app is None else self.app.find_jwt_problem(self.read_token(call) or "")
        if wrong:
            raise self.error(401, wrong)
        return None

    def effective_scopes(self, token: Token) -> frozenset[str]:
        """Expands the `repo` scope of a classic token to all scopes."""
        return self.all_scopes if "repo" in token.scopes else super().effective_scopes(token)

    def scope_refusal(self, token: Token, needs: list[str]) -> CallRefused:
        return self.refusal(403, "integration" if token.user.kind == "Bot" else "scope", needs)

    def find_repository_name(self, call: Call) -> str | None:
        return f"{call.params['owner']}/{call.params['repo']}" if "repo" in call.params and call.token else None

    def redirect_to_renamed(self, call: Call, repository: Repository) -> CallRefused:
        rest = call.path.split("/", 4)[4:]
        target = "/".join([f"{self.api}/repositories/{repository.id}", *rest])
        data = {"message": "Moved Permanently", "url": target, "documentation_url": DOCS_URL}
        return CallRefused(301 if call.method == "GET" else 307, data, {"Location": target})

    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> CallRefused:
        messages = {
            "json": "Problems parsing JSON",
            "version": "The given API version is not supported.",
            "agent": "Request forbidden by administrative rules. Please make sure you send a User-Agent header.",
            "archived": "Repository was archived so is read-only.",
            "level": "Must have push access to the repository.",
            "scope": "Resource not accessible by personal access token",
            "integration": "Resource not accessible by integration",
            "request": "Invalid request.\n\n" + "\n".join(_format_problem(one) for one in details or []),
        }
        plain = {401: "Bad credentials", 404: "Not Found"}
        accepted = {"X-Accepted-GitHub-Permissions": "; ".join(details)} if details and why != "request" else {}
        return self.error(status, messages.get(why) or plain[status], headers=accepted)

    def error(self, status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any) -> CallRefused:
        number = {} if status == 422 else {"status": str(status)}
        return CallRefused(status, {"message": message, **more, "documentation_url": DOCS_URL, **number}, headers)

    def invalid(self, **error: str) -> CallRefused:
        return self.error(422, "Validation Failed", errors=[{"resource": "PullRequest", **error}])

    def common_headers(self, call: Call | None) -> dict[str, str]:
        used = len(self.requests) % 5000
        classic = call is not None and call.token is not None and "repo" in call.token.scopes
        return {
            "X-OAuth-Scopes": "repo" if classic else "",
            "X-Accepted-OAuth-Scopes": "repo" if classic else "",
            "X-GitHub-Request-Id": str(uuid4()).upper(),
            "X-GitHub-Media-Type": "github.v3; format=json",
            **_rate_limit_headers(5000 - used, used, int(time.time()) + 3600),
        }

    def rate_limit_response(self, fault: Fault) -> RawResponse:
        seconds = int(fault.seconds)
        if fault.kind == "primary":
            headers = _rate_limit_headers(0, 5000, int(time.time()) + seconds)
            message = "API rate limit exceeded for user ID 1."
        else:
            headers = {"Retry-After": str(seconds)} if seconds else {}
            message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        data = self.error(fault.status, message).reply.data
        return fault.status, [("Content-Type", "application/json"), *headers.items()], json.dumps(data).encode()

    def adjust_response(self, call: Call, data: Any) -> Any:
        """Adjusts the data to the requested API version."""
        newer = call.headers.get("x-github-api-version", published.DEFAULT_VERSION) > published.DEFAULT_VERSION
        return _remove_fields(data, FIELDS_REMOVED_IN_2026) if newer else data

    def canonical_path(self, path: str) -> str:
        """Resolves a repository number in the path; redirects of renamed repositories use numbers."""
        names = {f"/repositories/{one.id}": f"/repos/{one.path}" for one in self.repositories.values()}
        prefix = "/".join(path.split("/")[:3])
        return path.replace(prefix, names[prefix], 1) if prefix in names else path

    def paginate_reply(self, call: Call, items: list[Json]) -> Reply:
        page_items, number, pages = paginate(call, items)
        link = build_link_header(self.api, call, number, pages)
        return Reply(200, page_items, {"Link": link} if link else {})

    def find_requested_pull(self, call: Call) -> Pull:
        number = call.params.get("pull_number") or call.params["issue_number"]
        pull = call.repository.find(int(number))
        if pull is None:
            raise self.refusal(404)
        return pull

    def announce_event(self, event: str, pull: Pull, who: User, comment: Comment | None) -> None:
        if not self.webhooks.hooks:
            return
        shapes = self.shapes
        about: Json = {"repository": shapes.repository(pull.repository), "sender": shapes.user(who)}
        if self.app:
            about["installation"] = {"id": self.app.installation, "node_id": f"I_{self.app.installation}"}
        if comment is None:
            name = EVENT_MODEL_SUFFIXES[event]
            payload = {"action": name.lower(), "number": pull.number, "pull_request": shapes.pull(pull), **about}
            self.publish("pull_request", published.model(f"WebhookPullRequest{name}"), payload)
        elif comment.file is None:
            payload = {
                "action": "created",
                "issue": shapes.issue(pull),
                "comment": shapes.comment(pull, comment),
                **about,
            }
            self.publish("issue_comment", published.model("WebhookIssueCommentCreated"), payload)
        else:
            comment_data = shapes.review_comment(pull, comment)
            payload = {"action": "created", "pull_request": shapes.simple_pull(pull), "comment": comment_data, **about}
            described = published.model("WebhookPullRequestReviewCommentCreated")
            self.publish("pull_request_review_comment", described, payload)

    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        key = hook.secret.encode()
        return {
            "User-Agent": "GitHub-Hookshot/0000000",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.id,
            "X-GitHub-Hook-ID": str(hook.id),
            "X-GitHub-Hook-Installation-Target-ID": str(self.repository.id),
            "X-GitHub-Hook-Installation-Target-Type": "repository",
            "X-Hub-Signature": f"sha1={hmac.new(key, delivery.body, hashlib.sha1).hexdigest()}",
            "X-Hub-Signature-256": f"sha256={hmac.new(key, delivery.body, hashlib.sha256).hexdigest()}",
        }


def _rate_limit_headers(remaining: int, used: int, reset: int) -> dict[str, str]:
    numbers = {"Limit": 5000, "Remaining": remaining, "Used": used, "Reset": reset}
    return {**{f"X-RateLimit-{name}": str(value) for name, value in numbers.items()}, "X-RateLimit-Resource": "core"}


def _format_problem(problem: str) -> str:
    """Formats a schema problem in GitHub's words."""
    name, _, message = problem.partition(": ")
    return f'"{name}" wasn\'t supplied.' if message == "Field required" else f"For 'properties/{name}', {message}."


def _remove_fields(data: Any, names: tuple[str, ...]) -> Any:
    if isinstance(data, dict):
        return {name: _remove_fields(value, names) for name, value in data.items() if name not in names}
    return [_remove_fields(one, names) for one in data] if isinstance(data, list) else data
