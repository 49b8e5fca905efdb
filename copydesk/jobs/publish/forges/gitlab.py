"""GitLab, at gitlab.com or an address of its own, through its REST API. A pull request is a merge request there."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from copydesk.jobs.publish.errors import AlreadyOpen, ForgeRefused, NotYet
from copydesk.jobs.publish.forges.api_client import Http, Query
from copydesk.jobs.publish.forges.forge import Proposal, PullRequest, State
from copydesk.jobs.publish.forges.markers import marked_comment, plain_title, with_mark

DRAFT = "Draft: "
DRAFT_MARKS = r"(?:\[draft\]|\(draft\)|draft:|draft - )"
DEVELOPER, OWNER = 30, 50


class Access(BaseModel):
    access_level: int = 0


class Accesses(BaseModel):
    project_access: Access | None = None
    group_access: Access | None = None


class Fork(BaseModel):
    id: int


class Repository(BaseModel):
    id: int
    archived: bool = False
    forked_from_project: Fork | None = None
    merge_requests_access_level: str | None = None
    permissions: Accesses | None = None


class Pull(BaseModel):
    iid: int
    web_url: str
    state: str
    title: str
    description: str | None = None
    draft: bool = False
    source_branch: str
    source_project_id: int | None = None
    target_project_id: int
    sha: str | None = None
    closed_at: datetime | None = None
    merged_at: datetime | None = None

    def plain(self) -> PullRequest:
        known: dict[str, State] = {"merged": "merged", "closed": "closed"}
        ended = self.merged_at or self.closed_at
        return PullRequest(
            number=self.iid,
            url=self.web_url,
            state=known.get(self.state, "open"),  # opened, and locked while a merge is under way
            title=plain_title(self.title, DRAFT_MARKS),
            body=self.description or "",
            draft=self.draft,
            branch=self.source_branch,
            head=self.sha,
            closed_at=int(ended.timestamp() * 1000) if ended else None,
        )


class User(BaseModel):
    id: int
    username: str


class Token(BaseModel):
    scopes: list[str]


class Allowed(BaseModel):
    access_level: int | None = None
    """None where it is somebody in particular who is allowed."""


class Protection(BaseModel):
    name: str
    push_access_levels: list[Allowed] = []


class GitLab:
    def __init__(self, http: Http, repository: str, token: str) -> None:
        self.http, self.repository, self._token = http, repository, token
        self._at = f"/projects/{quote(repository, safe='')}"

    def find(self, branch: str, base: str) -> list[PullRequest]:
        query: Query = {"source_branch": branch, "state": "all", "scope": "all", "per_page": 100}
        found = self.http.pages(Pull, f"{self._at}/merge_requests", query)
        own = [p for p in found if p.source_branch == branch and p.source_project_id == p.target_project_id]
        return sorted((pull.plain() for pull in own), key=lambda p: p.number)

    def get(self, number: int) -> PullRequest:
        return self.http.ask(Pull, "GET", f"{self._at}/merge_requests/{number}").plain()

    def open(self, proposal: Proposal) -> PullRequest:
        body = {
            "source_branch": proposal.branch,
            "target_branch": proposal.base,
            "title": with_mark(proposal.title, DRAFT if proposal.draft else "", DRAFT_MARKS),
            "description": proposal.body,
        }
        try:
            return self.http.ask(Pull, "POST", f"{self._at}/merge_requests", body=body).plain()
        except ForgeRefused as refusal:
            said = str(refusal).lower()
            if refusal.status == 409 or "already exists" in said:
                raise AlreadyOpen(str(refusal), status=refusal.status) from None
            if refusal.status in (400, 404, 422) and "source" in said:
                raise NotYet(str(refusal), status=refusal.status) from None
            raise

    def update(self, pull: PullRequest, *, title: str | None = None, body: str | None = None) -> None:
        marked = None if title is None else with_mark(title, DRAFT if pull.draft else "", DRAFT_MARKS)
        self._change(pull.number, {"title": marked, "description": body})

    def comment(self, number: int, text: str) -> None:
        self.http.ask(object, "POST", f"{self._at}/merge_requests/{number}/notes", body={"body": marked_comment(text)})

    def close(self, number: int) -> None:
        self._change(number, {"state_event": "close"})

    def reopen(self, number: int) -> None:
        self._change(number, {"state_event": "reopen"})

    def add_labels(self, number: int, labels: Sequence[str]) -> list[str]:
        """Looked up first: GitLab would create what it does not know."""
        missing = [label for label in labels if not self._has_label(label)]
        if known := [label for label in labels if label not in missing]:
            self._change(number, {"add_labels": ",".join(known)})
        return [f"The project has no label '{label}'." for label in missing]

    def ask_reviewers(self, number: int, names: Sequence[str]) -> list[str]:
        known = {name: self._user(name) for name in names}
        if ids := [user for user in known.values() if user is not None]:
            self._change(number, {"reviewer_ids": ids})
        return [f"{name} cannot be asked to review: there is no such user." for name in names if known[name] is None]

    def access(self, branch: str) -> list[str]:
        try:
            found = self.http.ask(Repository, "GET", self._at)
        except ForgeRefused as refusal:
            if refusal.status == 404:
                return [f"{self.http.host} has no project {self.repository}, or the token may not see it."]
            return [str(refusal)]
        levels = found.permissions or Accesses()
        known = [access.access_level for access in (levels.project_access, levels.group_access) if access]
        level = max(known, default=OWNER)  # GitLab does not tell of rights through an invited group
        faults = {
            "is archived: nothing can be pushed.": found.archived,
            "is a fork: name the project that merge requests go to.": found.forked_from_project is not None,
            "has merge requests switched off.": found.merge_requests_access_level == "disabled",
            "cannot be pushed to with this token: it needs the role Developer.": level < DEVELOPER,
            "cannot be written to with this token: it lacks the scope api.": self._lacks_scope(),
            f"protects branches such as {branch} from this token's role.": self._is_protected(branch, level),
        }
        return [f"{self.repository} {fault}" for fault, is_so in faults.items() if is_so]

    def can_write(self, user: str) -> bool:
        known = self._user(user)
        member = self.http.find(Access, f"{self._at}/members/all/{known}") if known is not None else None
        return member is not None and member.access_level >= DEVELOPER

    def git_token(self) -> str | None:
        return self._token

    def end(self) -> None:
        self.http.close()

    def _change(self, number: int, values: dict[str, Any]) -> None:
        changed = {name: value for name, value in values.items() if value is not None}
        self.http.ask(Pull, "PUT", f"{self._at}/merge_requests/{number}", body=changed)

    def _user(self, name: str) -> int | None:
        found = self.http.ask(list[User], "GET", "/users", query={"username": name})
        return next((user.id for user in found if user.username.casefold() == name.casefold()), None)

    def _has_label(self, label: str) -> bool:
        return self.http.find(dict[str, Any], f"{self._at}/labels/{quote(label, safe='')}") is not None

    def _lacks_scope(self) -> bool:
        """Only some kinds of tokens can ask about themselves."""
        with suppress(ForgeRefused):
            return "api" not in self.http.ask(Token, "GET", "/personal_access_tokens/self").scopes
        return False

    def _is_protected(self, branch: str, level: int) -> bool:
        with suppress(ForgeRefused):
            for rule in self.http.pages(Protection, f"{self._at}/protected_branches", {"per_page": 100}):
                levels = [allowed.access_level for allowed in rule.push_access_levels]
                allowed = any(one is None or 0 < one <= level for one in levels)
                if fnmatchcase(branch, rule.name) and not allowed:
                    return True
        return False
