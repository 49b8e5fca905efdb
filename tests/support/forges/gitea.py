"""A fake Gitea or Forgejo, checked against the schema in pyforgejo."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from tests.support.forges import gitea_published as published
from tests.support.forges.base import Forge, Wire
from tests.support.forges.calls import Call, Refused, Reply, links, page, route
from tests.support.forges.faults import Fault
from tests.support.forges.gitea_shapes import Json, Shapes
from tests.support.forges.schema import Operation
from tests.support.forges.state import Comment, Pull, Repository, Token, User, now
from tests.support.forges.webhooks import Delivery, Hook

REPO, PULL, ISSUE = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues"
READ, WRITE = ("read:repository", "write:repository"), ("write:repository",)
READ_ISSUES, WRITE_ISSUES = ("read:issue", "write:issue"), ("write:issue",)
READ_USER = ("read:user", "write:user")
TYPES = {"comment": "pull_request_comment", "review_comment": "pull_request_review_comment"}
"""Values of X-Gitea-Event-Type; X-Gitea-Event is coarser."""


class Gitea(Forge):
    kind, prefix = "Gitea", "/api/v1"
    all_scopes = frozenset({"write:repository", "write:issue", "read:user"})
    read_scopes, push_scopes = READ, WRITE
    new_id_again = True
    headers: tuple[str, ...] = ("Gitea", "Gogs", "GitHub")
    """The prefixes of webhook headers."""

    @property
    def shapes(self) -> Shapes:
        return Shapes(self.url)

    def operation(self, name: str, call: Call) -> Operation:
        found = next(one for one in self.routes if one.operation == name)
        return published.operation(name, found.method, found.path)

    def read_token(self, call: Call) -> str | None:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        return value if scheme.lower() in ("token", "bearer") else None

    def authenticate(self, call: Call) -> Token | None:
        if self.read_token(call) is None and call.method == "GET" and call.path != "/user":
            return None
        return super().authenticate(call)

    def find_repository_name(self, call: Call) -> str | None:
        return f"{call.params['owner']}/{call.params['repo']}" if "repo" in call.params else None

    def redirect_to_renamed(self, call: Call, repository: Repository) -> Refused:
        rest = call.path.split("/", 4)[4:]
        target = "/".join([f"{self.api}/repos/{repository.path}", *rest])
        return Refused(301, self._said("Moved."), {"Location": target})

    def refusal(self, status: int, why: str = "", details: list[str] | None = None) -> Refused:
        wanted = " ".join(one for one in details or [])
        said = {
            "json": "invalid JSON",
            "level": "user should have a permission to write to a repo",
            "scope": f"token does not have at least one of required scope(s), required=[{wanted}]",
            "request": json.dumps([{"fieldNames": [one.partition(":")[0]], "message": one} for one in details or []]),
            "archived": "repo is archived",
        }
        plain = {401: "invalid username, password or token", 404: "The target couldn't be found."}
        real = 423 if why == "archived" else status
        return Refused(real, self._said(said.get(why) or plain[status]))

    def _said(self, message: str) -> Json:
        return {"message": message, "url": f"{self.url}/api/swagger"}

    def _no(self, status: int, message: str) -> Refused:
        return Refused(status, self._said(message))

    def rate_limit_response(self, fault: Fault) -> Wire:
        """Answers as a proxy: Gitea and Forgejo have no rate limits."""
        headers = [("Content-Type", "text/plain"), ("Retry-After", str(int(fault.seconds)))]
        return 429, headers, b"Too Many Requests\n"

    def paginate_reply(self, call: Call, items: list[Json]) -> Reply:
        found, number, pages = page(call, items, size="limit")
        return Reply(200, found, {"X-Total-Count": str(len(items)), "Link": links(self.api, call, number, pages)})

    def asked_pull(self, call: Call) -> Pull:
        found = call.repository.find(int(call.params["index"]))
        if found is None:
            raise self.refusal(404)
        return found

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
            said = (
                "Only admins can query all permissions, repo admins can query all repo permissions, collaborators can"
            )
            raise self._no(403, f"{said} query only their own")
        user = self.users.get(login)
        if user is None:
            raise self._no(404, f"user does not exist [uid: 0, name: {login}]")
        level = {"maintain": "write", "triage": "read"}.get(user.access, user.access)
        return Reply(200, {"permission": level, "role_name": level, "user": self.shapes.user(user)})

    # Pull requests.

    @route("GET", PULL, "repository.repo_list_pull_requests", needs=READ)
    def list_pulls(self, call: Call) -> Reply:
        """Lists pull requests; there is no filter by branch."""
        wanted = call.query.get("state", "open")
        found = [pull for pull in self.visible_pulls(call.repository.pulls) if wanted in (pull.state, "all")]
        return self.paginate_reply(call, [self.shapes.pull(pull) for pull in found])

    @route("POST", PULL, "repository.repo_create_pull_request", needs=WRITE)
    def create_pull(self, call: Call) -> Reply:
        asked, repository, heads = call.body or {}, call.repository, call.repository.heads()
        missing = [f"{name}: Required" for name in ("head", "base", "title") if not asked.get(name)]
        if missing:
            self.violations += [f"{call.method} {call.path}: {one}" for one in missing]
            raise self.refusal(422, "request", missing)
        owner, _, head = asked["head"].rpartition(":")
        base = asked["base"]
        if head == base:
            said = "Invalid PullRequest: There are no changes between the head and the base"
            raise self._no(422, said)
        if head not in heads or base not in heads or owner not in ("", repository.owner):
            raise self.refusal(404)
        if found := repository.open_pull(head, base):
            raise self._exists(found)
        pull = self.open(
            repository, author=call.user, head=head, base=base, title=asked["title"], body=asked.get("body") or ""
        )
        pull.labels = self._names(repository, asked.get("labels") or [])
        return Reply(201, self.shapes.pull(pull))

    def _exists(self, found: Pull) -> Refused:
        ids = f"id: {found.id}, issue_id: {found.number}, head_repo_id: {found.repository.id}, base_repo_id: "
        ends = f"{found.repository.id}, head_branch: {found.head}, base_branch: {found.base}"
        return self._no(409, f"pull request already exists for these targets [{ids}{ends}]")

    @route("GET", PULL + "/{index:int}", "repository.repo_get_pull_request", needs=READ)
    def get_pull(self, call: Call) -> Reply:
        return Reply(200, self.shapes.pull(self.asked_pull(call)))

    @route("PATCH", PULL + "/{index:int}", "repository.repo_edit_pull_request", needs=WRITE)
    def edit_pull(self, call: Call) -> Reply:
        """Answers 201, as Gitea and Forgejo do."""
        pull, asked = self.asked_pull(call), call.body or {}
        to = asked.get("state") or pull.state
        if pull.author is not call.user and not call.user.may("write"):
            raise self.refusal(403, "level")
        if to != pull.state and pull.merged:
            raise self._no(412, "cannot change state of this pull request, it was already merged")
        if asked.get("base", pull.base) not in pull.repository.heads():
            raise self._no(404, f"new base '{asked['base']}' not exist")
        if to == "open" and pull.state == "closed" and (found := pull.repository.open_pull(pull.head, pull.base)):
            raise self._exists(found)
        pull.title, pull.body = asked.get("title") or pull.title, asked.get("body", pull.body)
        pull.base, pull.updated = asked.get("base", pull.base), now()
        if asked.get("labels") is not None:
            pull.labels = self._names(pull.repository, asked["labels"])
        if to != pull.state:
            self.set_pull_state(pull, to, call.user, "reopened" if to == "open" else "closed")
        return Reply(201, self.shapes.pull(pull))

    @route(
        "POST", PULL + "/{index:int}/requested_reviewers", "repository.repo_create_pull_review_requests", needs=WRITE
    )
    def request_reviewers(self, call: Call) -> Reply:
        pull, asked = self.asked_pull(call), []
        for login in (call.body or {}).get("reviewers") or []:
            user = self.users.get(login)
            if user is None:
                raise self._no(404, f"user doesn't exist: {login}")
            if user is pull.author or not user.may("read"):
                said = "poster of pr can't be reviewer" if user is pull.author else "Reviewer can't read"
                raise self._no(422, f"{said} [user_id: {user.id}, repo_id: {pull.repository.id}]")
            asked.append(user)
        pull.reviewers += [user for user in asked if user not in pull.reviewers]
        return Reply(201, [self.shapes.review_request(pull, user) for user in asked])

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
        pull = self.asked_pull(call)
        return Reply(200, [self.shapes.comment(pull, one) for one in pull.comments if one.file is None])

    @route("POST", ISSUE + "/{index:int}/comments", "issue.create_comment", needs=WRITE_ISSUES)
    def create_comment(self, call: Call) -> Reply:
        pull = self.asked_pull(call)
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
        pull = self.asked_pull(call)
        pull.labels += [one for one in self._names(pull.repository, call.body["labels"]) if one not in pull.labels]
        return Reply(200, [self.shapes.label(pull.repository, name) for name in pull.labels])

    def _names(self, repository: Repository, given: list[Any]) -> list[str]:
        """Returns the labels of the repository with these ids or names; ignores unknown ones."""
        return [name for name, number in repository.labels.items() if name in given or number in given]

    # Webhooks.

    def announce_event(self, event: str, pull: Pull, who: User, comment: Comment | None) -> None:
        if not self.webhooks.hooks:
            return
        shapes = self.shapes
        made = shapes.pull(pull)
        about: Json = {
            "pull_request": made,
            "repository": shapes.repository(pull.repository),
            "sender": shapes.user(who),
        }
        if comment is not None and comment.file is None:
            said = {"issue": shapes.issue(pull), "comment": shapes.comment(pull, comment), "is_pull": True}
            self.publish(event, published.IssueCommentPayload, {"action": "created", **said, **about}, **published.HOW)
            return
        review = {"type": TYPES["review_comment"], "content": comment.body} if comment else None
        action = "reviewed" if comment else "closed" if event == "merged" else event
        rest = {"requested_reviewer": about["sender"] if comment else None, "commit_id": "", "review": review}
        payload = {"action": action, "number": pull.number, **about, **rest}
        self.publish(event, published.PullRequestPayload, payload, **published.HOW)

    def sign(self, delivery: Delivery, hook: Hook) -> Mapping[str, str]:
        key = hook.secret.encode()
        kind = TYPES.get(delivery.event, "pull_request")
        coarse = {"comment": "issue_comment", "review_comment": "pull_request_comment"}.get(delivery.event, kind)
        sha256 = hmac.new(key, delivery.body, hashlib.sha256).hexdigest()
        found = {
            "X-Hub-Signature": f"sha1={hmac.new(key, delivery.body, hashlib.sha1).hexdigest()}",
            "X-Hub-Signature-256": f"sha256={sha256}",
        }
        for name in self.headers:
            about = {"Delivery": delivery.id, "Event": coarse, "Event-Type": kind}
            found |= {f"X-{name}-{key}": value for key, value in about.items()}
            found |= {f"X-{name}-Signature": sha256} if name != "GitHub" else {}
        return found


class Forgejo(Gitea):
    kind = "Forgejo"
    headers = ("Forgejo", *Gitea.headers)
