"""Builds GitHub's JSON from a forge's state."""

from datetime import datetime
from typing import Any

from tests.support.forges.state import Comment, Pull, Repository, User

Json = dict[str, Any]

USER_LINKS = "followers following gists starred subscriptions organizations repos events received_events"
REPOSITORY_LINKS = (
    "archive assignees blobs branches collaborators comments commits compare contents contributors deployments "
    "downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels "
    "languages merges milestones notifications pulls releases stargazers statuses subscribers subscription tags teams "
    "trees"
)
ISSUE_FIELDS = (
    "id node_id number title body state locked active_lock_reason user labels milestone assignee assignees "
    "comments_url created_at updated_at closed_at author_association draft html_url"
)
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
ROLE_BY_PERMISSION = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage", "pull": "read"}


def format_time(time: datetime | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else None


class GitHubShapes:
    """Builds JSON; links begin with the addresses `api` and `web`."""

    def __init__(self, web: str) -> None:
        self.web, self.api = web, f"{web}/api/v3"

    def user(self, user: User) -> Json:
        address = f"{self.api}/users/{user.login}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": f"U_{user.id}",
            "avatar_url": f"{self.web}/avatars/u/{user.id}",
            "gravatar_id": "",
            "url": address,
            "html_url": f"{self.web}/{user.login}",
            **{f"{name}_url": f"{address}/{name}" for name in USER_LINKS.split()},
            "type": user.kind,
            "site_admin": False,
        }

    def owner(self, repository: Repository) -> Json:
        return self.user(User(repository.id + 500_000, repository.owner, kind="Organization"))

    def repository(self, repository: Repository) -> Json:
        address, page = f"{self.api}/repos/{repository.path}", f"{self.web}/{repository.path}"
        about = ("forks_count", "stargazers_count", "watchers_count", "open_issues_count", "forks", "open_issues")
        unset = ("description", "homepage", "language", "mirror_url", "license")
        return {
            "id": repository.id,
            "node_id": f"R_{repository.id}",
            "name": repository.name,
            "full_name": repository.path,
            "owner": self.owner(repository),
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "html_url": page,
            "url": address,
            **{f"{name}_url": f"{address}/{name.replace('_', '/')}" for name in REPOSITORY_LINKS.split()},
            "clone_url": f"{page}.git",
            "git_url": page.replace("http:", "git:") + ".git",
            "ssh_url": f"git@127.0.0.1:{repository.path}.git",
            "svn_url": page,
            "fork": repository.fork,
            "archived": repository.archived,
            "disabled": False,
            "default_branch": repository.default_branch,
            "size": 1,
            "watchers": 0,
            **dict.fromkeys(about, 0),
            **dict.fromkeys(unset),
            **{f"has_{name}": True for name in ("issues", "projects", "wiki", "downloads")},
            "has_pages": False,
            "has_discussions": False,
            "is_template": False,
            "allow_forking": False,
            "web_commit_signoff_required": False,
            "topics": [],
            **{f"{name}_at": format_time(repository.created) for name in ("pushed", "created", "updated")},
        }

    def full_repository(self, repository: Repository, user: User | None) -> Json:
        """Returns a single repository, with the permissions of the user."""
        rights = {name: bool(user and user.may(level)) for name, level in ROLE_BY_PERMISSION.items()}
        counts = {"subscribers_count": 0, "network_count": 0}
        return {**self.repository(repository), **counts, **({"permissions": rights} if user else {})}

    def label(self, repository: Repository, name: str) -> Json:
        return {
            "id": repository.label(name),
            "node_id": f"LA_{repository.label(name)}",
            "url": f"{self.api}/repos/{repository.path}/labels/{name}",
            "name": name,
            "description": None,
            "color": "ededed",
            "default": False,
            "archived_by": None,
        }

    def simple_pull(self, pull: Pull) -> Json:
        """Returns a pull request in the form of a list."""
        pull.update_heads()
        address = f"{self.api}/repos/{pull.repository.path}"
        page, api_url = f"{self.web}/{pull.repository.path}/pull/{pull.number}", f"{address}/pulls/{pull.number}"
        links = {
            "self": api_url,
            "html": page,
            "issue": f"{address}/issues/{pull.number}",
            "comments": f"{address}/issues/{pull.number}/comments",
            "review_comments": f"{api_url}/comments",
            "review_comment": f"{address}/pulls/comments{{/number}}",
            "commits": f"{api_url}/commits",
            "statuses": f"{address}/statuses/{pull.sha}",
        }
        return {
            "url": api_url,
            "id": pull.id,
            "node_id": f"PR_{pull.id}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            **{f"{name}_url": target for name, target in links.items() if name not in ("self", "html")},
            "number": pull.number,
            "state": pull.state,
            "locked": False,
            "active_lock_reason": None,
            "title": pull.title,
            "user": self.user(pull.author),
            "body": pull.body or None,
            "labels": [self.label(pull.repository, name) for name in pull.labels],
            "milestone": None,
            "created_at": format_time(pull.created),
            "updated_at": format_time(pull.updated),
            "closed_at": format_time(pull.closed),
            "merged_at": format_time(pull.closed) if pull.merged else None,
            "merge_commit_sha": pull.merge_sha,
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [self.user(one) for one in pull.reviewers],
            "requested_teams": [],
            "head": self.branch_ref(pull.repository, pull.head, pull.sha),
            "base": self.branch_ref(pull.repository, pull.base, pull.base_sha),
            "_links": {name: {"href": target} for name, target in links.items()},
            "author_association": "CONTRIBUTOR",
            "auto_merge": None,
            "draft": pull.draft,
        }

    def pull(self, pull: Pull) -> Json:
        """Returns a single pull request."""
        simple = self.simple_pull(pull)
        commits, additions, deletions, files = pull.size()
        open_ = pull.state == "open"
        return {
            **simple,
            "merged": pull.merged,
            "mergeable": True if open_ else None,
            "rebaseable": True if open_ else None,
            "mergeable_state": ("draft" if pull.draft else "clean") if open_ else "unknown",
            "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
            "comments": len([one for one in pull.comments if one.file is None]),
            "review_comments": len([one for one in pull.comments if one.file]),
            "maintainer_can_modify": False,
            "commits": commits,
            "additions": additions,
            "deletions": deletions,
            "changed_files": files,
        }

    def branch_ref(self, repository: Repository, branch: str, sha: str) -> Json:
        return {
            "label": f"{repository.owner}:{branch}",
            "ref": branch,
            "sha": sha,
            "user": self.owner(repository),
            "repo": self.repository(repository),
        }

    def comment(self, pull: Pull, comment: Comment) -> Json:
        address = f"{self.api}/repos/{pull.repository.path}/issues"
        return {
            "id": comment.id,
            "node_id": f"IC_{comment.id}",
            "url": f"{address}/comments/{comment.id}",
            "html_url": f"{self.web}/{pull.repository.path}/pull/{pull.number}#issuecomment-{comment.id}",
            "issue_url": f"{address}/{pull.number}",
            "body": comment.body,
            "user": self.user(comment.author),
            "created_at": format_time(comment.created),
            "updated_at": format_time(comment.updated),
            "author_association": "MEMBER",
            "performed_via_github_app": None,
            "reactions": self.reactions(f"{address}/comments/{comment.id}"),
        }

    def reactions(self, address: str) -> Json:
        return {"url": f"{address}/reactions", "total_count": 0, **dict.fromkeys(REACTIONS, 0)}

    def review_comment(self, pull: Pull, comment: Comment) -> Json:
        address = f"{self.api}/repos/{pull.repository.path}/pulls"
        api_url, page = f"{address}/comments/{comment.id}", f"{self.web}/{pull.repository.path}/pull/{pull.number}"
        links = {
            "self": api_url,
            "html": f"{page}#discussion_r{comment.id}",
            "pull_request": f"{address}/{pull.number}",
        }
        comment_data = self.comment(pull, comment)
        shared_fields = ("id", "body", "user", "created_at", "updated_at", "author_association")
        return {
            **{name: comment_data[name] for name in shared_fields},
            "node_id": f"PRRC_{comment.id}",
            "url": api_url,
            "html_url": links["html"],
            "pull_request_url": links["pull_request"],
            "pull_request_review_id": comment.id + 1,
            "_links": {name: {"href": target} for name, target in links.items()},
            "diff_hunk": "@@ -1 +1 @@",
            "path": comment.file,
            **dict.fromkeys(("position", "original_position"), 1),
            **dict.fromkeys(("line", "original_line"), comment.line),
            **dict.fromkeys(("start_line", "original_start_line", "start_side")),
            **dict.fromkeys(("commit_id", "original_commit_id"), pull.sha),
            "side": "RIGHT",
            "subject_type": "line",
            "reactions": self.reactions(api_url),
        }

    def review(self, pull: Pull, comment: Comment) -> Json:
        """Returns the review that a comment on a line belongs to."""
        page = f"{self.web}/{pull.repository.path}/pull/{pull.number}"
        pull_url = f"{self.api}/repos/{pull.repository.path}/pulls/{pull.number}"
        html_url = f"{page}#pullrequestreview-{comment.id + 1}"
        return {
            "id": comment.id + 1,
            "node_id": f"PRR_{comment.id + 1}",
            "user": self.user(comment.author),
            "body": "",
            "state": "COMMENTED",
            "html_url": html_url,
            "pull_request_url": pull_url,
            "_links": {"html": {"href": html_url}, "pull_request": {"href": pull_url}},
            "submitted_at": format_time(comment.updated),
            "commit_id": pull.sha,
            "author_association": "MEMBER",
        }

    def issue(self, pull: Pull) -> Json:
        """Returns a pull request in its form as an issue."""
        pull_data, address = self.simple_pull(pull), f"{self.api}/repos/{pull.repository.path}"
        api_url = f"{address}/issues/{pull.number}"
        pages = {name: pull_data[name] for name in ("url", "html_url", "diff_url", "patch_url", "merged_at")}
        return {
            **{name: pull_data[name] for name in ISSUE_FIELDS.split()},
            "labels": [{name: label[name] for name in label if name != "archived_by"} for label in pull_data["labels"]],
            "url": api_url,
            "repository_url": address,
            **{f"{name}_url": f"{api_url}/{name}" for name in ("labels", "events", "timeline")},
            "comments": len(pull.comments),
            "performed_via_github_app": None,
            "state_reason": None,
            "reactions": self.reactions(api_url),
            "pull_request": pages,
        }
