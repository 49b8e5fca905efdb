"""A fake Gitea or Forgejo of a given version, checked against the schema in pyforgejo and against Gitea's own."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tests.support.forges import gitea_published as published
from tests.support.forges import gitea_versions as versions
from tests.support.forges.base import FakeForge, RawResponse
from tests.support.forges.calls import Call, CallRefused, Reply, Route, build_link_header, paginate, route
from tests.support.forges.faults import Fault
from tests.support.forges.gitea_shapes import GiteaShapes, Json
from tests.support.forges.gitea_swagger import find_request_problems
from tests.support.forges.schema import Operation
from tests.support.forges.state import Comment, Pull, Repository, Token, User, list_pull_commits, now
from tests.support.forges.webhooks import Delivery, Hook

REPO, PULL, ISSUE = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues"
READ, WRITE = ("read:repository", "write:repository"), ("write:repository",)
READ_ISSUES, WRITE_ISSUES = ("read:issue", "write:issue"), ("write:issue",)
READ_USER = ("read:user", "write:user")
COMMENT_EVENT_TYPES = {"comment": "pull_request_comment", "review_comment": "pull_request_review_comment"}
"""Values of X-Gitea-Event-Type; X-Gitea-Event is coarser."""
REPOSITORY_EVENTS = ("push", "create", "release")
MAX_RESPONSE_ITEMS = 50
"""The server's default limit on the items of a page, whatever the caller asks for."""


class Gitea(FakeForge):
    kind, prefix = "Gitea", "/api/v1"
    all_scopes = frozenset({"write:repository", "write:issue"})
    """The least that our documentation asks for."""
    read_scopes, push_scopes = READ, WRITE
    new_id_again = True
    checks_requests: ClassVar[bool] = False
    """Whether requests must be among those that our adapter sends, with the fields that every version knows."""
    headers: tuple[str, ...] = ("Gitea", "Gogs", "GitHub")
    """The prefixes of webhook headers."""
    newest_version: ClassVar[str] = versions.GITEA_VERSIONS["gitea-1.24"]

    def __init__(
        self, folder: Path, repository: str = "acme/docs", *, version: str | None = None, **about: Any
    ) -> None:
        self.version_text = version or self.newest_version
        """As `/version` returns it; a server built from source may return a text without numbers."""
        self.version = versions.parse_version(self.version_text if self.version_text[0].isdigit() else "1.24")
        self.rejection_text = versions.format_refusal(self.kind, self.version)
        self.organizations: dict[str, list[str]] = {}
        """The teams of each organization. The other owners of repositories are people, who have no teams."""
        self.requested_teams: dict[int, list[str]] = {}
        super().__init__(folder, repository, **about)

    @property
    def shapes(self) -> GiteaShapes:
        return GiteaShapes(self.url, self.version)

    def operation(self, name: str, call: Call) -> Operation:
        matched_route = next(one for one in self.routes if one.operation == name)
        described = published.operation(name, matched_route.method, matched_route.path)
        return replace(described, complete_models=self._complete_models)

    @property
    def _complete_models(self) -> Mapping[Any, frozenset[str]]:
        return published.list_complete_fields(versions.list_absent_pull_fields(self.version))

    def _route(self, call: Call) -> Route:
        """Refuses a route that this version lacks: the adapter must know."""
        matched_route = super()._route(call)
        if self.version < versions.ROUTES_SINCE.get(matched_route.operation, (0, 0)):
            self.violations.append(f"{call.method} {call.path}: not in version {self.version_text}")
            raise CallRefused(404, None)
        return matched_route

    def _read(self, call: Call, operation: Operation, body: bytes) -> None:
        super()._read(call, operation, body)
        if self.checks_requests:
            problems = find_request_problems(operation.line, call.query, call.body, self.version)
            self.violations += [f"{call.method} {call.path}: {problem}" for problem in problems]

    def read_token(self, call: Call) -> str | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        return value if scheme.lower() in ("token", "bearer") else None

    def authenticate(self, call: Call) -> Token | None:
        token = self.tokens.get(self.read_token(call) or "")
        if token is not None and token.alive:
            return token
        if self.read_token(call) is not None and self.version >= versions.REFUSES_UNKNOWN_TOKENS_SINCE:
            raise self._refuse(401, "user does not exist [uid: 0, name: ]")
        if call.method != "GET" or call.path == "/user":
            raise self._refuse(401, "token is required")
        return None

    def effective_scopes(self, token: Token) -> frozenset[str]:
        return token.scopes if self.version >= versions.SCOPES_SINCE else self.all_scopes

    def find_repository_name(self, call: Call) -> str | None:
        return f"{call.params['owner']}/{call.params['repo']}" if "repo" in call.params else None

    def redirect_to_renamed(self, call: Call, repository: Repository) -> CallRefused:
        rest = call.path.split("/", 4)[4:]
        target = "/".join([f"{self.base_path}{self.prefix}/repos/{repository.path}", *rest])
        return CallRefused(versions.redirect_status(self.version), self._error_data("Moved."), {"Location": target})

    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> CallRefused:
        details_text = " ".join(one for one in details or [])
        messages = {
            "json": "invalid JSON",
            "level": "user should have a permission to write to a repo",
            "scope": f"token does not have at least one of required scope(s), required=[{details_text}]",
            "request": json.dumps([{"fieldNames": [one.partition(":")[0]], "message": one} for one in details or []]),
            "archived": "repo is archived",
            "person": "repo is not owned by an organization",
        }
        plain = {401: "invalid username, password or token", 404: "The target couldn't be found."}
        real = 423 if why == "archived" else status
        return CallRefused(real, self._error_data(messages.get(why) or plain[status]))

    def _error_data(self, message: str) -> Json:
        return {"message": message, "url": f"{self.url}/api/swagger"}

    def _refuse(self, status: int, message: str) -> CallRefused:
        return CallRefused(status, self._error_data(message))

    def rate_limit_response(self, fault: Fault) -> RawResponse:
        """Answers as a proxy: Gitea and Forgejo have no rate limits."""
        headers = [("Content-Type", "text/plain"), ("Retry-After", str(int(fault.seconds)))]
        return 429, headers, b"Too Many Requests\n"

    def paginate_reply(self, call: Call, items: list[Json], *, with_links: bool = True) -> Reply:
        """Returns a page with the Link header, which only lists of pull requests and their commits have."""
        limit = min(int(call.query.get("limit", MAX_RESPONSE_ITEMS)), MAX_RESPONSE_ITEMS)
        call.query["limit"] = str(limit)
        page_items, number, pages = paginate(call, items, size="limit")
        headers = {"X-Total-Count": str(len(items))}
        if with_links:
            headers["Link"] = build_link_header(self.api, call, number, pages)
        return Reply(200, page_items, headers)

    def find_requested_pull(self, call: Call) -> Pull:
        pull = call.repository.find(int(call.params["index"]))
        if pull is None:
            raise self.refusal(404)
        return pull

    # The server, the repository and people.

    @route("GET", "/version", "miscellaneous.get_version")
    def get_version(self, call: Call) -> Reply:
        return Reply(200, {"version": self.version_text})

    @route("GET", REPO, "repository.repo_get", needs=READ)
    def get_repository(self, call: Call) -> Reply:
        return Reply(200, self.shapes.repository(call.repository, call.token.user if call.token else None))

    @route("GET", "/user", "user.get_current", needs=READ_USER)
    def get_user(self, call: Call) -> Reply:
        return Reply(200, self.shapes.user(call.user))

    @route("GET", REPO + "/collaborators/{collaborator}/permission", "repository.repo_get_repo_permissions", needs=READ)
    def get_permission(self, call: Call) -> Reply:
        """Returns a permission; users who are not admins may only read their own."""
        login = call.params["collaborator"]
        if not call.user.may("admin") and call.user.login != login:
            data = (
                "Only admins can query all permissions, repo admins can query all repo permissions, collaborators can"
            )
            raise self._refuse(403, f"{data} query only their own")
        user = self.users.get(login)
        if user is None:
            raise self._refuse(404, f"user does not exist [uid: 0, name: {login}]")
        level = {"maintain": "write", "triage": "read"}.get(user.access, user.access)
        return Reply(200, {"permission": level, "role_name": level, "user": self.shapes.user(user)})

    # Pull requests.

    @route("GET", PULL, "repository.repo_list_pull_requests", needs=READ)
    def list_pulls(self, call: Call) -> Reply:
        """Lists pull requests; there is no filter by branch."""
        state = call.query.get("state", "open")
        pulls = [pull for pull in self.visible_pulls(call.repository.pulls) if state in (pull.state, "all")]
        if call.query.get("sort") == "recentupdate":
            pulls.sort(key=lambda pull: pull.updated, reverse=True)
        return self.paginate_reply(call, [self.shapes.pull(pull) for pull in pulls])

    @route("POST", PULL, "repository.repo_create_pull_request", needs=WRITE)
    def create_pull(self, call: Call) -> Reply:
        body, repository, heads = call.body or {}, call.repository, call.repository.heads()
        missing = [f"{name}: Required" for name in ("head", "base", "title") if not body.get(name)]
        if missing:
            self.violations += [f"{call.method} {call.path}: {one}" for one in missing]
            raise self.refusal(422, "request", missing)
        owner, _, head = body["head"].rpartition(":")
        base = body["base"]
        if head == base:
            message = "Invalid PullRequest: There are no changes between the head and the base"
            raise self._refuse(422, message)
        if head not in heads or base not in heads or owner not in ("", repository.owner):
            raise self.refusal(404)
        if existing := repository.open_pull(head, base):
            raise self._refuse_duplicate(existing)
        pull = self.open(
            repository, author=call.user, head=head, base=base, title=body["title"], body=body.get("body") or ""
        )
        pull.labels = self._resolve_label_names(repository, body.get("labels") or [])
        return Reply(201, self.shapes.pull(pull))

    def _refuse_duplicate(self, existing: Pull) -> CallRefused:
        ids = f"id: {existing.id}, issue_id: {existing.number}, head_repo_id: {existing.repository.id}, base_repo_id: "
        ends = f"{existing.repository.id}, head_branch: {existing.head}, base_branch: {existing.base}"
        return self._refuse(409, f"pull request already exists for these targets [{ids}{ends}]")

    @route("GET", PULL + "/{index:int}", "repository.repo_get_pull_request", needs=READ)
    def get_pull(self, call: Call) -> Reply:
        return Reply(200, self.shapes.pull(self.find_requested_pull(call)))

    @route("PATCH", PULL + "/{index:int}", "repository.repo_edit_pull_request", needs=WRITE)
    def edit_pull(self, call: Call) -> Reply:
        """Answers 201. A pull request that is reopened here does not get the commits that were pushed meanwhile."""
        pull, body = self.find_requested_pull(call), call.body or {}
        to = body.get("state") or pull.state
        if pull.author is not call.user and not call.user.may("write"):
            raise self.refusal(403, "level")
        if to != pull.state and pull.merged:
            raise self._refuse(412, "cannot change state of this pull request, it was already merged")
        if body.get("base", pull.base) not in pull.repository.heads():
            raise self._refuse(404, f"new base '{body['base']}' not exist")
        if to == "open" and pull.state == "closed" and (existing := pull.repository.open_pull(pull.head, pull.base)):
            raise self._refuse_duplicate(existing)
        pull.title, pull.body = body.get("title") or pull.title, body.get("body", pull.body)
        pull.base, pull.updated = body.get("base", pull.base), now()
        if body.get("labels") is not None:
            pull.labels = self._resolve_label_names(pull.repository, body["labels"])
        if to != pull.state:
            pull.is_outdated = to == "open"
            self.set_pull_state(pull, to, call.user, "reopened" if to == "open" else "closed")
        return Reply(201, self.shapes.pull(pull))

    @route(
        "POST", PULL + "/{index:int}/requested_reviewers", "repository.repo_create_pull_review_requests", needs=WRITE
    )
    def request_reviewers(self, call: Call) -> Reply:
        """Adds reviewers. Returns only the new ones, and ignores teams in a person's repository."""
        pull, reviewers = self.find_requested_pull(call), []
        for login in (call.body or {}).get("reviewers") or []:
            user = self.users.get(login)
            if user is None:
                raise self._refuse(404, f"user doesn't exist: {login}")
            if user is pull.author or not user.may("read"):
                message = "poster of pr can't be reviewer" if user is pull.author else "Reviewer can't read"
                raise self._refuse(422, f"{message} [user_id: {user.id}, repo_id: {pull.repository.id}]")
            reviewers.append(user)
        added = [user for user in reviewers if user not in pull.reviewers]
        pull.reviewers += added
        shapes = [self.shapes.review_request(pull, user) for user in added]
        return Reply(
            201, shapes + [self.shapes.team_review_request(pull, team) for team in self._add_teams(call, pull)]
        )

    def _add_teams(self, call: Call, pull: Pull) -> list[str]:
        """Returns the teams that were added; those that were requested before, or of a person, are left out."""
        teams = self.organizations.get(call.repository.owner)
        requested = self.requested_teams.setdefault(pull.number, [])
        added = []
        for team in (call.body or {}).get("team_reviewers") or [] if teams is not None else []:
            if team not in (teams or []):
                raise self._refuse(404, f"Team '{team}' not exist")
            if team not in requested:
                added.append(team)
        requested += added
        return added

    @route("GET", PULL + "/{index:int}/reviews", "repository.repo_list_pull_reviews", needs=READ)
    def list_reviews(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        reviews = [self.shapes.review_request(pull, user) for user in pull.reviewers]
        teams = self.requested_teams.get(pull.number, [])
        reviews += [self.shapes.team_review_request(pull, team) for team in teams]
        reviews += [self.shapes.line_review(pull, comment) for comment in pull.comments if comment.file]
        return self.paginate_reply(call, reviews, with_links=False)

    @route("GET", PULL + "/{index:int}/commits", "repository.repo_get_pull_request_commits", needs=READ)
    def list_commits(self, call: Call) -> Reply:
        """Returns the pull request's own commits: later pushes to the branch of a merged one are not among them."""
        pull = self.find_requested_pull(call)
        pull.update_heads()
        commits = [self.shapes.commit(pull.repository, commit) for commit in list_pull_commits(pull)]
        return self.paginate_reply(call, commits)

    @route("GET", PULL + "/{base}/{head:rest}", "repository.repo_get_pull_request_by_base_head", needs=READ)
    def find_pull(self, call: Call) -> Reply:
        """Finds a pull request in any state, including one that was closed long ago."""
        head = call.params["head"].rpartition(":")[2]
        for pull in call.repository.pulls:
            if (pull.base, pull.head) == (call.params["base"], head) and pull.unlisted <= 0:
                return Reply(200, self.shapes.pull(pull))
        raise self.refusal(404)

    # Issue features of a pull request.

    @route("GET", ISSUE + "/{index:int}", "issue.get_issue", needs=READ_ISSUES)
    def get_issue(self, call: Call) -> Reply:
        return Reply(200, self.shapes.issue(self.find_requested_pull(call)))

    @route("GET", ISSUE + "/{index:int}/comments", "issue.get_comments", needs=READ_ISSUES)
    def list_comments(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        return Reply(200, [self.shapes.comment(pull, one) for one in pull.comments if one.file is None])

    @route("POST", ISSUE + "/{index:int}/comments", "issue.create_comment", needs=WRITE_ISSUES)
    def create_comment(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        comment = self.add_comment(pull, Comment(self.new_id(), call.user, call.body["body"]))
        return Reply(201, self.shapes.comment(pull, comment))

    @route("GET", REPO + "/labels", "issue.list_labels", needs=READ_ISSUES)
    def list_labels(self, call: Call) -> Reply:
        labels = [self.shapes.label(call.repository, name) for name in call.repository.labels]
        return self.paginate_reply(call, labels, with_links=False)

    @route("POST", REPO + "/labels", "issue.create_label", needs=WRITE_ISSUES, level="write")
    def create_label(self, call: Call) -> Reply:
        call.repository.label(call.body["name"])
        return Reply(201, self.shapes.label(call.repository, call.body["name"]))

    @route("POST", ISSUE + "/{index:int}/labels", "issue.add_label", needs=WRITE_ISSUES, level="write")
    def add_labels(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        pull.labels += [
            one for one in self._resolve_label_names(pull.repository, call.body["labels"]) if one not in pull.labels
        ]
        return Reply(200, [self.shapes.label(pull.repository, name) for name in pull.labels])

    def _resolve_label_names(self, repository: Repository, names_or_ids: list[Any]) -> list[str]:
        """Returns the labels of the repository with these ids or names; ignores unknown ones."""
        return [name for name, number in repository.labels.items() if name in names_or_ids or number in names_or_ids]

    # Webhooks.

    @property
    def _check_options(self) -> dict[str, Any]:
        return {**published.CHECK_OPTIONS, "complete_models": self._complete_models}

    def announce_event(self, event: str, pull: Pull, who: User, comment: Comment | None) -> None:
        if not self.webhooks.hooks:
            return
        shapes = self.shapes
        pull_data = shapes.pull(pull)
        about: Json = {
            "pull_request": pull_data,
            "repository": shapes.repository(pull.repository),
            "sender": shapes.user(who),
        }
        if comment is not None and comment.file is None:
            comment_payload = {"issue": shapes.issue(pull), "comment": shapes.comment(pull, comment), "is_pull": True}
            self.publish(
                event,
                published.IssueCommentPayload,
                {"action": "created", **comment_payload, **about},
                **self._check_options,
            )
            return
        review = {"type": COMMENT_EVENT_TYPES["review_comment"], "content": ""} if comment else None
        action = "reviewed" if comment else "closed" if event == "merged" else event
        rest = {"requested_reviewer": about["sender"] if comment else None, "commit_id": "", "review": review}
        payload = {"action": action, "number": pull.number, **about, **rest}
        self.publish(event, published.PullRequestPayload, payload, **self._check_options)

    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        key = hook.secret.encode()
        other = delivery.event if delivery.event in REPOSITORY_EVENTS else "pull_request"
        kind = COMMENT_EVENT_TYPES.get(delivery.event, other)
        coarse = {"comment": "issue_comment", "review_comment": "pull_request_comment"}.get(delivery.event, kind)
        sha256 = hmac.new(key, delivery.body, hashlib.sha256).hexdigest()
        headers = {
            "X-Hub-Signature": f"sha1={hmac.new(key, delivery.body, hashlib.sha1).hexdigest()}",
            "X-Hub-Signature-256": f"sha256={sha256}",
        }
        for name in self.headers:
            about = {"Delivery": delivery.id, "Event": coarse, "Event-Type": kind}
            headers |= {f"X-{name}-{key}": value for key, value in about.items()}
            headers |= {f"X-{name}-Signature": sha256} if name != "GitHub" else {}
        return headers


class Forgejo(Gitea):
    kind = "Forgejo"
    newest_version = versions.FORGEJO_VERSIONS["forgejo-12"]
    headers = ("Forgejo", *Gitea.headers)
