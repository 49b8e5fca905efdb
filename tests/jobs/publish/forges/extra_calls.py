"""Calls of the adapters that the base fakes lack: labels by name, rules, assignees, the expiry of a token."""

from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel

from tests.jobs.publish.forges.commit_authors import (
    GITLAB_AUTHOR_OPERATIONS,
    GiteaAuthors,
    GitHubAuthors,
    GitLabAuthors,
)
from tests.jobs.publish.forges.pull_commits import GITLAB_COMMITS, GITLAB_OPERATION, GitHubCommits, GitLabCommits
from tests.support import forges
from tests.support.forges.calls import Call, Reply, route
from tests.support.forges.gitea_versions import FORGEJO_VERSIONS, GITEA_VERSIONS, RULE_NAMES_SINCE
from tests.support.forges.gitlab_published import describe_operation
from tests.support.forges.schema import Operation
from tests.support.forges.state import Comment, Pull

REPO = "/repos/{owner}/{repo}"


class GitHub(GitHubAuthors, GitHubCommits, forges.github):
    @route("GET", REPO + "/labels/{name}", "issues.get_label", needs=("issues=read", "pull_requests=read"))
    def get_label(self, call: Call) -> Reply:
        if call.params["name"] not in call.repository.labels:
            raise self.refusal(404)
        return Reply(200, {**self.shapes.label(call.repository, call.params["name"]), "archived_at": None})

    @route("GET", REPO + "/rules/branches/{branch}", "repos.get_branch_rules", needs=("metadata=read",))
    def get_rules(self, call: Call) -> Reply:
        about = {"ruleset_source_type": "Repository", "ruleset_source": call.repository.path, "ruleset_id": 42}
        ruled_out = any(fnmatchcase(call.params["branch"], name) for name in self.faults.protected)
        rules: list[dict[str, Any]] = [{"type": "creation"}] if ruled_out else []
        rules += [
            {"type": kind, **({"parameters": value} if value else {})} for kind, value in self.faults.rules.items()
        ]
        return self.paginate_reply(call, [{**rule, **about} for rule in rules])

    @route("GET", REPO + "/branches", "repos.list_branches", needs=("contents=read",))
    def list_branches(self, call: Call) -> Reply:
        heads = call.repository.heads()
        names = [name for name in heads if call.query.get("protected") != "true" or name in self.faults.protected]
        shapes = [
            {
                "name": name,
                "commit": {"sha": heads[name], "url": f"{self.url}/repos/{call.repository.path}/commits/{heads[name]}"},
                "protected": name in self.faults.protected,
            }
            for name in sorted(names)
        ]
        return self.paginate_reply(call, shapes)

    @route("GET", REPO + "/rulesets/{ruleset_id:int}", "repos.get_repo_ruleset", needs=("metadata=read",))
    def get_ruleset(self, call: Call) -> Reply:
        about = {"id": 42, "name": "Branches", "source": call.repository.path, "enforcement": "active"}
        may = "always" if call.user.may("admin") else "never"
        return Reply(200, {**about, "current_user_can_bypass": may})

    @route("DELETE", "/installation/token", "apps.revoke_installation_access_token")
    def revoke_token(self, call: Call) -> Reply:
        assert call.token is not None
        call.token.revoked = True
        return Reply(204)


READ_REPOSITORY = ("read:repository", "write:repository")


def _line_comment(own: Any, pull: Pull, comment: Comment) -> dict[str, Any]:
    shape = own.shapes.comment(pull, comment)
    shared = {name: shape[name] for name in ("id", "body", "user", "created_at", "updated_at", "html_url")}
    page = f"{own.url}/{pull.repository.path}/pulls/{pull.number}"
    place = {"path": comment.file, "position": comment.line, "original_position": 0, "diff_hunk": "@@ -1 +1 @@"}
    commits = {"commit_id": pull.sha, "original_commit_id": pull.sha}
    return {**shared, **place, **commits, "pull_request_review_id": comment.id + 1, "pull_request_url": page,
            "resolver": None}  # fmt: skip


class _Gitea(GiteaAuthors):
    checks_requests: ClassVar[bool] = True

    @route("GET", REPO + "/assignees", "repository.repo_get_assignees", needs=("read:repository", "write:repository"))
    def get_assignees(self, call: Call) -> Reply:
        """Returns users with write access; read access is enough for this call."""
        own: Any = self
        return Reply(200, [own.shapes.user(user) for user in own.users.values() if user.may("write")])

    @route("GET", REPO + "/branch_protections", "repository.repo_list_branch_protection", level="admin")
    def list_protections(self, call: Call) -> Reply:
        own: Any = self
        field = "rule_name" if own.version >= RULE_NAMES_SINCE else "branch_name"
        return Reply(200, [{field: name, "enable_push": False} for name in sorted(own.faults.protected)])

    @route(
        "GET",
        REPO + "/pulls/{index:int}/reviews/{id:int}/comments",
        "repository.repo_get_pull_review_comments",
        needs=READ_REPOSITORY,
    )
    def list_review_comments(self, call: Call) -> Reply:
        own: Any = self
        pull = own.find_requested_pull(call)
        review_id = int(call.params["id"])
        return Reply(200, [_line_comment(own, pull, one) for one in pull.comments if one.id + 1 == review_id])

    @route("GET", REPO + "/teams", "repository.repo_list_teams", needs=READ_REPOSITORY)
    def list_teams(self, call: Call) -> Reply:
        """Answers 405 in a person's repository."""
        own: Any = self
        if call.repository.owner not in own.organizations:
            raise own.refusal(405, "person")
        return Reply(200, [])

    @route("GET", "/orgs/{org}/labels", "organization.org_list_labels", needs=("read:organization",))
    def list_shared_labels(self, call: Call) -> Reply:
        own: Any = self
        if call.params["org"] not in own.organizations:
            raise own.refusal(404)
        reply: Reply = own.paginate_reply(call, [], with_links=False)
        return reply


class Gitea(_Gitea, forges.gitea):
    pass


class Forgejo(_Gitea, forges.forgejo):
    pass


class Label(BaseModel):
    """A label, as GitLab documents it."""

    id: int
    name: str
    color: str
    text_color: str
    description: str | None
    description_html: str | None
    open_issues_count: int
    closed_issues_count: int
    open_merge_requests_count: int
    subscribed: bool
    priority: int | None
    is_project_label: bool


class BranchAccessLevel(BaseModel):
    id: int
    access_level: int
    access_level_description: str


class ProtectedBranch(BaseModel):
    id: int
    name: str
    push_access_levels: list[BranchAccessLevel]
    merge_access_levels: list[BranchAccessLevel]
    allow_force_push: bool


class PushRule(BaseModel):
    id: int
    project_id: int
    commit_message_regex: str
    branch_name_regex: str
    author_email_regex: str
    file_name_regex: str
    max_file_size: int
    member_check: bool
    commit_committer_check: bool
    reject_unsigned_commits: bool
    reject_non_dco_commits: bool


LABEL, PROTECTED = "/projects/{id}/labels/{name}", "/projects/{id}/protected_branches"
PUSH_RULE = "/projects/{id}/push_rule"
OPERATIONS = {
    LABEL: describe_operation(f"GET {LABEL}", Label),
    GITLAB_COMMITS: GITLAB_OPERATION,
    PUSH_RULE: describe_operation(f"GET {PUSH_RULE}", PushRule),
    PROTECTED: describe_operation(f"GET {PROTECTED}", list[ProtectedBranch]),
    **GITLAB_AUTHOR_OPERATIONS,
}


class GitLab(GitLabAuthors, GitLabCommits, forges.gitlab):
    def operation(self, name: str, call: Call) -> Operation:
        return OPERATIONS.get(name) or super().operation(name, call)

    @route("GET", LABEL, LABEL, needs=("api", "read_api"))
    def get_label(self, call: Call) -> Reply:
        name = call.params["name"]
        if name not in call.repository.labels:
            raise self.refusal(404, "label")
        counts = dict.fromkeys(("open_issues_count", "closed_issues_count", "open_merge_requests_count"), 0)
        about = {"description": None, "description_html": None, "subscribed": False, "priority": None}
        look = {"color": "#ededed", "text_color": "#1F1E24", "is_project_label": True}
        return Reply(200, {"id": call.repository.labels[name], "name": name, **look, **about, **counts})

    @route("GET", PUSH_RULE, PUSH_RULE, needs=("api", "read_api"))
    def get_push_rule(self, call: Call) -> Reply:
        """Returns the push rules; 404 on the free tier."""
        if not self.faults.rules:
            raise self.refusal(404)
        texts = ("commit_message_regex", "branch_name_regex", "author_email_regex", "file_name_regex")
        flags = ("member_check", "commit_committer_check", "reject_unsigned_commits", "reject_non_dco_commits")
        about = {"id": 1, "project_id": call.repository.id, "max_file_size": 0}
        return Reply(200, {**about, **dict.fromkeys(texts, ""), **dict.fromkeys(flags, False), **self.faults.rules})

    @route("GET", PROTECTED, PROTECTED, needs=("api", "read_api"))
    def list_protected(self, call: Call) -> Reply:
        nobody = [{"id": 1, "access_level": 0, "access_level_description": "No one"}]
        about = {"push_access_levels": nobody, "merge_access_levels": nobody, "allow_force_push": False}
        return self.paginate_reply(call, [{"id": 1, "name": name, **about} for name in sorted(self.faults.protected)])


FAKE_FORGES: dict[str, Any] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea, "forgejo": Forgejo}
DISTINCT_FORGES = ("github", "gitlab", "gitea")
"""Forgejo behaves like Gitea; drills test it too."""
OLDER_FORGES: dict[str, Any] = {
    **{name: partial(Gitea, version=version) for name, version in GITEA_VERSIONS.items()},
    **{name: partial(Forgejo, version=version) for name, version in FORGEJO_VERSIONS.items()},
}
"""Gitea and Forgejo of each version that is supported."""
VERSION_MATRIX = {**FAKE_FORGES, **OLDER_FORGES}
OLDEST_GITEA = "gitea-1.16"


def forge_kind(name: str) -> str:
    """Returns the forge of a name such as `gitea-1.16` or `github-app`."""
    return name.partition("-")[0]
