"""Builds the JSON of Gitea and Forgejo from a forge's state, with the fields that both have."""

from datetime import datetime
from typing import Any

import pygit2

from tests.support.forges.gitea_versions import CLOSED_AT_SINCE, REVIEW_TIMES_SINCE, Version, list_absent_pull_fields
from tests.support.forges.state import Comment, Pull, Repository, User

Json = dict[str, Any]
NEVER = "0001-01-01T00:00:00Z"
FALSE_FIELDS = (
    "empty template mirror internal ignore_whitespace_conflicts has_wiki has_projects has_packages has_actions "
    "default_delete_branch_after_merge default_allow_maintainer_edit"
)
TRUE_FIELDS = (
    "has_issues has_pull_requests has_releases allow_merge_commits allow_rebase allow_rebase_explicit "
    "allow_rebase_update allow_squash_merge allow_fast_forward_only_merge"
)
EMPTY_TEXT_FIELDS = "description language link original_url website avatar_url mirror_interval"
ZERO_COUNT_FIELDS = "stars_count forks_count watchers_count open_issues_count release_counter"
DRAFT_PREFIXES = ("wip:", "[wip]")


def format_time(time: datetime | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else None


class GiteaShapes:
    def __init__(self, web: str, version: Version) -> None:
        self.web, self.api, self.version = web, f"{web}/api/v1", version

    def user(self, user: User) -> Json:
        return {
            "id": user.id,
            "login": user.login,
            "login_name": "",
            "source_id": 0,
            "full_name": "",
            "email": f"{user.login}@noreply.example.org",
            "avatar_url": f"{self.web}/avatars/{user.id}",
            "html_url": f"{self.web}/{user.login}",
            "language": "",
            "is_admin": False,
            "last_login": NEVER,
            "created": "2024-01-01T00:00:00Z",
            **dict.fromkeys(("restricted", "active", "prohibit_login"), False),
            **dict.fromkeys(("location", "website", "description"), ""),
            "visibility": "public",
            **dict.fromkeys(("followers_count", "following_count", "starred_repos_count"), 0),
        }

    def repository(self, repository: Repository, user: User | None = None) -> Json:
        page = f"{self.web}/{repository.path}"
        rights = {"admin": "admin", "push": "write", "pull": "read"}
        return {
            "id": repository.id,
            "owner": self.user(User(repository.id + 500_000, repository.owner)),
            "name": repository.name,
            "full_name": repository.path,
            "private": repository.private,
            "fork": repository.fork,
            "archived": repository.archived,
            "archived_at": NEVER,
            "html_url": page,
            "url": f"{self.api}/repos/{repository.path}",
            "languages_url": f"{self.api}/repos/{repository.path}/languages",
            "clone_url": f"{page}.git",
            "ssh_url": f"git@127.0.0.1:{repository.path}.git",
            "default_branch": repository.default_branch,
            "size": 1,
            "created_at": format_time(repository.created),
            "updated_at": format_time(repository.created),
            "mirror_updated": NEVER,
            "open_pr_counter": len([pull for pull in repository.pulls if pull.state == "open"]),
            **dict.fromkeys(ZERO_COUNT_FIELDS.split(), 0),
            **dict.fromkeys(EMPTY_TEXT_FIELDS.split(), ""),
            **dict.fromkeys(FALSE_FIELDS.split(), False),
            **dict.fromkeys(TRUE_FIELDS.split(), True),
            "default_merge_style": "merge",
            "default_update_style": "merge",
            "object_format_name": "sha1",
            "topics": [],
            "permissions": {name: user.may(level) if user else name == "pull" for name, level in rights.items()},
        }

    def label(self, repository: Repository, name: str) -> Json:
        return {
            "id": repository.label(name),
            "name": name,
            "color": "ededed",
            "description": "",
            "exclusive": False,
            "is_archived": False,
            "url": f"{self.api}/repos/{repository.path}/labels/{repository.label(name)}",
        }

    def pull(self, pull: Pull) -> Json:
        pull.update_heads()
        page = f"{self.web}/{pull.repository.path}/pulls/{pull.number}"
        _, additions, deletions, files = pull.size()
        fields = {
            "id": pull.id,
            "url": page,
            "number": pull.number,
            "user": self.user(pull.author),
            "title": pull.title,
            "body": pull.body,
            "labels": [self.label(pull.repository, name) for name in pull.labels],
            **dict.fromkeys(("milestone", "assignee", "assignees", "due_date")),
            "requested_reviewers": [self.user(one) for one in pull.reviewers],
            "requested_reviewers_teams": [],
            "state": pull.state,
            "draft": pull.title.lower().startswith(DRAFT_PREFIXES),
            "is_locked": False,
            "comments": len([one for one in pull.comments if one.file is None]),
            "additions": additions,
            "deletions": deletions,
            "changed_files": files,
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "mergeable": pull.state == "open",
            "merged": pull.merged,
            "merged_at": format_time(pull.closed) if pull.merged else None,
            "merge_commit_sha": pull.merge_sha,
            "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
            "allow_maintainer_edit": False,
            "base": self.branch_ref(pull.repository, pull.base, pull.base_sha),
            "head": self.head_ref(pull),
            "merge_base": pull.base_sha,
            "created_at": format_time(pull.created),
            "updated_at": format_time(pull.updated),
            "closed_at": format_time(pull.closed) if self.version >= CLOSED_AT_SINCE else None,
            "pin_order": 0,
        }
        absent = list_absent_pull_fields(self.version)
        return {name: value for name, value in fields.items() if name not in absent}

    def head_ref(self, pull: Pull) -> Json:
        """Returns the branch as it is now, also of a merged pull request; only the label has a deleted one's name."""
        heads = pull.repository.heads()
        sha, ref = heads.get(pull.head, pull.sha), pull.head if pull.head in heads else f"refs/pull/{pull.number}/head"
        return {**self.branch_ref(pull.repository, pull.head, sha), "ref": ref}

    def branch_ref(self, repository: Repository, branch: str, sha: str) -> Json:
        repository_data = self.repository(repository)
        return {"label": branch, "ref": branch, "sha": sha, "repo_id": repository.id, "repo": repository_data}

    def comment(self, pull: Pull, comment: Comment) -> Json:
        page = f"{self.web}/{pull.repository.path}/pulls/{pull.number}"
        return {
            "id": comment.id,
            "html_url": f"{page}#issuecomment-{comment.id}",
            "pull_request_url": page,
            "issue_url": "",
            "user": self.user(comment.author),
            "original_author": "",
            "original_author_id": 0,
            "body": comment.body,
            "assets": [],
            "created_at": format_time(comment.created),
            "updated_at": format_time(comment.created),
        }

    def review_request(self, pull: Pull, user: User) -> Json:
        page = f"{self.web}/{pull.repository.path}/pulls/{pull.number}"
        return {
            "id": user.id,
            "user": self.user(user),
            "team": None,
            "state": "REQUEST_REVIEW",
            "body": "",
            "commit_id": "",
            **dict.fromkeys(("stale", "official", "dismissed"), False),
            "comments_count": 0,
            "submitted_at": format_time(pull.updated),
            **({"updated_at": format_time(pull.updated)} if self.version >= REVIEW_TIMES_SINCE else {}),
            "html_url": "",
            "pull_request_url": page,
        }

    def line_review(self, pull: Pull, comment: Comment) -> Json:
        """Returns the review that a comment on a line belongs to. Its own text is empty."""
        times = {"submitted_at": format_time(comment.created), "updated_at": format_time(comment.updated)}
        about: Json = {"id": comment.id + 1, "state": "COMMENT", "comments_count": 1, **times}
        if self.version < REVIEW_TIMES_SINCE:
            del about["updated_at"]
        return {**self.review_request(pull, comment.author), **about}

    def team_review_request(self, pull: Pull, team: str) -> Json:
        about = {"id": 1, "name": team, "permission": "write", "description": "", "includes_all_repositories": False}
        details: Json = {"can_create_org_repo": False, "organization": None, "units": [], "units_map": {}}
        return {**self.review_request(pull, User(0, "")), "user": None, "team": {**about, **details}}

    def commit(self, repository: Repository, commit: pygit2.Commit) -> Json:
        page, when = f"{self.api}/repos/{repository.path}/git/commits/{commit.id}", "2024-01-01T00:00:00Z"
        person = {"name": commit.author.name, "email": commit.author.email, "date": when}
        return {
            "sha": str(commit.id),
            "url": page,
            "html_url": f"{self.web}/{repository.path}/commit/{commit.id}",
            "created": when,
            "author": None,
            "committer": None,
            "commit": {
                "url": page,
                "message": commit.message,
                "author": person,
                "committer": person,
                "tree": {"sha": str(commit.tree_id), "url": page, "created": when},
                "verification": None,
            },
            "parents": [{"sha": str(parent), "url": page, "created": NEVER} for parent in commit.parent_ids],
            "files": [],
            "stats": None,
        }

    def issue(self, pull: Pull) -> Json:
        """Returns a pull request in its form as an issue."""
        pull_data, repository = self.pull(pull), pull.repository
        same = (
            "id number user title body labels milestone assignee assignees state is_locked comments due_date html_url"
        )
        about = {"id": repository.id, "name": repository.name, "owner": repository.owner, "full_name": repository.path}
        meta = {name: pull_data[name] for name in ("merged", "merged_at", "draft", "html_url") if name in pull_data}
        return {
            **{name: pull_data[name] for name in same.split()},
            **{name: pull_data[name] for name in ("created_at", "updated_at")},
            "closed_at": format_time(pull.closed),
            "pin_order": 0,
            "url": f"{self.api}/repos/{repository.path}/issues/{pull.number}",
            "original_author": "",
            "original_author_id": 0,
            "ref": "",
            "assets": [],
            "repository": about,
            "pull_request": meta,
        }
