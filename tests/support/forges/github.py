"""A fake GitHub (as Enterprise serves it, under /api/v3), checked against the schema in githubkit."""

import time
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

from tests.support.forges.calls import Call, Reply, route
from tests.support.forges.github_app import App, scopes
from tests.support.forges.github_drafts import execute
from tests.support.forges.github_shapes import stamp
from tests.support.forges.github_ways import GitHubWays
from tests.support.forges.state import Comment, Pull, Token, ahead, now

REPO, PULL, ISSUE = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues"
WRITE_PULLS, READ_PULLS = ("pull_requests=write",), ("pull_requests=read", "pull_requests=write")
WRITE_ISSUES = ("issues=write", "pull_requests=write")
READ_ISSUES = ("issues=read", "pull_requests=read", *WRITE_ISSUES)
STRANGER = (
    "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a "
    "collaborator of the {} repository."
)
UNREACHABLE = "There is at least one repository that does not exist or is not accessible to the parent installation."


class GitHub(GitHubWays):
    def install_app(self, public_key: bytes, *, app_id: int = 7, permissions: Mapping[str, str] | None = None) -> App:
        """Installs an app on all existing repositories."""
        given = dict(permissions or {"contents": "write", "pull_requests": "write", "metadata": "read"})
        bot = self.add_user("copydesk[bot]", kind="Bot")
        key, reach = App.read_key(public_key), frozenset(self.repositories)
        self.app = App(app_id, "copydesk", self.new_id(), key, given, reach, bot)
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
        made = stamp(self.repository.created)
        about = {**dict.fromkeys(names), **dict.fromkeys(counts, 0), "created_at": made, "updated_at": made}
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
        asked, repository = call.query, call.repository
        owner, _, branch = asked.get("head", "").rpartition(":")
        found = [pull for pull in self.visible_pulls(repository.pulls) if asked.get("state", "open") in (pull.state, "all")]
        if owner:  # GitHub ignores a head without an owner
            found = [pull for pull in found if pull.head == branch and owner == repository.owner]
        found = [pull for pull in found if asked.get("base", pull.base) == pull.base]
        if asked.get("direction") == "asc":
            found.reverse()
        return self.paginate_reply(call, [self.shapes.simple_pull(pull) for pull in found])

    @route("POST", PULL, "pulls.create", needs=WRITE_PULLS, level="write")
    def create_pull(self, call: Call) -> Reply:
        asked, repository, heads = call.body, call.repository, call.repository.heads()
        owner, _, head = asked["head"].rpartition(":")
        base = asked["base"]
        if head not in heads or owner not in ("", repository.owner):
            raise self.invalid(field="head", code="invalid")
        if base not in heads:
            raise self.invalid(field="base", code="invalid")
        if not asked.get("title"):
            raise self.invalid(field="title", code="missing_field")
        if repository.open_pull(head, base):
            said = f"A pull request already exists for {repository.owner}:{head}."
            raise self.invalid(code="custom", message=said)
        if not ahead(repository.folder, heads[head], heads[base]):
            raise self.invalid(code="custom", message=f"No commits between {base} and {head}")
        about = {"title": asked["title"], "body": asked.get("body") or "", "draft": asked.get("draft", False)}
        pull = self.open(repository, author=call.user, head=head, base=base, **about)
        shape = self.shapes.pull(pull)
        return Reply(201, shape, {"Location": shape["url"]})

    @route("GET", PULL + "/{pull_number:int}", "pulls.get", needs=READ_PULLS)
    def get_pull(self, call: Call) -> Reply:
        return Reply(200, self.shapes.pull(self.asked_pull(call)))

    @route("PATCH", PULL + "/{pull_number:int}", "pulls.update", needs=WRITE_PULLS, level="write")
    def update_pull(self, call: Call) -> Reply:
        pull, asked = self.asked_pull(call), call.body or {}
        to = asked.get("state", pull.state)
        if to == "open" and pull.state == "closed":
            self._refuse_reopening(pull)
        if asked.get("base", pull.base) not in pull.repository.heads():
            raise self.invalid(field="base", code="invalid")
        pull.title, pull.base = asked.get("title", pull.title), asked.get("base", pull.base)
        pull.body, pull.updated = asked.get("body", pull.body) or "", now()
        if to != pull.state:
            self.set_pull_state(pull, to, call.user, "reopened" if to == "open" else "closed")
        return self.get_pull(call)

    def _refuse_reopening(self, pull: Pull) -> None:
        said = "state cannot be changed. "
        if pull.merged:
            raise self.invalid(code="custom", field="state", message=said + "The pull request cannot be reopened.")
        if pull.head not in pull.repository.heads():
            raise self.invalid(code="custom", field="state", message=said + f"The {pull.head} branch has been deleted.")
        if pull.repository.open_pull(pull.head, pull.base):
            said += f"There is already an open pull request from {pull.repository.owner}:{pull.head} to {pull.base}."
            raise self.invalid(code="custom", field="state", message=said)

    @route(
        "POST",
        PULL + "/{pull_number:int}/requested_reviewers",
        "pulls.request_reviewers",
        needs=WRITE_PULLS,
        level="write",
    )
    def request_reviewers(self, call: Call) -> Reply:
        pull = self.asked_pull(call)
        for login in (call.body or {}).get("reviewers", []):
            user = self.users.get(login)
            if user is None or not user.may("read"):
                raise self.error(422, STRANGER.format(pull.repository.path))
            if user is pull.author:
                raise self.error(422, "Review cannot be requested from pull request author.")
            if user not in pull.reviewers:
                pull.reviewers.append(user)
        return Reply(201, self.shapes.simple_pull(pull))

    # Issue features of a pull request.

    @route("GET", ISSUE + "/{issue_number:int}/comments", "issues.list_comments", needs=READ_ISSUES)
    def list_comments(self, call: Call) -> Reply:
        pull = self.asked_pull(call)
        return self.paginate_reply(call, [self.shapes.comment(pull, one) for one in pull.comments if one.file is None])

    @route("POST", ISSUE + "/{issue_number:int}/comments", "issues.create_comment", needs=WRITE_ISSUES)
    def create_comment(self, call: Call) -> Reply:
        pull = self.asked_pull(call)
        comment = self.add_comment(pull, Comment(self.new_id(), call.user, call.body["body"]))
        return Reply(201, self.shapes.comment(pull, comment))

    @route("POST", ISSUE + "/{issue_number:int}/labels", "issues.add_labels", needs=WRITE_ISSUES, level="triage")
    def add_labels(self, call: Call) -> Reply:
        pull, given = self.asked_pull(call), call.body["labels"] if isinstance(call.body, dict) else call.body
        names = [one if isinstance(one, str) else one["name"] for one in given]
        pull.labels += [name for name in names if name not in pull.labels]
        return Reply(200, [{**self.shapes.label(pull.repository, one), "archived_at": None} for one in pull.labels])

    # The app, and drafts.

    @route("GET", REPO + "/installation", "apps.get_repo_installation")
    def get_installation(self, call: Call) -> Reply:
        repository = self.repositories.get(f"{call.params['owner']}/{call.params['repo']}")
        if self.app is None or repository is None or repository.path not in self.app.repositories:
            raise self.refusal(404)
        made = stamp(repository.created) or ""
        return Reply(200, self.app.shape(self.api, self.url, self.shapes.owner(repository), made))

    @route("POST", "/app/installations/{installation_id:int}/access_tokens", "apps.create_installation_access_token")
    def create_token(self, call: Call) -> Reply:
        app, asked = self.app, call.body or {}
        if app is None or int(call.params["installation_id"]) != app.installation:
            raise self.refusal(404)
        if app.suspended:
            raise self.error(403, "This installation has been suspended")
        wanted = {*asked.get("repositories", []), *asked.get("repository_ids", [])}
        reach = [one for path, one in self.repositories.items() if path in app.repositories]
        chosen = [one for one in reach if wanted & {one.id, one.name}] if wanted else reach
        if len(chosen) < len(wanted):
            raise self.error(422, UNREACHABLE)
        permissions = {"metadata": "read", **asked["permissions"]} if "permissions" in asked else app.permissions
        if not app.grants(permissions):
            raise self.error(422, "The permissions requested are not granted to this installation.")
        ends, value = time.time() + app.lasts, f"ghs_{token_urlsafe(27)}"
        mine = frozenset(one.path for one in chosen)
        self.tokens[value] = Token(value, app.user, scopes(permissions), ends, repositories=mine)
        about: dict[str, Any] = {"permissions": permissions, "repository_selection": "selected"}
        if wanted:
            about["repositories"] = [self.shapes.repository(one) for one in chosen]
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
