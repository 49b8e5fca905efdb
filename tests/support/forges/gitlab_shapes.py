"""Builds GitLab's JSON from a forge's state."""

from datetime import datetime
from typing import Any

from tests.support.forges.state import Comment, Pull, Repository, Token, User

Json = dict[str, Any]
ACCESS_LEVELS = {"none": 5, "read": 20, "triage": 20, "write": 30, "maintain": 40, "admin": 50}
FALSE_FIELDS = "imported merge_when_pipeline_succeeds squash squash_on_merge has_conflicts force_remove_source_branch"
DRAFT_PREFIXES = ("draft:", "[draft]", "(draft)")


def format_time(time: datetime | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z") if time else None


def build_position(pull: Pull, comment: Comment) -> Json:
    """Builds the place of a comment on a line of the new version."""
    commits = {"base_sha": pull.base_sha, "start_sha": pull.base_sha, "head_sha": pull.sha}
    places = {"old_path": comment.file, "new_path": comment.file, "old_line": None, "new_line": comment.line}
    return {**commits, **places, "position_type": "text", "line_range": None}


class GitLabShapes:
    def __init__(self, web: str) -> None:
        self.web = web

    def user(self, user: User) -> Json:
        return {
            "id": user.id,
            "username": user.login,
            "name": user.login.title(),
            "state": "active",
            "locked": False,
            "avatar_url": None,
            "web_url": f"{self.web}/{user.login}",
        }

    def member(self, user: User, since: datetime) -> Json:
        about = {"access_level": ACCESS_LEVELS[user.access], "expires_at": None, "membership_state": "active"}
        return {**self.user(user), **about, "created_at": format_time(since)}

    def current_user(self, user: User, since: datetime) -> Json:
        about = {"email": f"{user.login}@example.org", "bio": "", "bot": user.kind == "Bot", "external": False}
        return {**self.user(user), **about, "can_create_project": True, "created_at": format_time(since)}

    def token(self, token: Token, since: datetime) -> Json:
        return {
            "id": token.user.id + 1,
            "name": "copydesk",
            "description": None,
            "revoked": token.revoked,
            "created_at": format_time(since),
            "scopes": sorted(token.scopes),
            "user_id": token.user.id,
            "last_used_at": None,
            "active": token.alive,
            "expires_at": None,
        }

    def project(self, repository: Repository, user: User) -> Json:
        page = f"{self.web}/{repository.path}"
        owner = repository.owner
        access = {"access_level": ACCESS_LEVELS[user.access], "notification_level": 3}
        return {
            "id": repository.id,
            "description": None,
            "name": repository.name,
            "name_with_namespace": repository.path.replace("/", " / "),
            "path": repository.name,
            "path_with_namespace": repository.path,
            "created_at": format_time(repository.created),
            "last_activity_at": format_time(repository.created),
            "default_branch": repository.default_branch,
            "tag_list": [],
            "topics": [],
            "ssh_url_to_repo": f"git@127.0.0.1:{repository.path}.git",
            "http_url_to_repo": f"{page}.git",
            "web_url": page,
            **dict.fromkeys(("readme_url", "avatar_url")),
            **dict.fromkeys(("forks_count", "star_count"), 0),
            "namespace": {
                "id": repository.id + 500_000,
                "name": owner.rpartition("/")[2],
                "path": owner.rpartition("/")[2],
                "kind": "group",
                "full_path": owner,
                "parent_id": repository.id + 600_000 if "/" in owner else None,
                "avatar_url": None,
                "web_url": f"{self.web}/groups/{owner}",
            },
            "archived": repository.archived,
            "visibility": "private" if repository.private else "public",
            "empty_repo": False,
            "creator_id": 1,
            "merge_requests_enabled": True,
            "merge_requests_access_level": "enabled",
            "merge_method": "merge",
            "permissions": {"project_access": access, "group_access": None},
            **({"forked_from_project": {"id": repository.id + 1}} if repository.fork else {}),
        }

    def state(self, pull: Pull) -> str:
        return "merged" if pull.merged else "opened" if pull.state == "open" else "closed"

    def pull_url(self, pull: Pull) -> str:
        return f"{self.web}/{pull.repository.path}/-/merge_requests/{pull.number}"

    def listed_merge_request(self, pull: Pull) -> Json:
        """Returns a merge request in the form of a list."""
        pull.update_heads()
        draft = pull.title.lower().startswith(DRAFT_PREFIXES)
        merger = self.user(pull.merged_by) if pull.merged_by else None
        closed = pull.state == "closed" and not pull.merged
        unset = (
            "assignee milestone merge_after squash_commit_sha discussion_locked should_remove_source_branch closed_by"
        )
        return {
            "id": pull.id,
            "iid": pull.number,
            "project_id": pull.repository.id,
            "title": pull.title,
            "description": pull.body,
            "state": self.state(pull),
            "created_at": format_time(pull.created),
            "updated_at": format_time(pull.updated),
            "prepared_at": format_time(pull.created),
            "merged_by": merger,
            "merge_user": merger,
            "merged_at": format_time(pull.closed) if pull.merged else None,
            "closed_at": format_time(pull.closed) if closed else None,
            "target_branch": pull.base,
            "source_branch": pull.head,
            "user_notes_count": len(pull.comments),
            "author": self.user(pull.author),
            "assignees": [],
            "reviewers": [self.user(one) for one in pull.reviewers],
            "source_project_id": pull.repository.id,
            "target_project_id": pull.repository.id,
            "labels": sorted(pull.labels),
            **dict.fromkeys(("draft", "work_in_progress"), draft),
            "imported_from": "none",
            "merge_status": "can_be_merged",
            "detailed_merge_status": "draft_status" if draft else "mergeable" if pull.state == "open" else "not_open",
            "sha": pull.sha,
            "merge_commit_sha": pull.merge_sha,
            **dict.fromkeys(("upvotes", "downvotes"), 0),
            **dict.fromkeys(unset.split()),
            **dict.fromkeys(FALSE_FIELDS.split(), False),
            "blocking_discussions_resolved": True,
            "reference": f"!{pull.number}",
            "references": {
                **dict.fromkeys(("short", "relative"), f"!{pull.number}"),
                "full": f"{pull.repository.path}!{pull.number}",
            },
            "web_url": self.pull_url(pull),
            "time_stats": {
                **dict.fromkeys(("time_estimate", "total_time_spent"), 0),
                **dict.fromkeys(("human_time_estimate", "human_total_time_spent")),
            },
            "task_completion_status": {"count": 0, "completed_count": 0},
        }

    def merge_request(self, pull: Pull, user: User) -> Json:
        """Returns a single merge request."""
        basic, files = self.listed_merge_request(pull), pull.size()[3]
        unset = (
            "latest_build_started_at latest_build_finished_at first_deployed_to_production_at pipeline head_pipeline"
        )
        return {
            **basic,
            "subscribed": True,
            "changes_count": str(files) if files else None,
            **dict.fromkeys(unset.split()),
            "diff_refs": {"base_sha": pull.base_sha, "head_sha": pull.sha, "start_sha": pull.base_sha},
            "merge_error": None,
            "first_contribution": False,
            "user": {"can_merge": user.may("write")},
        }

    def note(self, pull: Pull, comment: Comment) -> Json:
        return {
            "id": comment.id,
            "type": "DiffNote" if comment.file else None,
            "body": comment.body,
            "attachment": None,
            "author": self.user(comment.author),
            "created_at": format_time(comment.created),
            "updated_at": format_time(comment.created),
            **dict.fromkeys(("system", "confidential", "internal", "imported"), False),
            "noteable_id": pull.id,
            "noteable_type": "MergeRequest",
            "noteable_iid": pull.number,
            "project_id": pull.repository.id,
            "resolvable": comment.file is not None,
            "imported_from": "none",
            "commands_changes": {},
            **({"position": build_position(pull, comment)} if comment.file else {}),
        }
