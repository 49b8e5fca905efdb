"""Gitea and Forgejo, through the REST API that they share."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import AlreadyOpen, ForgeRefused, NotYet
from copydesk.jobs.publish.forges.api_client import Http, Query
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest, State
from copydesk.jobs.publish.forges.markers import marked_comment, plain_title, with_mark

DRAFT = "WIP: "
DRAFT_MARKS = r"(?:wip:|\[wip\])"
"""Both forges' default; a server may be set to others, whose titles then simply stay as they are."""


class Permissions(BaseModel):
    push: bool = False


class Repository(BaseModel):
    full_name: str
    archived: bool = False
    fork: bool = False
    has_pull_requests: bool = True
    permissions: Permissions | None = None


class Named(BaseModel):
    full_name: str


class Head(BaseModel):
    ref: str
    sha: str = ""
    repo: Named | None = None


class Pull(BaseModel):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None = None
    draft: bool | None = None
    merged: bool | None = None
    closed_at: datetime | None = None
    merged_at: datetime | None = None
    head: Head

    def plain(self) -> PullRequest:
        state: State = "merged" if self.merged else "open" if self.state == "open" else "closed"
        title = plain_title(self.title, DRAFT_MARKS)
        ended = self.merged_at or self.closed_at
        return PullRequest(
            number=self.number,
            url=self.html_url,
            state=state,
            title=title,
            body=self.body or "",
            draft=self.draft if self.draft is not None else title != self.title,
            branch=self.head.ref,
            head=self.head.sha or None,
            closed_at=int(ended.timestamp() * 1000) if ended else None,
        )


class Label(BaseModel):
    id: int
    name: str


class Organization(BaseModel):
    name: str


class Permission(BaseModel):
    permission: str


class User(BaseModel):
    login: str


class Protection(BaseModel):
    rule_name: str = ""
    branch_name: str = ""
    enable_push: bool = True


class Gitea:
    def __init__(self, http: Http, repository: str, token: str) -> None:
        self.http, self.repository, self._token = http, repository, token
        self._at = f"/repos/{quote(repository)}"

    def find(self, branch: str, base: str) -> list[PullRequest]:
        """Asked by base and head, for any state, and among the open ones, whose base a person may have changed.

        Neither forge lists pull requests by their head.
        """
        query: Query = {"state": "open", "sort": "recentupdate", "limit": 50}
        found = {pull.number: pull for pull in self.http.pages(Pull, f"{self._at}/pulls", query)}
        if direct := self.http.find(Pull, f"{self._at}/pulls/{quote(base, safe='')}/{quote(branch)}"):
            found[direct.number] = direct
        own = [pull.plain() for pull in found.values() if self._is_own(pull.head, branch)]
        return sorted(own, key=lambda p: p.number)

    def get(self, number: int) -> PullRequest:
        return self.http.ask(Pull, "GET", f"{self._at}/pulls/{number}").plain()

    def open(self, proposal: Proposal) -> PullRequest:
        body = {
            "head": proposal.branch,
            "base": proposal.base,
            "title": with_mark(proposal.title, DRAFT if proposal.draft else "", DRAFT_MARKS),
            "body": proposal.body,
        }
        try:
            return self.http.ask(Pull, "POST", f"{self._at}/pulls", body=body).plain()
        except ForgeRefused as refusal:
            if refusal.status == 409:
                raise AlreadyOpen(str(refusal), status=409) from None
            if refusal.status == 404 or (refusal.status == 422 and "no changes" in str(refusal)):
                raise NotYet(str(refusal), status=refusal.status) from None
            raise

    def update(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        marked = None if title is None else with_mark(title, DRAFT if pull.draft else "", DRAFT_MARKS)
        self._change(pull.number, {"title": marked, "body": body})

    def comment(self, number: int, text: str) -> None:
        self.http.ask(object, "POST", f"{self._at}/issues/{number}/comments", body={"body": marked_comment(text)})

    def close(self, number: int) -> None:
        self._change(number, {"state": "closed"})

    def reopen(self, number: int) -> None:
        self._change(number, {"state": "open"})

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        if not labels:
            return []
        known = {label.name: label.id for label in self.http.pages(Label, f"{self._at}/labels", {"limit": 50})}
        if not set(labels) <= known.keys():
            with suppress(ForgeRefused):  # only an organization has labels of its own
                owner = quote(self.repository.partition("/")[0])
                shared = self.http.pages(Label, f"/orgs/{owner}/labels", {"limit": 50})
                known = {label.name: label.id for label in shared} | known
        if ids := [known[label] for label in labels if label in known]:
            self.http.ask(object, "POST", f"{self._at}/issues/{number}/labels", body={"labels": ids})
        return [f"The repository has no label '{label}'." for label in labels if label not in known]

    def ask_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """One by one: the forge refuses all of them for one that it does not know. A team is `org/team`."""
        notes = []
        for name in names:
            team = name.partition("/")[2]
            body = {"team_reviewers": [team]} if team else {"reviewers": [name]}
            try:
                self.http.ask(object, "POST", f"{self._at}/pulls/{number}/requested_reviewers", body=body)
            except ForgeRefused as refusal:
                notes.append(f"{name} cannot be asked to review: {refusal}")
        return notes

    def access(self, branch: str) -> list[str]:
        try:
            found = self.http.ask(Repository, "GET", self._at)
        except ForgeRefused as refusal:
            if refusal.status == 404:
                return [f"{self.http.host} has no repository {self.repository}, or the token may not see it."]
            return [str(refusal)]
        faults = {
            "is archived: nothing can be pushed.": found.archived,
            "is a fork: name the repository that pull requests go to.": found.fork,
            "has pull requests switched off.": not found.has_pull_requests,
            "cannot be pushed to with this token: its owner needs write access.": (
                found.permissions is not None and not found.permissions.push
            ),
            f"protects branches such as {branch} from being pushed.": self._is_protected(branch),
        }
        return [f"{self.repository} {fault}" for fault, is_so in faults.items() if is_so]

    def can_write(self, user: str) -> bool:
        """Only an administrator may ask about others. Whoever may not is told who can be assigned, which are the same
        people where a person owns the repository; in an organization readers may be among them."""
        try:
            found = self.http.find(Permission, f"{self._at}/collaborators/{quote(user, safe='')}/permission")
        except ForgeRefused as refusal:
            if refusal.status != 403:
                raise
            owner = self.repository.partition("/")[0]
            if self.http.find(Organization, f"/orgs/{quote(owner, safe='')}") is not None:
                raise ForgeRefused(
                    f"{self.http.host} tells only an administrator of {self.repository} who may write there: give the "
                    "token's owner that right, so that comments can be heard.",
                    status=403,
                ) from None
            writers = self.http.ask(list[User], "GET", f"{self._at}/assignees")
            return any(writer.login.casefold() == user.casefold() for writer in writers)
        return found is not None and found.permission in ("owner", "admin", "write")

    def git_token(self) -> str | None:
        return self._token

    def end(self) -> None:
        self.http.close()

    def _change(self, number: int, values: dict[str, Any]) -> None:
        changed = {name: value for name, value in values.items() if value is not None}
        self.http.ask(Pull, "PATCH", f"{self._at}/pulls/{number}", body=changed)

    def _is_own(self, head: Head, branch: str) -> bool:
        is_here = head.repo is not None and head.repo.full_name.casefold() == self.repository.casefold()
        return is_here and head.ref == branch

    def _is_protected(self, branch: str) -> bool:
        """Only an administrator may ask."""
        with suppress(ForgeRefused):
            rules = self.http.ask(list[Protection], "GET", f"{self._at}/branch_protections")
            return any(_covers(rule.rule_name or rule.branch_name, branch) and not rule.enable_push for rule in rules)
        return False


def _covers(rule: str, branch: str) -> bool:
    """One star stays within a folder, two do not."""
    ends = {0}  # where what was read of the rule may end in the branch; a pattern of many stars would take for ever
    for sign in re.findall(r"\*\*|.", rule, re.DOTALL):
        if sign == "**":
            ends = set(range(min(ends), len(branch) + 1))
        elif sign == "*":
            ends = set(_stretched(ends, branch))
        else:
            ends = {end + 1 for end in ends if _fits(sign, branch[end : end + 1])}
        if not ends:
            return False
    return len(branch) in ends


def _stretched(ends: set[int], branch: str) -> Iterator[int]:
    """Yields the places up to which one star may go on from these, which is the end of their folder."""
    inside = False
    for place in range(len(branch) + 1):
        inside = place in ends or (inside and branch[place - 1] != "/")
        if inside:
            yield place


def _fits(sign: str, character: str) -> bool:
    return character not in ("", "/") if sign == "?" else character == sign
