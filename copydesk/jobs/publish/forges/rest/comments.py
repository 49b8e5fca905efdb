"""Comments on pull requests, as the APIs of the forges return them."""

from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import BaseModel

from copydesk.jobs.publish.forges.forge import PullComment


class CommentAuthor(BaseModel):
    login: str = ""
    type: str | None = None


class ListedComment(BaseModel):
    """A comment or a review on GitHub and on Gitea. A comment on a line has a path."""

    id: int
    body: str | None = None
    user: CommentAuthor | None = None
    """None for the account of a person who left."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    """Later than `created_at` after an edit, and for a comment of a review that was pending for some time."""
    submitted_at: datetime | None = None
    """When a review was submitted, in place of `created_at`; None while it is pending."""
    path: str | None = None
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    side: str | None = None
    diff_hunk: str | None = None

    def to_comment(self, kind: str, since: int) -> PullComment | None:
        """Returns the comment; None if it is older, empty, pending or not by a person."""
        at = self.created_at or self.submitted_at
        if at is None or not self.body or self.user is None or not self.user.login or self.user.type == "Bot":
            return None
        if to_milliseconds(max(at, self.updated_at or at)) < since:
            return None
        return PullComment(
            id=f"{kind}-{self.id}",
            user=self.user.login,
            text=self.body,
            created_at=to_milliseconds(at),
            path=self.path,
            line=self.line or self.original_line,
            excerpt=self.diff_hunk or "",
            first_line=self.start_line,
            is_removed=self.side == "LEFT",
        )


class CommentText(BaseModel):
    """The text of a comment of a person or a machine, on every forge."""

    body: str | None = None


def sort_comments(comments: Iterable[PullComment | None]) -> list[PullComment]:
    return sorted((comment for comment in comments if comment is not None), key=lambda comment: comment.created_at)


def to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def to_milliseconds_or_none(at: datetime | None) -> int | None:
    return to_milliseconds(at) if at else None


def format_since(since: int) -> str:
    """Returns a time in milliseconds as the APIs take it, rounded down to the second."""
    return datetime.fromtimestamp(since // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
