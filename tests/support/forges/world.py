"""The state of a forge, with the setup that tests do and the actions of people."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pygit2

from tests.support.forges import state
from tests.support.forges.faults import Faults
from tests.support.forges.state import Comment, Lag, Pull, Repository, Token, User
from tests.support.repositories import commit, list_branches, make_repository

PRE_RECEIVE_HOOK = """#!/bin/sh
while read -r old new ref; do
  branch="${ref#refs/heads/}"
  while read -r pattern; do
    case "$branch" in $pattern) sed "s|REF|$ref|; s|BRANCH|$branch|" rejection >&2; exit 1 ;; esac
  done < protected
  if [ -e signed-only ] && ! git cat-file commit "$new" | grep -q '^gpgsig '; then
    sed "s|REF|$ref|; s|^- .*|- Commits must have verified signatures.|" rejection >&2
    exit 1
  fi
done
"""


class ForgeWorld(ABC):
    """Bare repositories in a folder; `repository` and `pulls` refer to the first one."""

    prefix: ClassVar[str]
    all_scopes: ClassVar[frozenset[str]]
    rejection_text: str = "error: Protected branch update failed for REF.\n"
    """What the forge says about a push to a protected branch, in which REF and BRANCH stand for its names."""
    signature_rules: ClassVar[tuple[str, ...]] = ()
    """The names of the rules that require signed commits."""
    closes_on_delete: ClassVar[bool] = True
    """Whether deleting its branch closes a pull request."""

    def __init__(self, folder: Path, repository: str = "acme/docs", **about: Any) -> None:
        self.root = folder
        self.lock = threading.RLock()
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, str] = {}
        self.users: dict[str, User] = {}
        self.tokens: dict[str, Token] = {}
        self.faults = Faults(self.prefix)
        self._ids = iter(range(1000, 1_000_000))
        self.add_repository(repository, **about)

    @abstractmethod
    def announce_event(self, event: str, pull: Pull, who: User, comment: Comment | None) -> None:
        """Sends webhooks of an event: opened, closed, merged, reopened, comment or review_comment."""

    def new_id(self) -> int:
        return next(self._ids)

    def add_repository(self, path: str, *, branch: str = "main", **about: Any) -> Repository:
        folder = self.root / f"{path}.git"
        if not folder.exists():
            make_repository(folder, {"README.md": b"# Documentation\n"}, branch)
        hook = folder / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(PRE_RECEIVE_HOOK)
        hook.chmod(0o755)
        repository = self.repositories[path] = Repository(self.new_id(), path, folder, **about)
        return repository

    def add_user(self, login: str, *, access: str = "write", kind: str = "User") -> User:
        user = self.users[login] = User(self.new_id(), login, access, kind)
        return user

    def add_token(
        self, value: str, *, user: str = "copydesk", scopes: frozenset[str] | None = None, lasts: float = float("inf")
    ) -> Token:
        owner = self.users.get(user) or self.add_user(user)
        granted = self.all_scopes if scopes is None else frozenset(scopes)
        token = self.tokens[value] = Token(value, owner, granted, time.time() + lasts)
        return token

    def revoke(self, value: str) -> None:
        self.tokens[value].revoked = True

    def rename(self, old: str, new: str) -> None:
        """Renames a repository; the old name redirects from now on."""
        repository = self.repositories.pop(old)
        folder = self.root / f"{new}.git"
        folder.parent.mkdir(parents=True, exist_ok=True)
        repository.path, repository.folder = new, repository.folder.rename(folder)
        self.repositories[new], self.renamed[old] = repository, new

    def commit(self, branch: str, files: Mapping[str, bytes], base: str = "main") -> str:
        """Commits to a branch as a person with a clone would; a new branch starts at the base."""
        repository = self.repository
        with self.watch_push(repository.path):
            self.branch(branch, base)
            return commit(pygit2.Repository(str(repository.folder)), files, branch)

    def branch(self, name: str, base: str = "main") -> None:
        """Creates a branch if it does not exist."""
        local = pygit2.Repository(str(self.repository.folder)).branches.local
        if name not in local:
            local.create(name, local[base].peel(pygit2.Commit))

    def delete_branch(self, branch: str) -> None:
        with self.watch_push(self.repository.path):
            pygit2.Repository(str(self.repository.folder)).branches.local.delete(branch)

    @property
    def repository(self) -> Repository:
        return next(iter(self.repositories.values()))

    @property
    def pulls(self) -> list[Pull]:
        return self.repository.pulls

    def pull(self, number: int) -> Pull:
        pull = self.repository.find(number)
        assert pull is not None, f"There is no pull request {number}."
        return pull

    def merge(self, number: int, *, by: str = "maintainer") -> str:
        """Merges in the bare repository."""
        with self.lock:
            pull, who = self.pull(number), self._get_or_add_user(by)
            pull.update_heads()
            assert pull.state == "open", f"Pull request {number} is {pull.state}."
            message = f"Merge {pull.head} into {pull.base}"
            pull.merge_sha = state.merge_branches(pull.repository.folder, pull.head, pull.base, message)
            pull.merged_by = who
            self.set_pull_state(pull, "closed", who, "merged")
            return pull.merge_sha

    def close(self, number: int, *, by: str = "maintainer") -> None:
        with self.lock:
            self.set_pull_state(self.pull(number), "closed", self._get_or_add_user(by), "closed")

    def reopen(self, number: int, *, by: str = "maintainer") -> None:
        with self.lock:
            self.set_pull_state(self.pull(number), "open", self._get_or_add_user(by), "reopened")

    def comment(
        self, number: int, body: str, *, by: str = "maintainer", file: str | None = None, line: int = 1
    ) -> Comment:
        """Comments on the pull request, or with `file` on a line of its diff."""
        with self.lock:
            pull = self.pull(number)
            return self.add_comment(pull, Comment(self.new_id(), self._get_or_add_user(by), body, file=file, line=line))

    def open(self, repository: Repository, **about: Any) -> Pull:
        """Opens a pull request from author, head, base, title and body, after checking the forge's rules."""
        heads = repository.heads()
        sha, base_sha, unlisted = heads[about["head"]], heads[about["base"]], self.faults.pull_lag_calls
        number = len(repository.pulls) + 1
        pull = Pull(self.new_id(), number, repository, sha=sha, base_sha=base_sha, unlisted=unlisted, **about)
        repository.pulls.append(pull)
        self.announce_event("opened", pull, pull.author, None)
        return pull

    def set_pull_state(self, pull: Pull, to: str, who: User, event: str) -> None:
        """Opens or closes a pull request, and records its last commits."""
        pull.update_heads()
        pull.state, pull.updated = to, state.now()
        pull.closed = None if to == "open" else state.now()
        self.announce_event(event, pull, who, None)

    def add_comment(self, pull: Pull, comment: Comment) -> Comment:
        pull.comments.append(comment)
        pull.updated = state.now()
        self.announce_event("review_comment" if comment.file else "comment", pull, comment.author, comment)
        return comment

    def visible_pulls(self, pulls: list[Pull]) -> list[Pull]:
        """Returns pull requests newest first, without those that are too new to be listed."""
        hidden = [pull for pull in pulls if pull.unlisted > 0]
        for pull in hidden:
            pull.unlisted -= 1
        return [pull for pull in reversed(pulls) if pull not in hidden]

    @contextmanager
    def watch_push(self, path: str) -> Iterator[None]:
        """Applies the effects of a push: the API's view lags, and open pull requests lose their branch."""
        repository = self.repositories[path]
        (repository.folder / "protected").write_text("".join(f"{name}\n" for name in self.faults.protected))
        (repository.folder / "rejection").write_text(self.rejection_text)
        (repository.folder / "signed-only").unlink(missing_ok=True)
        if set(self.signature_rules) & self.faults.rules.keys():
            (repository.folder / "signed-only").touch()
        before = list_branches(repository.folder)
        yield
        after = list_branches(repository.folder)
        with self.lock:
            for branch in before.keys() | after.keys():
                if before.get(branch) != after.get(branch):
                    self._record_push(repository, branch, before.get(branch), is_deleted=branch not in after)

    def _record_push(self, repository: Repository, branch: str, old: str | None, *, is_deleted: bool) -> None:
        calls, seconds = self.faults.branch_lag_calls, self.faults.branch_lag_seconds
        if calls or seconds:
            repository.lagging[branch] = Lag(old, calls, time.monotonic() + seconds)
        pull = repository.open_pull(branch)
        if pull and old is not None and not is_deleted:
            pull.is_outdated = False
        if is_deleted and pull and self.closes_on_delete:
            self.set_pull_state(pull, "closed", self._get_or_add_user("maintainer"), "closed")

    def _get_or_add_user(self, login: str) -> User:
        return self.users.get(login) or self.add_user(login, access="maintain")
