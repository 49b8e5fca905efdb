"""Gitea and Forgejo, which share one REST API."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.forge import Proposal, PullComment, PullRequest, PullState
from copydesk.jobs.publish.forges.markers import strip_draft_marks
from copydesk.jobs.publish.forges.rest.api_client import QueryParams
from copydesk.jobs.publish.forges.rest.comments import ListedComment, format_since, sort_comments, to_milliseconds
from copydesk.jobs.publish.forges.rest.rest_forge import AccessCheck, Permission, PullHead, RestForge

DRAFT_MARK = "WIP: "
DRAFT_MARK_PATTERN = r"(?:wip:|\[wip\])"
"""The default marks of both forges. Other marks, which a server may configure, stay in the title."""


class Permissions(BaseModel):
    push: bool = False


class GiteaRepository(BaseModel):
    full_name: str
    archived: bool = False
    fork: bool = False
    has_pull_requests: bool = True
    permissions: Permissions | None = None


class GiteaPull(BaseModel):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None = None
    draft: bool | None = None
    merged: bool | None = None
    closed_at: datetime | None = None
    merged_at: datetime | None = None
    updated_at: datetime | None = None
    head: PullHead

    def to_pull_request(self) -> PullRequest:
        state: PullState = "merged" if self.merged else "open" if self.state == "open" else "closed"
        title = strip_draft_marks(self.title, DRAFT_MARK_PATTERN)
        ended_at = self.merged_at or self.closed_at
        return PullRequest(
            number=self.number,
            url=self.html_url,
            state=state,
            title=title,
            body=self.body or "",
            draft=self.draft if self.draft is not None else title != self.title,
            branch=self.head.ref,
            head=self.head.sha or None,
            closed_at=int(ended_at.timestamp() * 1000) if ended_at else None,
            updated_at=to_milliseconds(self.updated_at) if self.updated_at else None,
        )


class GiteaReview(BaseModel):
    id: int
    comments_count: int = 0
    updated_at: datetime | None = None


class GiteaLineComment(ListedComment):
    """A comment on a line. `position` counts the lines of the file; 0 means that the line was removed."""

    position: int = 0
    original_position: int = 0

    def to_comment(self, kind: str, since: int) -> PullComment | None:
        comment = super().to_comment(kind, since)
        if comment is None:
            return None
        return replace(comment, line=self.position or self.original_position or None, is_removed=not self.position)


class Label(BaseModel):
    id: int
    name: str


class Organization(BaseModel):
    name: str


class GiteaUser(BaseModel):
    login: str


class BranchProtection(BaseModel):
    rule_name: str = ""
    branch_name: str = ""
    enable_push: bool = True


class Gitea(RestForge):
    pull_model = GiteaPull
    draft_mark = DRAFT_MARK
    draft_mark_pattern = DRAFT_MARK_PATTERN

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        if not labels:
            return []
        label_ids = {label.name: label.id for label in self.http.paginate(Label, f"{self._path}/labels", {"limit": 50})}
        if not set(labels) <= label_ids.keys():
            with suppress(ForgeRefused):  # only organizations have labels
                owner = quote(self.repository.partition("/")[0])
                organization_labels = self.http.paginate(Label, f"/orgs/{owner}/labels", {"limit": 50})
                label_ids = {label.name: label.id for label in organization_labels} | label_ids
        if ids := [label_ids[label] for label in labels if label in label_ids]:
            self._attach_labels(number, ids)
        return self._notes_on_missing_labels([label for label in labels if label not in label_ids])

    def list_comments(self, number: int, since: int) -> list[PullComment]:
        """Returns the comments, and the comments on lines. Webhooks send the texts of reviews, but not the latter."""
        query: QueryParams = {"since": format_since(since)}
        comments = self.http.request(list[ListedComment], "GET", f"{self._path}/issues/{number}/comments", query=query)
        found = [comment.to_comment("comment", since) for comment in comments]
        reviews = f"{self._path}/pulls/{number}/reviews"
        for review in self.http.paginate(GiteaReview, reviews, {"limit": 50}):
            if review.comments_count and review.updated_at and to_milliseconds(review.updated_at) >= since:
                lines = self.http.request(list[GiteaLineComment], "GET", f"{reviews}/{review.id}/comments")
                found += [line.to_comment("review_comment", since) for line in lines]
        return sort_comments(found)

    def can_write(self, user: str) -> bool:
        """Returns whether this user can push to the repository.

        Only administrators can look up other users' permissions. Without that right, the list of possible assignees is
        used: in a user's repository these are the people with write access. In an organization it may include readers,
        so ForgeRefused is raised instead.
        """
        try:
            collaborator = self.http.get_or_none(
                Permission, f"{self._path}/collaborators/{quote(user, safe='')}/permission"
            )
        except ForgeRefused as refusal:
            if refusal.status != 403:
                raise
            owner = self.repository.partition("/")[0]
            if self.http.get_or_none(Organization, f"/orgs/{quote(owner, safe='')}") is not None:
                raise ForgeRefused(
                    f"{self.http.host} only lets administrators of {self.repository} check who has write access. Make "
                    "the token's owner an administrator so that Copydesk can respond to comments.",
                    status=403,
                ) from None
            writers = self.http.request(list[GiteaUser], "GET", f"{self._path}/assignees")
            return any(writer.login.casefold() == user.casefold() for writer in writers)
        return collaborator is not None and collaborator.permission in ("owner", "admin", "write")

    def _list_own_pulls(self, branch: str, base: str) -> list[GiteaPull]:
        """Returns the pull requests from this branch.

        Neither forge can list pull requests by head. So this looks up base and head, which finds any state, and
        searches all open pull requests, because someone may have changed the base.
        """
        query: QueryParams = {"state": "open", "sort": "recentupdate", "limit": 50}
        pulls_by_number = {pull.number: pull for pull in self.http.paginate(GiteaPull, f"{self._path}/pulls", query)}
        if direct_match := self.http.get_or_none(
            GiteaPull, f"{self._path}/pulls/{quote(base, safe='')}/{quote(branch)}"
        ):
            pulls_by_number[direct_match.number] = direct_match
        return [pull for pull in pulls_by_number.values() if self._is_own_branch(pull.head, branch)]

    def _proposal_fields(self, proposal: Proposal) -> dict[str, Any]:
        return {
            "head": proposal.branch,
            "base": proposal.base,
            "title": self._mark_title(proposal.title, proposal.draft),
            "body": proposal.body,
        }

    def _classify_refusal(self, refusal: ForgeRefused) -> ForgeRefused:
        if refusal.status == 409:
            return PullAlreadyOpen(str(refusal), status=409)
        if refusal.status == 404 or (refusal.status == 422 and "no changes" in str(refusal)):
            return BranchNotVisibleYet(str(refusal), status=refusal.status)
        return refusal

    def _run_access_checks(self, branch: str) -> list[AccessCheck]:
        repository = self.http.request(GiteaRepository, "GET", self._path)
        return [
            AccessCheck("is archived, so nothing can be pushed.", repository.archived),
            AccessCheck("is a fork. Use the repository that pull requests go to.", repository.fork),
            AccessCheck("has pull requests turned off.", not repository.has_pull_requests),
            AccessCheck(
                "cannot be pushed to with this token. The token's owner needs write access.",
                repository.permissions is not None and not repository.permissions.push,
            ),
            AccessCheck(
                f"has a branch protection that blocks pushes to branches such as {branch}.", self._is_protected(branch)
            ),
        ]

    def _is_protected(self, branch: str) -> bool:
        """Returns whether a protection rule blocks pushes; False if the token's owner is not an administrator."""
        with suppress(ForgeRefused):
            rules = self.http.request(list[BranchProtection], "GET", f"{self._path}/branch_protections")
            return any(
                _matches_rule(rule.rule_name or rule.branch_name, branch) and not rule.enable_push for rule in rules
            )
        return False


def _matches_rule(rule: str, branch: str) -> bool:
    """Returns whether the branch matches a glob, in which `*` stops at slashes and `**` does not.

    Tracks all reachable positions at once, because backtracking takes exponential time with many stars.
    """
    positions = {0}  # where the part of the rule that was read so far may end in the branch
    for lexeme in re.findall(r"\*\*|.", rule, re.DOTALL):
        if lexeme == "**":
            positions = set(range(min(positions), len(branch) + 1))
        elif lexeme == "*":
            positions = set(_extend_by_star(positions, branch))
        else:
            positions = {end + 1 for end in positions if _matches_character(lexeme, branch[end : end + 1])}
        if not positions:
            return False
    return len(branch) in positions


def _extend_by_star(positions: set[int], branch: str) -> Iterator[int]:
    """Yields the positions that one star can reach from these, up to the next slash."""
    is_reachable = False
    for position in range(len(branch) + 1):
        is_reachable = position in positions or (is_reachable and branch[position - 1] != "/")
        if is_reachable:
            yield position


def _matches_character(lexeme: str, character: str) -> bool:
    return character not in ("", "/") if lexeme == "?" else character == lexeme
