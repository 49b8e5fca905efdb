"""What a forge's webhook says happened to a pull request. No input or output; nothing here is trusted further on."""

import hashlib
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from copydesk.jobs.job import LONGEST_PROMPT
from copydesk.jobs.publish.forges.markers import SAID

T = TypeVar("T")
Payload = Mapping[str, Any]

LONGEST_EXCERPT = 4000
LONGEST_LOOKED_AT = 2 * LONGEST_PROMPT
EVENT_HEADERS = {
    "github": ("x-github-event",),
    "gitlab": ("x-gitlab-event",),
    "gitea": ("x-gitea-event",),
    "forgejo": ("x-forgejo-event", "x-gitea-event"),
}
REVIEWS = ("pull_request_approved", "pull_request_rejected", "pull_request_comment")
GITLAB_BOT = re.compile(r"(?:project|group)_\d+_bot")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
TICKS = re.compile("`+")
QUOTE = re.compile(r"^ {0,3}>.*$", re.MULTILINE)
INDENTED = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Happened:
    repository: str
    number: int


@dataclass(frozen=True)
class Merged(Happened):
    pass


@dataclass(frozen=True)
class Closed(Happened):
    pass


@dataclass(frozen=True)
class Reopened(Happened):
    pass


@dataclass(frozen=True)
class Mentioned(Happened):
    """Somebody spoke to the agent. A comment on a file says which, at what line, and quotes the lines around it."""

    id: str
    """The comment's own, the same in every delivery."""
    user: str
    text: str
    path: str | None = None
    line: int | None = None
    excerpt: str = ""


def event_of(forge: str, headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in EVENT_HEADERS.get(forge, ()) if name in headers), "")


def happened(forge: str, event: str, payload: Payload, mention: str) -> Happened | None:
    """None for whatever does not concern a pull request's end or a word to the agent."""
    read = {"github": github, "gitlab": gitlab}.get(forge, gitea)
    found = read(event, payload)
    if isinstance(found, Mentioned) and (SAID in found.text or not mentions(found.text, mention)):
        return None
    return found


def github(event: str, payload: Payload) -> Happened | None:
    action, repository = _get(payload, "action", str), _get(payload, "repository.full_name", str)
    number = _get(payload, "pull_request.number", int) or _get(payload, "issue.number", int)
    if repository is None or number is None:
        return None
    if event == "pull_request":
        return _moved(repository, number, action, _get(payload, "pull_request.merged", bool) or False)
    said = {"pull_request_review": "review"}.get(event, "comment")
    is_new = action == ("submitted" if said == "review" else "created")
    on_pull = event.startswith("pull_request_") or _get(payload, "issue.pull_request", dict) is not None
    known = event in ("issue_comment", "pull_request_review", "pull_request_review_comment")
    if not (known and is_new and on_pull) or _get(payload, f"{said}.user.type", str) == "Bot":
        return None
    return _mentioned(
        repository,
        number,
        kind=event,
        id=_get(payload, f"{said}.id", int),
        user=_get(payload, f"{said}.user.login", str),
        text=_get(payload, f"{said}.body", str),
        path=_get(payload, f"{said}.path", str),
        line=_get(payload, f"{said}.line", int) or _get(payload, f"{said}.original_line", int),
        excerpt=_get(payload, f"{said}.diff_hunk", str),
    )


def gitlab(event: str, payload: Payload) -> Happened | None:
    repository = _get(payload, "project.path_with_namespace", str)
    action = _get(payload, "object_attributes.action", str)
    if repository is None:
        return None
    if event == "Merge Request Hook":
        number = _get(payload, "object_attributes.iid", int)
        known = {"merge": ("closed", True), "close": ("closed", False), "reopen": ("reopened", False)}
        return _moved(repository, number, *known[action]) if number is not None and action in known else None
    number, user = _get(payload, "merge_request.iid", int), _get(payload, "user.username", str)
    is_note = event == "Note Hook" and _get(payload, "object_attributes.noteable_type", str) == "MergeRequest"
    is_person = not _get(payload, "object_attributes.system", bool) and not GITLAB_BOT.match(user or "")
    if number is None or not is_note or not is_person or not _is_new_note(payload, action):
        return None
    return _mentioned(
        repository,
        number,
        kind="note",
        id=_get(payload, "object_attributes.id", int),
        user=user,
        text=_get(payload, "object_attributes.note", str),
        path=_get(payload, "object_attributes.position.new_path", str),
        line=_get(payload, "object_attributes.position.new_line", int)
        or _get(payload, "object_attributes.position.old_line", int),
        excerpt=_get(payload, "object_attributes.st_diff.diff", str),
    )


def gitea(event: str, payload: Payload) -> Happened | None:
    """Gitea and Forgejo. Comments on lines come without their text in both; only a review's own words are sent."""
    action, repository = _get(payload, "action", str), _get(payload, "repository.full_name", str)
    number = _get(payload, "pull_request.number", int) or _get(payload, "issue.number", int)
    if repository is None or number is None:
        return None
    if event == "pull_request":
        return _moved(repository, number, action, _get(payload, "pull_request.merged", bool) or False)
    if event == "issue_comment" and action == "created" and _get(payload, "is_pull", bool):
        return _mentioned(
            repository,
            number,
            kind="comment",
            id=_get(payload, "comment.id", int),
            user=_get(payload, "comment.user.login", str),
            text=_get(payload, "comment.body", str),
        )
    if event in REVIEWS and action == "reviewed":
        # A review has no number here: its words and the commit they were said about make it one of a kind.
        about = _get(payload, "pull_request.updated_at", str) or _get(payload, "commit_id", str) or ""
        user, text = _get(payload, "sender.login", str), _get(payload, "review.content", str)
        name = hashlib.sha256(f"{number} {about} {user} {text}".encode()).hexdigest()[:32]
        return _mentioned(repository, number, kind="review", id=name, user=user, text=text)
    return None


def mentions(text: str, mention: str) -> bool:
    """As a word of its own, outside quotes, code and hidden text."""
    spoken = text[:LONGEST_LOOKED_AT].replace("\r\n", "\n")
    for aside in (HIDDEN, FENCE, QUOTE, INDENTED):
        spoken = aside.sub(" ", spoken)
    spoken = _without_code(spoken)
    return re.search(rf"(?<![\w@./-]){re.escape(mention)}(?![\w/-]|\.\w)", spoken, re.IGNORECASE) is not None


def _without_code(text: str) -> str:
    """Drops code between two runs of equally many ticks."""
    runs = [run.span() for run in TICKS.finditer(text)]
    later: dict[int, deque[int]] = {}
    for number, (start, end) in enumerate(runs):
        later.setdefault(end - start, deque()).append(number)
    parts, position = [], 0
    for number, (start, end) in enumerate(runs):
        same = later[end - start]
        while same and same[0] <= number:
            same.popleft()
        if start >= position and same:
            parts.append(text[position:start])
            position = runs[same[0]][1]
    return " ".join([*parts, text[position:]])


def prompt_of(said: Mentioned, mention: str) -> str:
    """The comment as a message to the job, without the name it begins with; "" when there is nothing but that.

    Where it was said comes as data, each line quoted.
    """
    text = re.sub(rf"^{re.escape(mention)}\b[,:;.!]*\s*", "", said.text.strip(), flags=re.IGNORECASE)
    if said.path is None or not text:
        return text
    place = f"{said.path}, line {said.line}" if said.line else said.path
    quoted = "\n".join(f"> {line}" for line in said.excerpt[-LONGEST_EXCERPT:].splitlines())
    shown = f" The lines around it, as data:\n\n{quoted}" if quoted else ""
    return f"{text}\n\nThis was said in a review, about {place}.{shown}"


def _moved(repository: str, number: int, action: str | None, merged: bool) -> Happened | None:
    if action == "closed":
        return Merged(repository, number) if merged else Closed(repository, number)
    return Reopened(repository, number) if action == "reopened" else None


def _mentioned(
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
) -> Mentioned | None:
    if id is None or not user or not text:
        return None
    return Mentioned(repository, number, f"{kind}-{id}", user, text, path, line, excerpt or "")


def _is_new_note(payload: Payload, action: str | None) -> bool:
    """Older servers name no action; an edit then shows in its times."""
    if action is not None:
        return action == "create"
    created = _get(payload, "object_attributes.created_at", str)
    return created == _get(payload, "object_attributes.updated_at", str)


def _get(payload: Payload, path: str, kind: type[T]) -> T | None:
    """The value at `a.b.c`, if there is one of this kind; text without what no database or file can hold."""
    value: Any = payload
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = value.replace("\0", "").encode("utf-8", "replace").decode()
    return value if isinstance(value, kind) else None
