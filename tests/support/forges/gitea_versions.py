"""What older versions of Gitea and Forgejo lack, read from the sources of each release."""

import re
from collections.abc import Mapping

Version = tuple[int, int]

GITEA_VERSIONS: Mapping[str, str] = {
    "gitea-1.16": "1.16.9",
    "gitea-1.17": "1.17.4",
    "gitea-1.18": "1.18.5",
    "gitea-1.19": "1.19.4",
    "gitea-1.20": "1.20.6",
    "gitea-1.21": "1.21.11",
    "gitea-1.22": "1.22.6",
    "gitea-1.23": "1.23.8",
    "gitea-1.24": "1.24.7",
}
FORGEJO_VERSIONS: Mapping[str, str] = {
    "forgejo-1.21": "1.21.11-2",
    "forgejo-7": "7.0.16+gitea-1.21.11",
    "forgejo-12": "12.0.4+gitea-1.22.0",
}
ROUTES_SINCE: Mapping[str, Version] = {
    "repository.repo_get_pull_request_by_base_head": (1, 22),
    "repository.repo_get_repo_permissions": (1, 17),
}
PULL_FIELDS_SINCE: Mapping[str, Version] = {
    "draft": (1, 22),
    "pin_order": (1, 20),
    "requested_reviewers": (1, 20),
    "requested_reviewers_teams": (1, 23),
}
CLOSED_AT_SINCE: Version = (1, 18)
"""Before, the field is there and null, also after the pull request was closed."""
REFUSES_UNKNOWN_TOKENS_SINCE: Version = (1, 19)
"""Before, a caller with an unknown token is treated as anonymous."""
SCOPES_SINCE: Version = (1, 20)
"""Before, tokens had no scopes, or others in 1.19."""
REVIEW_TIMES_SINCE: Version = (1, 19)
"""Before, a review says when it was begun, but not when it was submitted."""
RULE_NAMES_SINCE: Version = (1, 19)
FORGEJO_DRAFT_SINCE: Version = (8, 0)
FORGEJO_TEAMS_SINCE: Version = (9, 0)
"""Forgejo 7 has the routes of Gitea 1.22, but not these fields."""


def parse_version(text: str) -> Version:
    numbers = re.match(r"(\d+)\.(\d+)", text)
    assert numbers is not None
    return int(numbers[1]), int(numbers[2])


def list_absent_pull_fields(version: Version) -> frozenset[str]:
    absent = {name for name, since in PULL_FIELDS_SINCE.items() if version < since}
    if (2, 0) < version < FORGEJO_TEAMS_SINCE:
        absent |= {"requested_reviewers_teams"} | ({"draft"} if version < FORGEJO_DRAFT_SINCE else set())
    return frozenset(absent)


def redirect_status(version: Version) -> int:
    """Returns the status of the redirect from a renamed repository."""
    if version < (1, 17):
        return 302
    return 301 if (1, 23) <= version < (2, 0) else 307


def format_refusal(kind: str, version: Version) -> str:
    """Returns what this version prints about a refused push to BRANCH."""
    reason = "Not allowed to push to protected branch BRANCH"
    if kind == "Gitea" and version >= (1, 24):
        return f"error:\nerror: {reason}\nerror:\n"
    return f"\n{kind}: {reason}\n"
