"""A bare mirror of the project's repository: fetched and pushed with git, read and written with libgit2."""

import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO

import pygit2

from copydesk.core.errors import NoRoom
from copydesk.core.projects.projects import Project, checked_ref
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.merge import merge_commits, merge_trees
from copydesk.jobs.publish.git.public_addresses import pinned_host
from copydesk.jobs.workspace.git_tree import Tree, with_changes
from copydesk.jobs.workspace.repository_limits import USUAL_LIMITS, RepositoryLimits, mirror_too_large
from copydesk.jobs.workspace.workspace import Changes

LOOSE_IN_SAMPLE = 27
LEFT_BEHIND = ("refs/**/*.lock", "objects/pack/tmp_*", "objects/??/tmp_obj_*")

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
    def of(
        cls,
        mirrors: Path,
        project: Project,
        token: Token = None,
        stoppable: Stoppable = unstoppable,
        limits: RepositoryLimits = USUAL_LIMITS,
    ) -> "Mirror":
        return cls(mirrors / f"{project.id}.git", git_for(project, token, stoppable, limits))

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
                self._refuse_oversize()
                self.git.fetch(self.folder, [f"+refs/heads/{branch}:{local}"], held=[held], watch=self._refuse_oversize)
                self._refuse_oversize()
            except RepositoryFailed as failure:
                if "couldn't find remote ref" in str(failure):
                    return None
                _remove_left_behind(self.folder)
                raise
            found = str(self.repository.lookup_reference(local).target)
        self.tree(found)  # refuses what is no commit
        return found

    def ensure(self, commit: str, branch: str) -> None:
        """Another machine's mirror may lack a commit that the journal names."""
        if not self.has(commit):
            self.find(branch)
        if not self.has(commit):
            raise RepositoryFailed(f"The commit {commit[:12]} is no longer in the repository.")

    def tree(self, commit: str) -> Tree:
        return Tree(self.repository, commit, self.git.limits, partial(_check, self.git.stoppable))

    def commit(self, parent: str, changes: Changes, message: str, author: pygit2.Signature) -> str:
        """A commit of the changes on its parent. The same input makes the same commit, however often it runs."""
        return self._committed(author, author, message, with_changes(self.tree(parent), changes), [parent])

    def reapplied(self, commit: str, old_base: str, new_base: str) -> str | None:
        """The same change on a base that moved meanwhile; None when they conflict."""
        tree = merge_trees(self.tree(old_base), self.tree(new_base), self.tree(commit))
        if tree is None:
            return None
        made = self.repository[commit].peel(pygit2.Commit)
        return self._committed(made.author, made.committer, made.message, tree, [new_base])

    def has(self, commit: str) -> bool:
        return commit in self.repository

    def contains(self, base: str, head: str) -> bool:
        return base == head or self.repository.descendant_of(base, head)

    def merged(self, base: str, head: str, message: str, author: pygit2.Signature) -> str | None:
        """A merge commit of head into base; None when they conflict."""
        tree = merge_commits(self.tree(base), self.tree(head))
        return None if tree is None else self._committed(author, author, message, tree, [base, head])

    def push(self, commit: str, branch: str, expected: str | None) -> None:
        """However often it runs, the branch ends at this commit; RepositoryFailed when somebody else moved it."""
        try:
            self.git.push(self.folder, commit, branch, expected)
        except RepositoryFailed:
            with suppress(RepositoryFailed):
                if self.git.heads(f"refs/heads/{branch}").get(branch) == commit:
                    return
            raise

    def _refuse_oversize(self) -> None:
        """Raises RepositoryTooLarge when the mirror takes more of the disk than it may."""
        if _bytes_below(self.folder / "objects") > self.git.limits.mirror_bytes:
            raise mirror_too_large(self.git.limits)

    def _committed(
        self, author: pygit2.Signature, committer: pygit2.Signature, message: str, tree: pygit2.Oid, parents: list[str]
    ) -> str:
        made = self.repository.create_commit(None, author, committer, message, tree, list(parents))
        if made not in self.repository:
            raise NoRoom  # pygit2 gives the commit's name all the same when it could not be written
        return str(made)


def pack(folder: Path, limits: RepositoryLimits = USUAL_LIMITS) -> None:
    """Packs a mirror that has gathered many loose objects; what nobody refers to stays for two weeks."""
    sample = folder / "objects" / "17"  # a 256th of all objects: git's own way to estimate
    if sample.is_dir() and len(os.listdir(sample)) > LOOSE_IN_SAMPLE:
        with _locked(folder, unstoppable) as held:
            Git("", limits=limits).run(folder, "gc", "--quiet", "--prune=2.weeks.ago", held=[held])


def git_for(
    project: Project,
    token: Token = None,
    stoppable: Stoppable = unstoppable,
    limits: RepositoryLimits = USUAL_LIMITS,
) -> Git:
    """`token` is the project's, or what mints one; the environment variable that a project names goes before it."""
    pinned = None if project.allow_private else pinned_host(project.repository)

    def current() -> str | None:
        if project.token_env is None:
            return token() if callable(token) else token
        found = os.environ.get(project.token_env, "").strip()
        if not found:
            raise RepositoryFailed(f"The environment variable {project.token_env}, which holds the token, is not set.")
        return found

    return Git(project.repository, token=current, pinned=pinned, stoppable=stoppable, limits=limits)


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
        _remove_left_behind(folder)
        yield lock.fileno()


def _remove_left_behind(folder: Path) -> None:
    """Removes what a git that was killed left in the mirror. The mirror is locked, so none runs now."""
    for pattern in LEFT_BEHIND:
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


def _check(stoppable: Stoppable) -> None:
    """Raises what a stop from outside raises, if there was one."""
    with stoppable(lambda: None):
        pass


def _bytes_below(folder: Path) -> int:
    total, waiting = 0, [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    with suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_size
    return total
