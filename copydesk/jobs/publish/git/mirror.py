"""Bare mirrors of projects' repositories. Git fetches and pushes; libgit2 reads and writes objects."""

import fcntl
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO

import pygit2

from copydesk.core.errors import DiskFull
from copydesk.core.projects.projects import Project, validate_ref
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.commit_signature import SignCommit
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.merge import merge_commits, merge_trees
from copydesk.jobs.publish.git.plain_http import refuse_plain_http
from copydesk.jobs.publish.git.public_addresses import pin_public_host
from copydesk.jobs.publish.git.token_variable import read_token_variable
from copydesk.jobs.workspace.git_repository import create_bare_repository, open_repository
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.patches import list_changed_files
from copydesk.jobs.workspace.repository_limits import DEFAULT_LIMITS, RepositoryLimits, mirror_too_large
from copydesk.jobs.workspace.workspace import Changes

MAX_LOOSE_IN_SAMPLE = 27
STALE_FILE_PATTERNS = ("refs/**/*.lock", "objects/pack/tmp_*", "objects/??/tmp_obj_*")

TokenSource = str | Callable[[], str | None] | None


class Mirror:
    """A local cache of one repository. Missing commits are fetched again."""

    def __init__(self, folder: Path, git: Git, sign: SignCommit | None = None) -> None:
        """Opens the mirror. `sign` signs the commits that are created in it."""
        self.folder = folder
        self.git = git
        self.sign = sign
        with _lock_mirror(folder, git.stoppable):
            if not (folder / "HEAD").exists():
                create_bare_repository(folder)
        self.repository = open_repository(folder)
        weakref.finalize(
            self, self.repository.free
        )  # it is in reference cycles, so its files would stay open until a garbage collection

    @classmethod
    def for_project(
        cls,
        mirrors: Path,
        project: Project,
        token: TokenSource = None,
        stoppable: Stoppable = unstoppable,
        limits: RepositoryLimits = DEFAULT_LIMITS,
        sign: SignCommit | None = None,
    ) -> "Mirror":
        return cls(mirrors / f"{project.id}.git", create_git(project, token, stoppable, limits), sign)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever fetched, so that the repository may not exist at its URL."""
        return not any(self.repository.references.iterator())

    def fetch_head(self, branch: str) -> str:
        """Fetches the branch and returns its newest commit. Raises RepositoryFailed if the branch does not exist."""
        commit = self.find_head(branch)
        if commit is None:
            raise RepositoryFailed(f"The repository has no branch {branch}.")
        return commit

    def find_head(self, branch: str) -> str | None:
        """Fetches the branch and returns its newest commit, or None if the branch does not exist."""
        validate_ref(branch)
        local_ref = _name_local_ref(branch)
        with _lock_mirror(self.folder, self.git.stoppable) as lock_fd:
            try:
                self._refuse_oversize()
                self.git.fetch(
                    self.folder, [f"+refs/heads/{branch}:{local_ref}"], lock_fds=[lock_fd], watch=self._refuse_oversize
                )
                self._refuse_oversize()
            except RepositoryFailed as failure:
                if "couldn't find remote ref" in str(failure):
                    return None
                _remove_stale_files(self.folder)
                raise
            commit = str(self.repository.lookup_reference(local_ref).target)
        self.tree(commit)  # raises if it is not a commit
        return commit

    def has_folder(self, branch: str, folder: str, seconds: float) -> bool:
        """Fetches only the folders of the branch's newest commit, and returns whether this folder is one of them.

        Use it on an empty mirror that is deleted afterwards: the files and the history are missing.
        """
        validate_ref(branch)
        local_ref = "refs/copydesk/folders"
        with _lock_mirror(self.folder, self.git.stoppable) as lock_fd:
            self.git.fetch(
                self.folder,
                [f"+refs/heads/{branch}:{local_ref}"],
                lock_fds=[lock_fd],
                watch=self._refuse_oversize,
                only_folders=True,
                seconds=seconds,
            )
        return self.tree(str(self.repository.lookup_reference(local_ref).target)).has_folder(folder)

    def ensure_commit(self, commit: str, branch: str) -> None:
        """Fetches the branch if the commit is missing, as it may be when the job ran on another machine before.

        Raises RepositoryFailed if the commit is still missing.
        """
        if not self.has_commit(commit):
            self.find_head(branch)
        if not self.has_commit(commit):
            raise RepositoryFailed(f"The commit {commit[:12]} is no longer in the repository.")

    def tree(self, commit: str) -> Tree:
        return Tree(self.repository, commit, self.git.limits, partial(_raise_if_stopped, self.git.stoppable))

    def commit(self, parent: str, changes: Changes, message: str, author: pygit2.Signature) -> str:
        """Creates a commit of the changes and returns its id. The same input always creates the same commit."""
        return self._create_commit(author, author, message, write_changed_tree(self.tree(parent), changes), [parent])

    def transplant(self, commit: str, old_base: str, new_base: str) -> Changes | None:
        """Returns what a commit changed since `old_base`, as changes of `new_base`. None means that they conflict."""
        tree = merge_trees(self.tree(old_base), self.tree(new_base), self.tree(commit))
        if tree is None:
            return None
        return list_changed_files(self.repository, self.tree(new_base).root, tree, self.git.limits.file_bytes)

    def rebase(self, commit: str, old_base: str, new_base: str) -> str | None:
        """Creates the same change on a new base. Returns the commit, or None on a conflict."""
        tree = merge_trees(self.tree(old_base), self.tree(new_base), self.tree(commit))
        if tree is None:
            return None
        original = self.repository[commit].peel(pygit2.Commit)
        return self._create_commit(original.author, original.committer, original.message, tree, [new_base])

    def has_commit(self, commit: str) -> bool:
        return commit in self.repository

    def contains(self, descendant: str, ancestor: str) -> bool:
        return descendant == ancestor or self.repository.descendant_of(descendant, ancestor)

    def find_common_ancestor(self, one: str, other: str) -> str | None:
        """Returns the best common ancestor of two commits; None if their histories are unrelated."""
        ancestor = self.repository.merge_base(one, other)
        return None if ancestor is None else str(ancestor)

    def merge(self, base: str, head: str, message: str, author: pygit2.Signature) -> str | None:
        """Creates a merge commit of `head` into `base`. Returns it, or None on a conflict."""
        tree = merge_commits(self.tree(base), self.tree(head))
        return None if tree is None else self._create_commit(author, author, message, tree, [base, head])

    def push(self, commit: str, branch: str, expected: str | None) -> None:
        """Moves the remote branch to the commit. Succeeds if an earlier attempt already did.

        Raises RepositoryFailed if someone else moved the branch.
        """
        try:
            self.git.push(self.folder, commit, branch, expected)
        except RepositoryFailed:
            with suppress(RepositoryFailed):
                if self.git.list_heads(f"refs/heads/{branch}").get(branch) == commit:
                    return
            raise

    def _refuse_oversize(self) -> None:
        """Raises RepositoryTooLarge if the mirror exceeds its limit on disk space."""
        if _measure_folder_bytes(self.folder / "objects") > self.git.limits.mirror_bytes:
            raise mirror_too_large(self.git.limits)

    def _create_commit(
        self, author: pygit2.Signature, committer: pygit2.Signature, message: str, tree: pygit2.Oid, parents: list[str]
    ) -> str:
        if self.sign is None:
            commit_id = self.repository.create_commit(None, author, committer, message, tree, list(parents))
        else:
            # The library's types say that this is an id, but it is the commit's text.
            content = str(self.repository.create_commit_string(author, committer, message, tree, list(parents)))
            commit_id = self.repository.create_commit_with_signature(content, self.sign(content.encode()), "gpgsig")
        if commit_id not in self.repository:
            raise DiskFull  # pygit2 returns an id even if it could not write the commit
        return str(commit_id)


def find_fetched_head(folder: Path, branch: str) -> str | None:
    """Returns the commit of a branch that a mirror last fetched, without the network; None if it never did."""
    if not (folder / "HEAD").exists():
        return None
    references = open_repository(folder).references
    reference = references.get(_name_local_ref(branch))
    return str(reference.target) if reference is not None else None


def _name_local_ref(branch: str) -> str:
    """Returns the ref of a branch in a mirror. It is flat, because branch "a" may be replaced by "a/b"."""
    return f"refs/copydesk/{sha256(branch.encode()).hexdigest()}"


def pack_mirror(folder: Path, limits: RepositoryLimits = DEFAULT_LIMITS) -> None:
    """Packs a mirror that has many loose objects. Unreferenced objects are deleted after two weeks."""
    sample_folder = folder / "objects" / "17"  # 1/256 of all objects; git estimates the same way
    if sample_folder.is_dir() and len(os.listdir(sample_folder)) > MAX_LOOSE_IN_SAMPLE:
        with _lock_mirror(folder, unstoppable) as lock_fd:
            Git("", limits=limits).run(folder, "gc", "--quiet", "--prune=2.weeks.ago", lock_fds=[lock_fd])


def delete_mirror(folder: Path) -> bool:
    """Deletes a mirror and its lock file. Returns False, without a change, if a git command uses the mirror."""
    lock_path = folder.with_suffix(".lock")
    if not folder.exists() and not lock_path.exists():
        return True
    with open(lock_path, "a") as lock:
        if not _try_lock(lock):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        lock_path.unlink(missing_ok=True)
    return True


def create_git(
    project: Project,
    token: TokenSource = None,
    stoppable: Stoppable = unstoppable,
    limits: RepositoryLimits = DEFAULT_LIMITS,
) -> Git:
    """Creates the git runner for a project.

    `token` is a token or a function that returns one. The project's environment variable takes precedence over it.
    """
    pinned_address = None if project.allow_private else pin_public_host(project.repository)
    if token is not None or project.token_env is not None:
        refuse_plain_http(project.repository, allow_private=project.allow_private)

    def get_token() -> str | None:
        if project.token_env is not None:
            return read_token_variable(project.token_env)
        return token() if callable(token) else token

    return Git(
        _clone_url(project), get_token=get_token, pinned_address=pinned_address, stoppable=stoppable, limits=limits
    )


def _clone_url(project: Project) -> str:
    """Returns the URL for git. GitLab redirects URLs without `.git`, and git must not follow redirects."""
    has_suffix = project.repository.endswith(".git")
    return f"{project.repository}.git" if project.forge == "gitlab" and not has_suffix else project.repository


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


@contextmanager
def _lock_mirror(folder: Path, stoppable: Stoppable) -> Iterator[int]:
    """Locks a mirror and yields the lock's descriptor.

    Only one thread or process of this machine can fetch into a mirror at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "a") as lock:
        while not _try_lock(lock):
            with stoppable(lambda: None):
                time.sleep(0.02)
        _remove_stale_files(folder)
        yield lock.fileno()


def _remove_stale_files(folder: Path) -> None:
    """Removes lock files and temporary files of a killed git. The caller holds the mirror's lock, so no git runs."""
    for pattern in STALE_FILE_PATTERNS:
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


def _raise_if_stopped(stoppable: Stoppable) -> None:
    """Raises the exception of a requested stop, if there is one."""
    with stoppable(lambda: None):
        pass


def _measure_folder_bytes(folder: Path) -> int:
    total = 0
    pending_folders = [str(folder)]
    while pending_folders:
        with suppress(OSError), os.scandir(pending_folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending_folders.append(entry.path)
                else:
                    with suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_size
    return total
