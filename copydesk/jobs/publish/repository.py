"""A bare mirror of the project's repository: fetched and pushed with git, read and written with libgit2."""

import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

import pygit2
from pygit2.enums import ConfigLevel

from copydesk.core.errors import NoRoom
from copydesk.core.projects import Project, checked_ref
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.addresses import pinned_host
from copydesk.jobs.publish.git import Git, Stoppable, unstoppable
from copydesk.jobs.tree import Tree, with_changes
from copydesk.jobs.workspace import Changes

for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
    pygit2.settings.search_path[level] = ""  # libgit2 too reads no configuration but the mirror's own


LOOSE_IN_SAMPLE = 27

Token = str | Callable[[], str | None] | None


class Mirror:
    """What one attempt sees of a repository. The mirror is a cache: any commit it lacks is fetched again."""

    def __init__(self, folder: Path, git: Git) -> None:
        self.folder = folder
        self.git = git
        with _locked(folder, git.stoppable):
            if not (folder / "HEAD").exists():
                pygit2.init_repository(str(folder), bare=True)
        self.repository = pygit2.Repository(str(folder))
        weakref.finalize(self, self.repository.free)  # it is in cycles of its own, and would wait for a collection

    @classmethod
    def of(cls, mirrors: Path, project: Project, token: Token = None, stoppable: Stoppable = unstoppable) -> "Mirror":
        return cls(mirrors / f"{project.id}.git", git_for(project, token, stoppable))

    @property
    def is_new(self) -> bool:
        """Nothing was ever fetched: the repository may not be what its address says."""
        return not any(self.repository.references.iterator())

    def head(self, branch: str) -> str:
        """The branch's newest commit, fetched now."""
        found = self.find(branch)
        if found is None:
            raise RepositoryFailed(f"The repository has no branch {branch}.")
        return found

    def find(self, branch: str) -> str | None:
        """Like head, but None when there is no such branch."""
        checked_ref(branch)
        local = f"refs/copydesk/{sha256(branch.encode()).hexdigest()}"  # flat: a branch may become a folder one day
        with _locked(self.folder, self.git.stoppable) as held:
            try:
                self.git.fetch(self.folder, [f"+refs/heads/{branch}:{local}"], held=[held])
            except RepositoryFailed as failure:
                if "couldn't find remote ref" in str(failure):
                    return None
                raise
            return str(self.repository.lookup_reference(local).target)

    def ensure(self, commit: str, branch: str) -> None:
        """Another machine's mirror may lack a commit that the journal names."""
        if not self.has(commit):
            self.find(branch)
        if not self.has(commit):
            raise RepositoryFailed(f"The commit {commit[:12]} is no longer in the repository.")

    def tree(self, commit: str) -> Tree:
        return Tree(self.repository, commit)

    def commit(self, parent: str, changes: Changes, message: str, author: pygit2.Signature) -> str:
        """A commit of the changes on its parent. The same input makes the same commit, however often it runs."""
        return self._committed(author, author, message, with_changes(self.tree(parent), changes), [parent])

    def reapplied(self, commit: str, old_base: str, new_base: str) -> str | None:
        """The same change on a base that moved meanwhile; None when they conflict."""
        repo = self.repository
        ancestor, ours, theirs = (repo[name].peel(pygit2.Tree) for name in (old_base, new_base, commit))
        index = repo.merge_trees(ancestor, ours, theirs)
        if index.conflicts is not None:
            return None
        made = repo[commit].peel(pygit2.Commit)
        return self._committed(made.author, made.committer, made.message, index.write_tree(repo), [new_base])

    def has(self, commit: str) -> bool:
        return commit in self.repository

    def contains(self, base: str, head: str) -> bool:
        return base == head or self.repository.descendant_of(base, head)

    def merged(self, base: str, head: str, message: str, author: pygit2.Signature) -> str | None:
        """A merge commit of head into base; None when they conflict."""
        index = self.repository.merge_commits(base, head)
        if index.conflicts is not None:
            return None
        return self._committed(author, author, message, index.write_tree(self.repository), [base, head])

    def push(self, commit: str, branch: str, expected: str | None) -> None:
        """However often it runs, the branch ends at this commit; RepositoryFailed when somebody else moved it."""
        try:
            self.git.push(self.folder, commit, branch, expected)
        except RepositoryFailed:
            with suppress(RepositoryFailed):
                if self.git.heads(f"refs/heads/{branch}").get(branch) == commit:
                    return
            raise

    def _committed(
        self, author: pygit2.Signature, committer: pygit2.Signature, message: str, tree: pygit2.Oid, parents: list[str]
    ) -> str:
        made = self.repository.create_commit(None, author, committer, message, tree, list(parents))
        if made not in self.repository:
            raise NoRoom  # pygit2 gives the commit's name all the same when it could not be written
        return str(made)


def pack(folder: Path) -> None:
    """Packs a mirror that has gathered many loose objects; what nobody refers to stays for two weeks."""
    sample = folder / "objects" / "17"  # a 256th of all objects: git's own way to estimate
    if sample.is_dir() and len(os.listdir(sample)) > LOOSE_IN_SAMPLE:
        with _locked(folder, unstoppable) as held:
            Git("").run(folder, "gc", "--quiet", "--prune=2.weeks.ago", held=[held])


def git_for(project: Project, token: Token = None, stoppable: Stoppable = unstoppable) -> Git:
    """`token` is the project's, or what mints one; the environment variable that a project names goes before it."""
    pinned = None if project.allow_private else pinned_host(project.repository)

    def current() -> str | None:
        if project.token_env is None:
            return token() if callable(token) else token
        found = os.environ.get(project.token_env, "").strip()
        if not found:
            raise RepositoryFailed(f"The environment variable {project.token_env}, which holds the token, is not set.")
        return found

    return Git(project.repository, token=current, pinned=pinned, stoppable=stoppable)


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


@contextmanager
def _locked(folder: Path, stoppable: Stoppable) -> Iterator[int]:
    """One fetch into a mirror at a time, over all threads and processes of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "a") as lock:
        while not _taken(lock):
            with stoppable(lambda: None):
                time.sleep(0.02)
        for left_behind in (folder / "refs").glob("**/*.lock"):  # by a git that was killed: none runs now
            left_behind.unlink()
        yield lock.fileno()
