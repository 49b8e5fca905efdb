"""Gitea and Forgejo, which share one REST API."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.job import PullState
from copydesk.jobs.publish.errors import BranchNotVisibleYet, ForgeRefused, PullAlreadyOpen
from copydesk.jobs.publish.forges.forge import Proposal, PullComment, PullRequest
from copydesk.jobs.publish.forges.markers import strip_draft_marks
from copydesk.jobs.publish.forges.rest.api_client import QueryParams
from copydesk.jobs.publish.forges.rest.comments import (
    CommentAuthor,
    CommentText,
    ListedComment,
    format_since,
    sort_comments,
    to_milliseconds_or_none,
)
from copydesk.jobs.publish.forges.rest.gitea_version import (
    LOOKUP_BY_BRANCH_SINCE,
    MIN_VERSION,
    PERMISSIONS_SINCE,
    ServerVersion,
)
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


class GiteaHead(PullHead):
    label: str = ""

    @property
    def branch(self) -> str:
        """Returns the branch's name. After the branch was deleted, `ref` is `refs/pull/7/head`."""
        return self.label or self.ref


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
    head: GiteaHead
    user: CommentAuthor | None = None

    def to_pull_request(self) -> PullRequest:
        state: PullState = "merged" if self.merged else "open" if self.state == "open" else "closed"
        title = strip_draft_marks(self.title, DRAFT_MARK_PATTERN)
        return PullRequest(
            number=self.number,
            url=self.html_url,
            state=state,
            title=title,
            body=self.body or "",
            draft=self.draft if self.draft is not None else title != self.title,
            branch=self.head.branch,
            head=self.head.sha or None,
            closed_at=to_milliseconds_or_none(self.merged_at or self.closed_at),
            updated_at=to_milliseconds_or_none(self.updated_at),
            author=self.user.login if self.user else "",
        )


class GiteaIssue(BaseModel):
    closed_at: datetime | None = None


class Named(BaseModel):
    name: str


class GiteaReview(BaseModel):
    """A review, or the request for one."""

    id: int
    state: str
    user: "GiteaUser | None" = None
    team: Named | None = None
    comments_count: int = 0
    updated_at: datetime | None = None
    """When it was submitted; `submitted_at` is when it was begun."""


class GiteaLineComment(ListedComment):
    """A comment on a line. `position` counts the lines of the file; 0 means that the line was removed."""

    position: int = 0
    original_position: int = 0

    def to_comment(self, kind: str, since: int) -> PullComment | None:
        comment = super().to_comment(kind, since)
        if comment is None:
            return None
        return replace(comment, line=self.position or self.original_position or None, is_removed=not self.position)


class Version(BaseModel):
    version: str


class Label(BaseModel):
    id: int
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
    page_query: ClassVar = {"limit": 50}
    ignores_pushes_while_closed = True

    def find_pulls(self, branch: str, base: str) -> list[PullRequest]:
        try:
            pulls = super().find_pulls(branch, base)
        except ForgeRefused as refusal:
            if refusal.status == 404:
                self._refuse_revoked_token()
            raise
        return [self._add_closing_time(pull) for pull in pulls]

    def get_pull(self, number: int) -> PullRequest:
        return self._add_closing_time(super().get_pull(number))

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        if not labels:
            return []
        label_ids = {
            label.name: label.id for label in self.http.paginate(Label, f"{self._path}/labels", self.page_query)
        }
        if not set(labels) <= label_ids.keys():
            with suppress(ForgeRefused):  # only organizations have labels
                owner = quote(self.repository.partition("/")[0])
                organization_labels = self.http.paginate(Label, f"/orgs/{owner}/labels", self.page_query)
                label_ids = {label.name: label.id for label in organization_labels} | label_ids
        if ids := [label_ids[label] for label in labels if label in label_ids]:
            self._attach_labels(number, ids)
        return self._notes_on_missing_labels([label for label in labels if label not in label_ids])

    def list_comments(self, number: int, since: int) -> list[PullComment]:
        """Returns the comments, and the comments on lines. Webhooks send the texts of reviews, but not the latter.

        A comment on a line may be much older than its review. Gitea before 1.19 does not say when a review changed.
        """
        query: QueryParams = {"since": format_since(since)}
        comments = self.http.request(list[ListedComment], "GET", f"{self._path}/issues/{number}/comments", query=query)
        found = [comment.to_comment("comment", since) for comment in comments]
        reviews = f"{self._path}/pulls/{number}/reviews"
        for review in self.http.paginate(GiteaReview, reviews, self.page_query):
            updated_at = to_milliseconds_or_none(review.updated_at)
            if review.comments_count and (updated_at is None or updated_at >= since):
                lines = self.http.request(list[GiteaLineComment], "GET", f"{reviews}/{review.id}/comments")
                found += [line.to_comment("review_comment", since if updated_at is None else 0) for line in lines]
        return sort_comments(found)

    def _list_texts(self, path: str, since: int) -> Iterable[CommentText]:
        return self.http.request(list[CommentText], "GET", path, query={"since": format_since(since)})

    def can_write(self, user: str) -> bool:
        """Returns whether this user can push to the repository.

        Only administrators can look up other users' permissions, and on old servers no one can. Without that right, the
        list of possible assignees is used: in a user's repository these are the people with write access. In an
        organization it may include readers, so ForgeRefused is raised instead.
        """
        if self.version.numbers is None or self.version.offers(PERMISSIONS_SINCE):
            try:
                collaborator = self.http.get_or_none(
                    Permission, f"{self._path}/collaborators/{quote(user, safe='')}/permission"
                )
                if collaborator is not None or self.version.offers(PERMISSIONS_SINCE):
                    return collaborator is not None and collaborator.permission in ("owner", "admin", "write")
            except ForgeRefused as refusal:
                if refusal.status != 403:
                    raise
        if self._is_in_organization():
            raise self._refuse_unknown_permission()
        writers = self.http.request(list[GiteaUser], "GET", f"{self._path}/assignees")
        return any(writer.login.casefold() == user.casefold() for writer in writers)

    @cached_property
    def version(self) -> ServerVersion:
        try:
            return ServerVersion.parse(self.http.request(Version, "GET", "/version").version)
        except ForgeRefused:
            return ServerVersion("unknown", None)

    def _list_own_pulls(self, branch: str, base: str) -> list[GiteaPull]:
        """Returns the pull requests from this branch.

        Neither forge can list pull requests by head. So this looks up base and head, which finds any state, and
        searches all open pull requests, because someone may have changed the base. A server that cannot look them up
        is searched for closed ones too, the last updated first.
        """
        can_look_up = self.version.offers(LOOKUP_BY_BRANCH_SINCE)
        pulls_by_number = {pull.number: pull for pull in self._list_pulls("open")}
        if not can_look_up:
            pulls_by_number |= {pull.number: pull for pull in self._list_pulls("closed")}
        elif direct_match := self.http.get_or_none(
            GiteaPull, f"{self._path}/pulls/{quote(base, safe='')}/{quote(branch)}"
        ):
            pulls_by_number[direct_match.number] = direct_match
        return [pull for pull in pulls_by_number.values() if self._is_own_branch(pull.head, branch)]

    def _list_pulls(self, state: str) -> Iterator[GiteaPull]:
        query: QueryParams = {"state": state, "sort": "recentupdate", **self.page_query}
        return self.http.paginate(GiteaPull, f"{self._path}/pulls", query)

    def _add_closing_time(self, pull: PullRequest) -> PullRequest:
        """Adds when a pull request was closed. Gitea before 1.18 says it only of the issue with the same number."""
        if pull.state == "open" or pull.closed_at is not None:
            return pull
        issue = self.http.request(GiteaIssue, "GET", f"{self._path}/issues/{pull.number}")
        return replace(pull, closed_at=to_milliseconds_or_none(issue.closed_at))

    def _request_reviewer(self, number: int, name: str) -> str | None:
        """Requests a review. An empty response means that it was requested before, or that no one was added."""
        team = name.partition("/")[2]
        body = {"team_reviewers": [team]} if team else {"reviewers": [name]}
        path = self._pull_path(number)
        if self.http.request(list[GiteaReview] | None, "POST", f"{path}/requested_reviewers", body=body):  # type: ignore[arg-type]
            return None
        reviews = self.http.paginate(GiteaReview, f"{path}/reviews", self.page_query)
        if any(_is_request_for(review, team or name, is_team=bool(team)) for review in reviews):
            return None
        if team and not self._is_in_organization():
            return f"{self.repository} does not belong to an organization, and only organizations have teams."
        return f"{self.http.host} accepted the request but added no one."

    def _refuse_unknown_permission(self) -> ForgeRefused:
        problem = f"{self.http.host} only lets administrators of {self.repository} check who has write access."
        solution = "Make the token's owner an administrator"
        if self.version.numbers is not None and not self.version.offers(PERMISSIONS_SINCE):
            problem = f"{self.http.host} cannot say who has write access to {self.repository}."
            solution = f"Update Gitea to {_format_version(PERMISSIONS_SINCE)} or later"
        return ForgeRefused(f"{problem} {solution} so that Copydesk can respond to comments.", status=403)

    def _is_in_organization(self) -> bool:
        """Returns whether the owner is an organization. Asks for teams, because `/orgs` needs one more scope."""
        try:
            self.http.request(object, "GET", f"{self._path}/teams")
        except ForgeRefused as refusal:
            if refusal.status != 405:
                raise
            return False
        return True

    def _refuse_revoked_token(self) -> None:
        """Raises ForgeRefused if the server does not know the token.

        Gitea before 1.19 treats such a caller as anonymous, so a private repository seems not to exist.
        """
        try:
            self.http.request(object, "GET", "/user")
        except ForgeRefused as refusal:
            if refusal.status == 401:
                raise

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
        repository = self.http.get_or_none(GiteaRepository, self._path)
        can_push = repository is not None and (repository.permissions is None or repository.permissions.push)
        if not can_push:
            self._refuse_revoked_token()
        if repository is None:
            raise ForgeRefused(f"{self.http.host} has no repository {self.repository}.", status=404)
        return [
            AccessCheck(
                f"is on a server with the version {self.version.text[:40]!r}. Copydesk needs Gitea "
                f"{_format_version(MIN_VERSION)} or later, or any version of Forgejo.",
                not self.version.is_supported,
            ),
            AccessCheck("is archived, so nothing can be pushed.", repository.archived),
            AccessCheck("is a fork. Use the repository that pull requests go to.", repository.fork),
            AccessCheck("has pull requests turned off.", not repository.has_pull_requests),
            AccessCheck("cannot be pushed to with this token. The token's owner needs write access.", not can_push),
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


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _is_request_for(review: GiteaReview, name: str, *, is_team: bool) -> bool:
    reviewer_name = review.team.name if review.team else review.user.login if review.user else ""
    is_same = is_team == (review.team is not None) and reviewer_name.casefold() == name.casefold()
    return is_same and review.state == "REQUEST_REVIEW"


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
