"""A fake GitHub (as Enterprise serves it, under /api/v3), checked against the schema in githubkit."""

import time
from collections.abc import Mapping
from datetime import datetime
from secrets import token_urlsafe
from typing import Any

from tests.support.forges.calls import Call, Reply, route
from tests.support.forges.github_app import App, expand_permissions
from tests.support.forges.github_base import GitHubBase
from tests.support.forges.github_drafts import execute
from tests.support.forges.github_shapes import format_time
from tests.support.forges.state import Comment, Pull, Token, count_commits_ahead, now

REPO, PULL, ISSUE = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues"
WRITE_PULLS, READ_PULLS = ("pull_requests=write",), ("pull_requests=read", "pull_requests=write")
WRITE_ISSUES = ("issues=write", "pull_requests=write")
READ_ISSUES = ("issues=read", "pull_requests=read", *WRITE_ISSUES)
UNKNOWN_REVIEWER_MESSAGE = (
    "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a "
    "collaborator of the {} repository."
)
UNKNOWN_NODE_MESSAGE = "Could not resolve to a node with the global id of 'T_kwDOAGhwUs4BIPhU'."
MAX_CHARS = {"title": 256, "body": 65536}
REPOSITORY_NOT_ACCESSIBLE_MESSAGE = (
    "There is at least one repository that does not exist or is not accessible to the parent installation."
)


class GitHub(GitHubBase):
    def install_app(self, public_key: bytes, *, app_id: int = 7, permissions: Mapping[str, str] | None = None) -> App:
        """Installs an app on all existing repositories."""
        granted = dict(permissions or {"contents": "write", "pull_requests": "write", "metadata": "read"})
        bot = self.add_user("copydesk[bot]", kind="Bot")
        key, reach = App.read_key(public_key), frozenset(self.repositories)
        self.app = App(app_id, "copydesk", self.new_id(), key, granted, reach, bot)
        return self.app

    # The repository and people.

    @route("GET", REPO, "repos.get", needs=("metadata=read",))
    def get_repository(self, call: Call) -> Reply:
        return Reply(200, self.shapes.full_repository(call.repository, call.user))

    @route("GET", "/user", "users.get_authenticated")
    def get_user(self, call: Call) -> Reply:
        if call.user.kind == "Bot":
            raise self.refusal(403, "integration")
        names = ("name", "company", "blog", "location", "email", "hireable", "bio")
        counts = ("public_repos", "public_gists", "followers", "following")
        created_at = format_time(self.repository.created)
        about = {**dict.fromkeys(names), **dict.fromkeys(counts, 0), "created_at": created_at, "updated_at": created_at}
        return Reply(200, {**self.shapes.user(call.user), **about})

    @route("GET", REPO + "/collaborators/{username}/permission", "repos.get_collaborator_permission_level")
    def get_permission(self, call: Call) -> Reply:
        user = self.users.get(call.params["username"])
        if user is None:
            raise self.refusal(404)
        level = {"maintain": "write", "triage": "read"}.get(user.access, user.access)
        who = {**self.shapes.user(user), "role_name": user.access}
        return Reply(200, {"permission": level, "role_name": user.access, "user": who})

    # Pull requests.

    @route("GET", PULL, "pulls.list", needs=READ_PULLS)
    def list_pulls(self, call: Call) -> Reply:
        query, repository = call.query, call.repository
        owner, _, branch = query.get("head", "").rpartition(":")
        pulls = [
            pull for pull in self.visible_pulls(repository.pulls) if query.get("state", "open") in (pull.state, "all")
        ]
        if owner:  # GitHub ignores a head without an owner
            pulls = [pull for pull in pulls if pull.head == branch and owner == repository.owner]
        pulls = [pull for pull in pulls if query.get("base", pull.base) == pull.base]
        if query.get("direction") == "asc":
            pulls.reverse()
        return self.paginate_reply(call, [self.shapes.simple_pull(pull) for pull in pulls])

    @route("POST", PULL, "pulls.create", needs=WRITE_PULLS, level="write")
    def create_pull(self, call: Call) -> Reply:
        body, repository, heads = call.body, call.repository, call.repository.heads()
        owner, _, head = body["head"].rpartition(":")
        base = body["base"]
        if head not in heads or owner not in ("", repository.owner):
            raise self.invalid(field="head", code="invalid")
        if base not in heads:
            raise self.invalid(field="base", code="invalid")
        if not body.get("title"):
            raise self.invalid(field="title", code="missing_field")
        self._refuse_long_texts(body)
        if body.get("draft") and not repository.has_drafts:
            raise self.error(422, "Draft pull requests are not supported in this repository.")
        if repository.open_pull(head, base):
            message = f"A pull request already exists for {repository.owner}:{head}."
            raise self.invalid(code="custom", message=message)
        if not count_commits_ahead(repository.folder, heads[head], heads[base]):
            raise self.invalid(code="custom", message=f"No commits between {base} and {head}")
        about = {"title": body["title"], "body": body.get("body") or "", "draft": body.get("draft", False)}
        pull = self.open(repository, author=call.user, head=head, base=base, **about)
        shape = self.shapes.pull(pull)
        return Reply(201, shape, {"Location": shape["url"]})

    @route("GET", PULL + "/{pull_number:int}", "pulls.get", needs=READ_PULLS)
    def get_pull(self, call: Call) -> Reply:
        return Reply(200, self.shapes.pull(self.find_requested_pull(call)))

    @route("PATCH", PULL + "/{pull_number:int}", "pulls.update", needs=WRITE_PULLS, level="write")
    def update_pull(self, call: Call) -> Reply:
        pull, body = self.find_requested_pull(call), call.body or {}
        self._refuse_long_texts(body)
        to = body.get("state", pull.state)
        if to == "open" and pull.state == "closed":
            self._refuse_reopening(pull)
        if body.get("base", pull.base) not in pull.repository.heads():
            raise self.invalid(field="base", code="invalid")
        pull.title, pull.base = body.get("title", pull.title), body.get("base", pull.base)
        pull.body, pull.updated = body.get("body", pull.body) or "", now()
        if to != pull.state:
            self.set_pull_state(pull, to, call.user, "reopened" if to == "open" else "closed")
        return self.get_pull(call)

    def _refuse_long_texts(self, body: Mapping[str, Any]) -> None:
        for name, limit in MAX_CHARS.items():
            if len(body.get(name) or "") > limit:
                message = f"{name} is too long (maximum is {limit} characters)"
                raise self.invalid(field=name, code="custom", message=message)

    def _refuse_reopening(self, pull: Pull) -> None:
        message = "state cannot be changed. "
        if pull.merged:
            raise self.invalid(code="custom", field="state", message=message + "The pull request cannot be reopened.")
        if pull.head not in pull.repository.heads():
            raise self.invalid(
                code="custom", field="state", message=message + f"The {pull.head} branch has been deleted."
            )
        if pull.repository.open_pull(pull.head, pull.base):
            message += f"There is already an open pull request from {pull.repository.owner}:{pull.head} to {pull.base}."
            raise self.invalid(code="custom", field="state", message=message)

    @route(
        "POST",
        PULL + "/{pull_number:int}/requested_reviewers",
        "pulls.request_reviewers",
        needs=WRITE_PULLS,
        level="write",
    )
    def request_reviewers(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        for login in (call.body or {}).get("reviewers", []):
            user = self.users.get(login)
            if user is None or not user.may("read"):
                raise self.error(422, UNKNOWN_REVIEWER_MESSAGE.format(pull.repository.path))
            if user is pull.author:
                raise self.error(422, "Review cannot be requested from pull request author.")
            if user not in pull.reviewers:
                pull.reviewers.append(user)
        for slug in (call.body or {}).get("team_reviewers", []):
            if call.user.kind == "Bot" and call.token and "members=read" not in call.token.scopes:
                raise self.error(422, f"Validation Failed: {UNKNOWN_NODE_MESSAGE}")
            if slug not in pull.repository.teams:
                raise self.error(422, UNKNOWN_REVIEWER_MESSAGE.format(pull.repository.path))
            pull.team_reviewers.append(slug)
        return Reply(201, self.shapes.simple_pull(pull))

    # Issue features of a pull request.

    @route("GET", ISSUE + "/{issue_number:int}/comments", "issues.list_comments", needs=READ_ISSUES)
    def list_comments(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        comments = [one for one in _since(call, pull.comments) if one.file is None]
        return self.paginate_reply(call, [self.shapes.comment(pull, one) for one in comments])

    @route("GET", PULL + "/{pull_number:int}/comments", "pulls.list_review_comments", needs=READ_PULLS)
    def list_review_comments(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        comments = [one for one in _since(call, pull.comments) if one.file is not None]
        return self.paginate_reply(call, [self.shapes.review_comment(pull, one) for one in comments])

    @route("GET", PULL + "/{pull_number:int}/reviews", "pulls.list_reviews", needs=READ_PULLS)
    def list_reviews(self, call: Call) -> Reply:
        """Returns a review for each comment on a line; its own text is empty."""
        pull = self.find_requested_pull(call)
        return self.paginate_reply(call, [self.shapes.review(pull, one) for one in pull.comments if one.file])

    @route("POST", ISSUE + "/{issue_number:int}/comments", "issues.create_comment", needs=WRITE_ISSUES)
    def create_comment(self, call: Call) -> Reply:
        pull = self.find_requested_pull(call)
        comment = self.add_comment(pull, Comment(self.new_id(), call.user, call.body["body"]))
        return Reply(201, self.shapes.comment(pull, comment))

    @route("POST", ISSUE + "/{issue_number:int}/labels", "issues.add_labels", needs=WRITE_ISSUES, level="triage")
    def add_labels(self, call: Call) -> Reply:
        pull, label_names = (
            self.find_requested_pull(call),
            call.body["labels"] if isinstance(call.body, dict) else call.body,
        )
        names = [one if isinstance(one, str) else one["name"] for one in label_names]
        pull.labels += [name for name in names if name not in pull.labels]
        return Reply(200, [{**self.shapes.label(pull.repository, one), "archived_at": None} for one in pull.labels])

    # The app, and drafts.

    @route("GET", REPO + "/installation", "apps.get_repo_installation")
    def get_installation(self, call: Call) -> Reply:
        repository = self.repositories.get(f"{call.params['owner']}/{call.params['repo']}")
        if self.app is None or repository is None or repository.path not in self.app.repositories:
            raise self.refusal(404)
        created_at = format_time(repository.created) or ""
        return Reply(200, self.app.shape(self.api, self.url, self.shapes.owner(repository), created_at))

    @route("POST", "/app/installations/{installation_id:int}/access_tokens", "apps.create_installation_access_token")
    def create_token(self, call: Call) -> Reply:
        app, body = self.app, call.body or {}
        if app is None or int(call.params["installation_id"]) != app.installation:
            raise self.refusal(404)
        if app.suspended:
            raise self.error(403, "This installation has been suspended")
        requested = {*body.get("repositories", []), *body.get("repository_ids", [])}
        reach = [one for path, one in self.repositories.items() if path in app.repositories]
        repositories = [one for one in reach if requested & {one.id, one.name}] if requested else reach
        if len(repositories) < len(requested):
            raise self.error(422, REPOSITORY_NOT_ACCESSIBLE_MESSAGE)
        permissions = {"metadata": "read", **body["permissions"]} if "permissions" in body else app.permissions
        if not app.grants(permissions):
            raise self.error(422, "The permissions requested are not granted to this installation.")
        ends, value = time.time() + app.lasts, f"ghs_{token_urlsafe(485)}"
        repository_paths = frozenset(one.path for one in repositories)
        self.tokens[value] = Token(
            value, app.user, expand_permissions(permissions), ends, repositories=repository_paths
        )
        self.tokens[value].unknown_calls = app.unknown_calls
        about: dict[str, Any] = {"permissions": permissions, "repository_selection": "selected"}
        if requested:
            about["repositories"] = [self.shapes.repository(one) for one in repositories]
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
        return Reply(201, {"token": value, "expires_at": expires, **about})

    @route("POST", "/api/graphql", "graphql")
    def graphql(self, call: Call) -> Reply:
        token = call.token
        assert token is not None

        def find(node: str) -> Pull | None:
            pulls = [pull for one in self.repositories.values() if token.reaches(one) for pull in one.pulls]
            return next((pull for pull in pulls if f"PR_{pull.id}" == node), None)

        return Reply(200, execute(call.user.login, find, self.url, call.body))


def _since(call: Call, comments: list[Comment]) -> list[Comment]:
    since = call.query.get("since")
    return [one for one in comments if since is None or one.updated >= datetime.fromisoformat(since)]
