"""Parses webhook payloads into events of pull requests. No input or output; callers must not trust the contents."""

import hashlib
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from copydesk.jobs.agent.review_comment import MAX_EXCERPT_CHARS, CommentPlace, format_review_comment
from copydesk.jobs.job import MAX_PROMPT_CHARS
from copydesk.jobs.publish.forges.markers import COMMENT_MARKER, GITLAB_BOT_PATTERN

T = TypeVar("T")
Payload = Mapping[str, Any]

MAX_MENTION_SCAN_CHARS = 2 * MAX_PROMPT_CHARS
EVENT_HEADERS = {
    "github": ("x-github-event",),
    "gitlab": ("x-gitlab-event",),
    "gitea": ("x-gitea-event",),
    "forgejo": ("x-forgejo-event", "x-gitea-event"),
}
GITEA_REVIEW_EVENTS = ("pull_request_approved", "pull_request_rejected", "pull_request_comment")
FENCED_CODE_PATTERN = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
BACKTICKS_PATTERN = re.compile("`+")
QUOTED_LINE_PATTERN = re.compile(r"^ {0,3}>.*$", re.MULTILINE)
INDENTED_CODE_PATTERN = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
HTML_COMMENT_PATTERN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True)
class PullEvent:
    repository: str
    number: int


@dataclass(frozen=True)
class PullMerged(PullEvent):
    pass


@dataclass(frozen=True)
class PullClosed(PullEvent):
    pass


@dataclass(frozen=True)
class PullReopened(PullEvent):
    pass


@dataclass(frozen=True)
class AgentMentioned(PullEvent):
    """A comment that mentions the agent. A comment on a line has its path, its line and an excerpt of the diff."""

    id: str
    """The comment's identifier, which is the same in every delivery."""
    user: str
    text: str
    path: str | None = None
    line: int | None = None
    excerpt: str = ""
    first_line: int | None = None
    """The first of several lines, of which `line` is the last."""
    is_removed: bool = False
    """Whether the line is one that the change removed."""


@dataclass(frozen=True)
class ReviewSubmitted(PullEvent):
    """A review whose comments on lines are not in the payload, so they must be looked up."""


def read_event_name(forge: str, headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in EVENT_HEADERS.get(forge, ()) if name in headers), "")


def parse_event(forge: str, event_name: str, payload: Payload, mention: str) -> PullEvent | None:
    """Returns the event, or None if a pull request neither changed its state nor got a mention of the agent."""
    parse = {"github": parse_github, "gitlab": parse_gitlab}.get(forge, parse_gitea)
    event = parse(event_name, payload)
    if isinstance(event, AgentMentioned) and (COMMENT_MARKER in event.text or not has_mention(event.text, mention)):
        is_gitea_review = event_name in GITEA_REVIEW_EVENTS and forge not in ("github", "gitlab")
        return ReviewSubmitted(event.repository, event.number) if is_gitea_review else None
    return event


def parse_github(event_name: str, payload: Payload) -> PullEvent | None:
    action = get_value(payload, "action", str)
    repository = get_value(payload, "repository.full_name", str)
    number = get_value(payload, "pull_request.number", int) or get_value(payload, "issue.number", int)
    if repository is None or number is None:
        return None
    if event_name == "pull_request":
        return _state_event(repository, number, action, get_value(payload, "pull_request.merged", bool) or False)
    comment_key = {"pull_request_review": "review"}.get(event_name, "comment")
    is_new = action == ("submitted" if comment_key == "review" else "created")
    on_pull = event_name.startswith("pull_request_") or get_value(payload, "issue.pull_request", dict) is not None
    is_comment_event = event_name in ("issue_comment", "pull_request_review", "pull_request_review_comment")
    if not (is_comment_event and is_new and on_pull) or get_value(payload, f"{comment_key}.user.type", str) == "Bot":
        return None
    return _build_mention(
        repository,
        number,
        kind=event_name,
        id=get_value(payload, f"{comment_key}.id", int),
        user=get_value(payload, f"{comment_key}.user.login", str),
        text=get_value(payload, f"{comment_key}.body", str),
        path=get_value(payload, f"{comment_key}.path", str),
        line=get_value(payload, f"{comment_key}.line", int) or get_value(payload, f"{comment_key}.original_line", int),
        excerpt=get_value(payload, f"{comment_key}.diff_hunk", str),
        first_line=get_value(payload, f"{comment_key}.start_line", int)
        or get_value(payload, f"{comment_key}.original_start_line", int),
        is_removed=get_value(payload, f"{comment_key}.side", str) == "LEFT",
    )


def parse_gitlab(event_name: str, payload: Payload) -> PullEvent | None:
    repository = get_value(payload, "project.path_with_namespace", str)
    action = get_value(payload, "object_attributes.action", str)
    if repository is None:
        return None
    if event_name == "Merge Request Hook":
        number = get_value(payload, "object_attributes.iid", int)
        transitions = {"merge": ("closed", True), "close": ("closed", False), "reopen": ("reopened", False)}
        return (
            _state_event(repository, number, *transitions[action])
            if number is not None and action in transitions
            else None
        )
    number = get_value(payload, "merge_request.iid", int)
    user = get_value(payload, "user.username", str)
    is_note = event_name == "Note Hook" and get_value(payload, "object_attributes.noteable_type", str) == "MergeRequest"
    is_person = not get_value(payload, "object_attributes.system", bool) and not GITLAB_BOT_PATTERN.match(user or "")
    if number is None or not is_note or not is_person or not _is_new_note(payload, action):
        return None
    return _build_mention(
        repository,
        number,
        kind="note",
        id=get_value(payload, "object_attributes.id", int),
        user=user,
        text=get_value(payload, "object_attributes.note", str),
        path=get_value(payload, "object_attributes.position.new_path", str),
        line=get_value(payload, "object_attributes.position.new_line", int)
        or get_value(payload, "object_attributes.position.old_line", int),
        excerpt=get_value(payload, "object_attributes.st_diff.diff", str),
        first_line=get_value(payload, "object_attributes.position.line_range.start.new_line", int),
        is_removed=get_value(payload, "object_attributes.position.new_line", int) is None,
    )


def parse_gitea(event_name: str, payload: Payload) -> PullEvent | None:
    """Parses events of Gitea and Forgejo, which send the text of a review but not the comments on its lines."""
    action = get_value(payload, "action", str)
    repository = get_value(payload, "repository.full_name", str)
    number = get_value(payload, "pull_request.number", int) or get_value(payload, "issue.number", int)
    if repository is None or number is None:
        return None
    if event_name == "pull_request":
        return _state_event(repository, number, action, get_value(payload, "pull_request.merged", bool) or False)
    if event_name == "issue_comment" and action == "created" and get_value(payload, "is_pull", bool):
        return _build_mention(
            repository,
            number,
            kind="comment",
            id=get_value(payload, "comment.id", int),
            user=get_value(payload, "comment.user.login", str),
            text=get_value(payload, "comment.body", str),
        )
    if event_name in GITEA_REVIEW_EVENTS and action == "reviewed":
        # These forges send no id for a review, so its text and the state of the pull request identify it.
        revision = get_value(payload, "pull_request.updated_at", str) or get_value(payload, "commit_id", str) or ""
        user = get_value(payload, "sender.login", str)
        text = get_value(payload, "review.content", str)
        if not text:
            return ReviewSubmitted(repository, number)
        review_id = hashlib.sha256(f"{number} {revision} {user} {text}".encode()).hexdigest()[:32]
        return _build_mention(repository, number, kind="review", id=review_id, user=user, text=text)
    return None


def has_mention(text: str, mention: str) -> bool:
    """Returns whether the text contains the mention as a separate word outside quotes, code and HTML comments."""
    prose = text[:MAX_MENTION_SCAN_CHARS].replace("\r\n", "\n")
    for pattern in (HTML_COMMENT_PATTERN, FENCED_CODE_PATTERN, QUOTED_LINE_PATTERN, INDENTED_CODE_PATTERN):
        prose = pattern.sub(" ", prose)
    prose = _remove_code_spans(prose)
    return re.search(rf"(?<![\w@./-]){re.escape(mention)}(?![\w/-]|\.\w)", prose, re.IGNORECASE) is not None


def _remove_code_spans(text: str) -> str:
    """Replaces code spans, which are delimited by runs of equally many backticks, by spaces."""
    runs = [run.span() for run in BACKTICKS_PATTERN.finditer(text)]
    runs_by_length: dict[int, deque[int]] = {}
    for number, (start, end) in enumerate(runs):
        runs_by_length.setdefault(end - start, deque()).append(number)
    parts = []
    position = 0
    for number, (start, end) in enumerate(runs):
        same_length_runs = runs_by_length[end - start]
        while same_length_runs and same_length_runs[0] <= number:
            same_length_runs.popleft()
        if start >= position and same_length_runs:
            parts.append(text[position:start])
            position = runs[same_length_runs[0]][1]
    return " ".join([*parts, text[position:]])


def build_prompt(comment: AgentMentioned, mention: str) -> str:
    """Returns the comment as a message to the job, without the mention at its start; "" if nothing else is left.

    For a comment on a line, adds its location and quotes the diff as data.
    """
    text = re.sub(rf"^{re.escape(mention)}\b[,:;.!]*\s*", "", comment.text.strip(), flags=re.IGNORECASE)
    if comment.path is None or not text:
        return text
    place = CommentPlace(comment.path, comment.first_line, comment.line or None, comment.is_removed)
    return format_review_comment(text, place, comment.excerpt)


def _state_event(repository: str, number: int, action: str | None, merged: bool) -> PullEvent | None:
    if action == "closed":
        return PullMerged(repository, number) if merged else PullClosed(repository, number)
    return PullReopened(repository, number) if action == "reopened" else None


def _build_mention(
    repository: str,
    number: int,
    *,
    kind: str,
    id: int | str | None,  # noqa: A002
    user: str | None,
    text: str | None,
    path: str | None = None,
    line: int | None = None,
    excerpt: str | None = None,
    first_line: int | None = None,
    is_removed: bool = False,
) -> AgentMentioned | None:
    if id is None or not user or not text:
        return None
    is_removed = is_removed and line is not None
    text, excerpt = text[:MAX_MENTION_SCAN_CHARS], (excerpt or "")[-MAX_EXCERPT_CHARS:]
    return AgentMentioned(repository, number, f"{kind}-{id}", user, text, path, line, excerpt, first_line, is_removed)


def _is_new_note(payload: Payload, action: str | None) -> bool:
    """Returns whether a note was created, not edited. Older servers send no action, so timestamps are compared."""
    if action is not None:
        return action == "create"
    created = get_value(payload, "object_attributes.created_at", str)
    return created == get_value(payload, "object_attributes.updated_at", str)


def get_value(payload: Payload, path: str, expected_type: type[T]) -> T | None:
    """Returns the value at the path `a.b.c`, storable in a database, or None if it is missing or of another type."""
    value: Any = payload
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = remove_unstorable(value)
    return value if isinstance(value, expected_type) else None


def remove_unstorable(text: str) -> str:
    """Removes NUL characters and lone surrogates, which databases and files cannot store."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
