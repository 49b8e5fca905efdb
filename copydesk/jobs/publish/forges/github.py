"""GitHub, at github.com or an Enterprise address, through its REST API."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import AlreadyOpen, ForgeRefused, NotYet
from copydesk.jobs.publish.forges.api_client import Http, Query
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest, State
from copydesk.jobs.publish.forges.markers import marked_comment

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class Repository(BaseModel):
    full_name: str
    archived: bool = False
    disabled: bool = False
    fork: bool = False
    has_pull_requests: bool = True
    permissions: dict[str, bool] | None = None


class Named(BaseModel):
    full_name: str


class Head(BaseModel):
    ref: str
    sha: str
    repo: Named | None = None
    """None when the fork it came from is gone."""


class Pull(BaseModel):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None = None
    draft: bool = False
    merged_at: datetime | None = None
    closed_at: datetime | None = None
    head: Head

    def plain(self) -> PullRequest:
        state: State = "merged" if self.merged_at else "open" if self.state == "open" else "closed"
        closed = int(self.closed_at.timestamp() * 1000) if self.closed_at else None
        return PullRequest(self.number, self.html_url, state, self.title, self.body or "", self.draft, self.head.ref,
                           self.head.sha, closed)  # fmt: skip


class Permission(BaseModel):
    permission: str


class Rule(BaseModel):
    type: str
    ruleset_id: int | None = None


class Ruleset(BaseModel):
    current_user_can_bypass: str = "never"


class GitHub:
    """With a token of a person's, or with an App's: what is minted for that is given back at the end."""

    def __init__(
        self, http: Http, repository: str, token: Callable[[], str], give_back: Callable[[], None] | None = None
    ) -> None:
        self.http, self.repository = http, repository
        self._token, self._give_back = token, give_back
        self._at = f"/repos/{quote(repository)}"

    def find(self, branch: str, base: str) -> list[PullRequest]:
        owner = self.repository.partition("/")[0]
        query: Query = {"head": f"{owner}:{branch}", "state": "all", "per_page": 100}
        found = self.http.pages(Pull, f"{self._at}/pulls", query)
        return sorted((pull.plain() for pull in found if self._is_own(pull.head, branch)), key=lambda p: p.number)

    def get(self, number: int) -> PullRequest:
        return self.http.ask(Pull, "GET", f"{self._at}/pulls/{number}").plain()

    def open(self, proposal: Proposal) -> PullRequest:
        body: dict[str, Any] = {
            "title": proposal.title,
            "head": proposal.branch,
            "base": proposal.base,
            "body": proposal.body,
            "draft": proposal.draft,
        }
        try:
            return self._opened(body)
        except ForgeRefused as refusal:
            if refusal.status != 422 or "raft pull requests are not supported" not in str(refusal):
                raise
        return self._opened({**body, "draft": False})

    def update(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        changed = {name: value for name, value in (("title", title), ("body", body)) if value is not None}
        self.http.ask(Pull, "PATCH", f"{self._at}/pulls/{pull.number}", body=changed)

    def comment(self, number: int, text: str) -> None:
        self.http.ask(object, "POST", f"{self._at}/issues/{number}/comments", body={"body": marked_comment(text)})

    def close(self, number: int) -> None:
        self.http.ask(Pull, "PATCH", f"{self._at}/pulls/{number}", body={"state": "closed"})

    def reopen(self, number: int) -> None:
        self.http.ask(Pull, "PATCH", f"{self._at}/pulls/{number}", body={"state": "open"})

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Looked up first: GitHub would create what it does not know."""
        missing = [label for label in labels if not self._has(f"labels/{quote(label, safe='')}")]
        if known := [label for label in labels if label not in missing]:
            self.http.ask(object, "POST", f"{self._at}/issues/{number}/labels", body={"labels": known})
        return [f"The repository has no label '{label}'." for label in missing]

    def ask_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        """One by one: GitHub refuses all of them for one that it does not know. A team is `org/team`."""
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
            scopes = self.http.header(self._at, "x-oauth-scopes")
        except ForgeRefused as refusal:
            if refusal.status == 404:
                return [f"{self.http.host} has no repository {self.repository}, or the token may not see it."]
            return [str(refusal)]
        allowed = {scope.strip() for scope in (scopes or "").split(",")}
        is_app = self._give_back is not None  # GitHub says nothing of an App here, but refused to mint without rights
        faults = {
            "is archived: nothing can be pushed.": found.archived,
            "is disabled.": found.disabled,
            "is a fork: name the repository that pull requests go to.": found.fork,
            "has pull requests switched off.": not found.has_pull_requests,
            "cannot be pushed to with this token: it needs write access to contents and pull requests.": (
                not is_app and found.permissions is not None and not found.permissions.get("push", False)
            ),
            "cannot be pushed to with this token: it lacks the scope repo (or public_repo).": (
                scopes is not None and not {"repo", "public_repo"} & allowed
            ),
            f"has a rule that forbids branches such as {branch}.": (not is_app and self._is_ruled_out(branch)),
        }
        return [f"{self.repository} {fault}" for fault, is_so in faults.items() if is_so]

    def can_write(self, user: str) -> bool:
        found = self.http.find(Permission, f"{self._at}/collaborators/{quote(user, safe='')}/permission")
        return found is not None and found.permission in ("admin", "write")

    def git_token(self) -> str | None:
        return self._token()

    def end(self) -> None:
        if self._give_back is not None:
            self._give_back()
        self.http.close()

    def _opened(self, body: dict[str, Any]) -> PullRequest:
        try:
            return self.http.ask(Pull, "POST", f"{self._at}/pulls", body=body).plain()
        except ForgeRefused as refusal:
            if refusal.status != 422:
                raise
            said = str(refusal).lower()
            if "already exists" in said:
                raise AlreadyOpen(str(refusal), status=422) from None
            if "no commits between" in said or "field: head" in said:
                raise NotYet(str(refusal), status=422) from None
            raise

    def _is_own(self, head: Head, branch: str) -> bool:
        is_here = head.repo is not None and head.repo.full_name.casefold() == self.repository.casefold()
        return is_here and head.ref == branch

    def _has(self, thing: str) -> bool:
        return self.http.find(dict[str, Any], f"{self._at}/{thing}") is not None

    def _is_ruled_out(self, branch: str) -> bool:
        """By a ruleset; older Enterprise servers have none to ask for."""
        with suppress(ForgeRefused):
            rules = self.http.pages(Rule, f"{self._at}/rules/branches/{quote(branch)}", {"per_page": 100})
            return any(rule.type in ("creation", "update") and not self._may_bypass(rule) for rule in rules)
        return False

    def _may_bypass(self, rule: Rule) -> bool:
        found = self.http.find(Ruleset, f"{self._at}/rulesets/{rule.ruleset_id}") if rule.ruleset_id else None
        return found is not None and found.current_user_can_bypass in ("always", "exempt")
