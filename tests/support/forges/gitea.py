"""A fake Gitea or Forgejo, checked against the schema in pyforgejo."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from tests.support.forges import gitea_published as published
from tests.support.forges.base import FakeForge, RawResponse
from tests.support.forges.calls import Call, CallRefused, Reply, build_link_header, paginate, route
from tests.support.forges.faults import Fault
from tests.support.forges.gitea_shapes import GiteaShapes, Json
from tests.support.forges.schema import Operation
from tests.support.forges.state import Comment, Pull, Repository, Token, User, now
from tests.support.forges.webhooks import Delivery, Hook

REPO, PULL, ISSUE = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues"
READ, WRITE = ("read:repository", "write:repository"), ("write:repository",)
READ_ISSUES, WRITE_ISSUES = ("read:issue", "write:issue"), ("write:issue",)
READ_USER = ("read:user", "write:user")
COMMENT_EVENT_TYPES = {"comment": "pull_request_comment", "review_comment": "pull_request_review_comment"}
"""Values of X-Gitea-Event-Type; X-Gitea-Event is coarser."""


class Gitea(FakeForge):
    kind, prefix = "Gitea", "/api/v1"
    all_scopes = frozenset({"write:repository", "write:issue", "read:user"})
    read_scopes, push_scopes = READ, WRITE
    new_id_again = True
    headers: tuple[str, ...] = ("Gitea", "Gogs", "GitHub")
    """The prefixes of webhook headers."""

    @property
    def shapes(self) -> GiteaShapes:
        return GiteaShapes(self.url)

    def operation(self, name: str, call: Call) -> Operation:
        matched_route = next(one for one in self.routes if one.operation == name)
        return published.operation(name, matched_route.method, matched_route.path)

    def read_token(self, call: Call) -> str | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        return value if scheme.lower() in ("token", "bearer") else None

    def authenticate(self, call: Call) -> Token | None:
        if self.read_token(call) is None and call.method == "GET" and call.path != "/user":
            return None
        return super().authenticate(call)

    def find_repository_name(self, call: Call) -> str | None:
        return f"{call.params['owner']}/{call.params['repo']}" if "repo" in call.params else None

    def redirect_to_renamed(self, call: Call, repository: Repository) -> CallRefused:
        rest = call.path.split("/", 4)[4:]
        target = "/".join([f"{self.api}/repos/{repository.path}", *rest])
        return CallRefused(301, self._error_data("Moved."), {"Location": target})

    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> CallRefused:
        details_text = " ".join(one for one in details or [])
        messages = {
            "json": "invalid JSON",
            "level": "user should have a permission to write to a repo",
            "scope": f"token does not have at least one of required scope(s), required=[{details_text}]",
            "request": json.dumps([{"fieldNames": [one.partition(":")[0]], "message": one} for one in details or []]),
            "archived": "repo is archived",
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

    def paginate_reply(self, call: Call, items: list[Json]) -> Reply:
        page_items, number, pages = paginate(call, items, size="limit")
        return Reply(
            200,
            page_items,
            {"X-Total-Count": str(len(items)), "Link": build_link_header(self.api, call, number, pages)},
        )

    def find_requested_pull(self, call: Call) -> Pull:
        pull = call.repository.find(int(call.params["index"]))
        if pull is None:
            raise self.refusal(404)
        return pull

    # The repository and people.

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
        """Answers 201, as Gitea and Forgejo do."""
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
            self.set_pull_state(pull, to, call.user, "reopened" if to == "open" else "closed")
        return Reply(201, self.shapes.pull(pull))

    @route(
        "POST", PULL + "/{index:int}/requested_reviewers", "repository.repo_create_pull_review_requests", needs=WRITE
    )
    def request_reviewers(self, call: Call) -> Reply:
        pull, reviewers = self.find_requested_pull(call), []
        for login in (call.body or {}).get("reviewers") or []:
            user = self.users.get(login)
            if user is None:
                raise self._refuse(404, f"user doesn't exist: {login}")
            if user is pull.author or not user.may("read"):
                message = "poster of pr can't be reviewer" if user is pull.author else "Reviewer can't read"
                raise self._refuse(422, f"{message} [user_id: {user.id}, repo_id: {pull.repository.id}]")
            reviewers.append(user)
        pull.reviewers += [user for user in reviewers if user not in pull.reviewers]
        return Reply(201, [self.shapes.review_request(pull, user) for user in reviewers])

    @route("GET", PULL + "/{base}/{head:rest}", "repository.repo_get_pull_request_by_base_head", needs=READ)
    def find_pull(self, call: Call) -> Reply:
        """Finds a pull request in any state, including one that was closed long ago."""
        head = call.params["head"].rpartition(":")[2]
        for pull in call.repository.pulls:
            if (pull.base, pull.head) == (call.params["base"], head) and pull.unlisted <= 0:
                return Reply(200, self.shapes.pull(pull))
        raise self.refusal(404)

    # Issue features of a pull request.

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
        return self.paginate_reply(call, [self.shapes.label(call.repository, name) for name in call.repository.labels])

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
                **published.CHECK_OPTIONS,
            )
            return
        review = {"type": COMMENT_EVENT_TYPES["review_comment"], "content": ""} if comment else None
        action = "reviewed" if comment else "closed" if event == "merged" else event
        rest = {"requested_reviewer": about["sender"] if comment else None, "commit_id": "", "review": review}
        payload = {"action": action, "number": pull.number, **about, **rest}
        self.publish(event, published.PullRequestPayload, payload, **published.CHECK_OPTIONS)

    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        key = hook.secret.encode()
        kind = COMMENT_EVENT_TYPES.get(delivery.event, "pull_request")
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
    headers = ("Forgejo", *Gitea.headers)
