"""The authors of commits as the forges' APIs name them. This module does no input or output."""

import re
from collections.abc import Callable, Sequence

from pydantic import AliasChoices, BaseModel, Field

from copydesk.jobs.publish.forges.rest.comments import CommentAuthor

MAX_COMMIT_LISTS = 5
"""How many lists of commits are read for one change. One is enough unless the commits have no common descendant."""
BOT_NAME_PATTERN = re.compile(
    r"\[bot\]$|[-_]bot$|^(?:project|group)_\d+_bot|^(?:gitea|forgejo)-actions$|^ghost$", re.IGNORECASE
)
"""Matches accounts that cannot review: Apps, users of access tokens, CI and deleted accounts."""


class ListedCommit(BaseModel):
    """A commit in a list. GitHub and Gitea name the author's account; GitLab has only the address."""

    sha: str = Field(validation_alias=AliasChoices("sha", "id"))
    author: CommentAuthor | None = None
    """None, or without a login, if no account has the address of the commit."""
    author_email: str = ""

    @property
    def login(self) -> str:
        return self.author.login if self.author is not None and self.author.type != "Bot" else ""


def select_commits(
    commits: Sequence[str], list_commits: Callable[[str, int], Sequence[ListedCommit]]
) -> list[ListedCommit]:
    """Returns these commits from lists of ancestors. `list_commits` gets the commit to begin with, and a number."""
    missing = list(dict.fromkeys(commits))
    selected: list[ListedCommit] = []
    for _ in range(MAX_COMMIT_LISTS):
        if not missing:
            break
        start = missing[0]
        selected += [commit for commit in list_commits(start, 2 * len(missing)) if commit.sha in missing]
        listed = {start, *(commit.sha for commit in selected)}
        missing = [commit for commit in missing if commit not in listed]
    return selected


def select_people(names: Sequence[str]) -> list[str]:
    """Returns each name once, without bots."""
    return [name for name in dict.fromkeys(names) if name and not BOT_NAME_PATTERN.search(name)]
