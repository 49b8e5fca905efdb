"""The files of a commit, read from git's object database: nothing is ever checked out."""

from collections.abc import Callable, Iterator, Mapping

import pygit2
from pygit2.enums import ConfigLevel, FileMode, ObjectType

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.workspace import git_folders as folders
from copydesk.jobs.workspace import repository_limits as bounds
from copydesk.jobs.workspace.git_folders import Entry, Kept, list_folder
from copydesk.jobs.workspace.repository_limits import MAX_COMMIT_BYTES, USUAL_LIMITS, RepositoryLimits

__all__ = ["Entry", "Tree", "with_changes"]

for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
    pygit2.settings.search_path[level] = ""  # libgit2 too reads no configuration but the repository's own


class Tree:
    """The tree of one commit. Paths that are not UTF-8 cannot be named in JSON and are passed over."""

    def __init__(
        self,
        repository: pygit2.Repository,
        commit: str,
        limits: RepositoryLimits = USUAL_LIMITS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called while the tree is walked and read; it raises when the job was stopped."""
        self.repository = repository
        self.commit = commit
        self.limits = limits
        self.check = check
        self.root = _read_root(repository, commit)
        self._is_within_limits = False

    def entry(self, path: str) -> Entry | None:
        """The file, link, folder or submodule at exactly this path."""
        *parents, name = path.split("/")
        folder = self.root
        for part in parents:
            found = list_folder(self.repository, folder, self.limits).get(part)
            if found is None or found.mode != FileMode.TREE:
                return None
            folder = found.oid
        return list_folder(self.repository, folder, self.limits).get(name)

    def size(self, entry: Entry) -> int:
        """Returns the file's size in bytes without reading the file."""
        return self.repository.odb.read_header(entry.oid)[1]

    def is_readable(self, entry: Entry) -> bool:
        """Returns whether the file is small enough to be read."""
        return self.size(entry) <= self.limits.file_bytes

    def read(self, entry: Entry, path: str = "") -> bytes:
        """Raises FileTooLarge for a file beyond the bound; `path` is for the message."""
        known = _blobs.get(entry.oid)
        if known is not None and len(known) <= self.limits.file_bytes:
            return known
        self.check()
        if (size := self.size(entry)) > self.limits.file_bytes:
            raise bounds.file_too_large(size, self.limits, path)
        return _blobs.keep(entry.oid, self.repository.odb.read(entry.oid)[1], size)

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Every regular file, in git's order. Raises RepositoryTooLarge before the first one, or never."""
        self.refuse_oversize()
        return self._walk(self.root, "")

    def refuse_oversize(self) -> None:
        """Raises RepositoryTooLarge unless the whole tree is within the limits."""
        if not self._is_within_limits:
            folders.refuse_oversize(self.repository, self.root, self.limits, self.check)
            self._is_within_limits = True

    def _walk(self, folder: pygit2.Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        self.check()
        for name, entry in list_folder(self.repository, folder, self.limits).items():
            if entry.mode == FileMode.TREE:
                yield from self._walk(entry.oid, f"{prefix}{name}/")
            elif entry.is_file:
                yield prefix + name, entry


def _read_root(repository: pygit2.Repository, commit: str) -> pygit2.Oid:
    kind, size = repository.odb.read_header(commit)
    if kind != ObjectType.COMMIT:
        raise RepositoryFailed(f"{commit[:12]} is not a commit, so the branch that names it cannot be used.")
    if size > MAX_COMMIT_BYTES:
        raise bounds.RepositoryTooLarge(f"The commit {commit[:12]} has a message of more than 16 MiB; shorten it.")
    try:
        return repository[commit].peel(pygit2.Commit).tree_id
    except pygit2.GitError as error:
        raise RepositoryFailed(f"The repository is damaged: a commit cannot be read ({error}).") from None


def with_changes(tree: Tree, changes: Mapping[str, bytes | None]) -> pygit2.Oid:
    """The tree with these changes made: new bytes by path, None for what is deleted."""
    found = {path: tree.entry(path) for path in changes}
    moved = {entry.oid: entry.mode for path, entry in found.items() if entry is not None and changes[path] is None}
    blobs: dict[tuple[str, ...], Entry | None] = {}
    for path, data in changes.items():
        known, made = found[path], None if data is None else tree.repository.create_blob(data)
        mode = known.mode if known else moved.get(made, FileMode.BLOB) if made else FileMode.BLOB
        blobs[tuple(path.split("/"))] = None if made is None else Entry(mode, made)
    return _written(tree, tree.root, blobs) or tree.repository.TreeBuilder().write()


def _written(tree: Tree, folder: pygit2.Oid | None, blobs: Mapping[tuple[str, ...], Entry | None]) -> pygit2.Oid | None:
    """Only the folders on the way to a change are written anew; None when nothing is left in one."""
    repository = tree.repository
    listing = list_folder(repository, folder, tree.limits) if folder else {}
    builder = repository.TreeBuilder(repository[folder].peel(pygit2.Tree)) if folder else repository.TreeBuilder()
    for name in sorted({path[0] for path in blobs}):
        below = {path[1:]: blob for path, blob in blobs.items() if path[0] == name and len(path) > 1}
        known, made = listing.get(name), blobs.get((name,))
        if below:
            inside = _written(tree, known.oid if known and known.mode == FileMode.TREE else None, below)
            made = Entry(FileMode.TREE, inside) if inside else None
        if made is not None:
            builder.insert(name, made.oid, made.mode)
        elif known is not None:
            builder.remove(name)
    return builder.write() if len(builder) else None


_blobs = Kept[bytes](64 * 2**20)  # unpacking is what a search costs, turn after turn
