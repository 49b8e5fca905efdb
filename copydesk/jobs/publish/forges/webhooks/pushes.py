"""Parses webhooks about pushes, tags and releases. No input or output.

They carry no authority: the caller looks at the repository itself. So a forged or repeated delivery costs one look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from copydesk.jobs.publish.forges.webhooks.payloads import EVENT_HEADERS, get_value

PUSH_EVENTS = ("push", "Push Hook", "Tag Push Hook")
RELEASE_EVENTS = ("release", "Release Hook")
CREATE_EVENT = "create"
SYSTEM_HOOK = "System Hook"
"""Sent by a hook for a whole GitLab server. `object_kind` says what it is about."""
SYSTEM_HOOK_KINDS = ("push", "tag_push", "release")
REMOVED_RELEASE_ACTIONS = ("deleted", "delete", "unpublished")
DELIVERY_HEADERS = {
    "github": ("x-github-delivery",),
    "gitlab": ("webhook-id", "idempotency-key"),  # X-Gitlab-Event-UUID is shared by several events
    "gitea": ("x-gitea-delivery",),
    "forgejo": ("x-forgejo-delivery", "x-gitea-delivery"),
}
MOST_SPECIFIC_FIRST = ("forgejo", "gitea", "gitlab", "github")
"""Forgejo also sends the headers of Gitea, and both send those of GitHub."""
GITEA_FAMILY = ("gitea", "forgejo")


@dataclass(frozen=True)
class RefChange:
    """A branch or a tag that a delivery says was pushed."""

    repository: str
    """The full name, such as `acme/docs`."""
    urls: tuple[str, ...]
    branch: str | None
    """None for a tag or a release."""


def find_sender(project_forge: str, headers: Mapping[str, str]) -> str:
    """Returns the forge whose headers a delivery has; the project's own if they do not tell.

    A context repository may be on another forge than the project.
    """
    sender = next((forge for forge in MOST_SPECIFIC_FIRST if EVENT_HEADERS[forge][0] in headers), project_forge)
    is_same_family = sender in GITEA_FAMILY and project_forge in GITEA_FAMILY
    return project_forge if is_same_family else sender


def read_delivery_id(forge: str, headers: Mapping[str, str]) -> str | None:
    """Returns the id that repeated deliveries share, or None if the forge sends none."""
    return next((headers[name] for name in DELIVERY_HEADERS.get(forge, ()) if headers.get(name)), None)


def parse_ref_change(event_name: str, payload: Mapping[str, Any]) -> RefChange | None:
    """Returns the branch or tag that was pushed, or None if the delivery is about something else or a deletion."""
    if event_name == SYSTEM_HOOK and get_value(payload, "object_kind", str) not in SYSTEM_HOOK_KINDS:
        return None
    if event_name not in (*PUSH_EVENTS, *RELEASE_EVENTS, CREATE_EVENT, SYSTEM_HOOK):
        return None
    names = ("repository.full_name", "project.path_with_namespace")
    repository = next((name for path in names if (name := get_value(payload, path, str))), None)
    if repository is None:
        return None
    paths = ("repository.clone_url", "repository.html_url", "project.git_http_url", "project.web_url")
    urls = tuple(url for path in paths if (url := get_value(payload, path, str)))
    ref = _read_pushed_ref(event_name, payload)
    if ref is None:
        return None
    return RefChange(repository, urls, ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None)


def _read_pushed_ref(event_name: str, payload: Mapping[str, Any]) -> str | None:
    """Returns the full name of the branch or tag. None means that it was deleted, or that it is neither."""
    ref = get_value(payload, "ref", str) or ""
    if event_name in RELEASE_EVENTS or get_value(payload, "object_kind", str) == "release":
        was_removed = get_value(payload, "action", str) in REMOVED_RELEASE_ACTIONS
        return None if was_removed else "refs/tags/"
    if event_name == CREATE_EVENT:
        prefixes = {"branch": "refs/heads/", "tag": "refs/tags/"}
        prefix = prefixes.get(get_value(payload, "ref_type", str) or "")
        return f"{prefix}{ref}" if prefix and ref else None
    after = get_value(payload, "after", str) or ""
    is_deletion = get_value(payload, "deleted", bool) or (bool(after) and not after.strip("0"))
    return ref if ref.startswith(("refs/heads/", "refs/tags/")) and not is_deletion else None
