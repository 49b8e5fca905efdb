"""Small git repositories, made with libgit2."""

from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import FileMode

Files = Mapping[str, bytes]
AUTHOR = pygit2.Signature("Ada", "ada@example.org", 1_700_000_000, 0)


def make_repository(path: Path, files: Files, branch: str = "main") -> Path:
    """Creates a bare repository with one commit."""
    repository = pygit2.init_repository(str(path), bare=True, initial_head=branch)
    commit(repository, files, branch=branch)
    return path


def commit(
    repository: pygit2.Repository,
    files: Files,
    branch: str = "main",
    message: str = "Change",
    author: pygit2.Signature = AUTHOR,
) -> str:
    """Adds or replaces these files on the branch."""
    ref = f"refs/heads/{branch}"
    parents = [repository.lookup_reference(ref).target] if ref in repository.references else []
    index = pygit2.Index()
    if parents:
        index.read_tree(repository[parents[0]].peel(pygit2.Tree))
    for path, data in files.items():
        index.add(pygit2.IndexEntry(path, repository.create_blob(data), FileMode.BLOB))
    return str(repository.create_commit(ref, author, author, message, index.write_tree(repository), parents))


def list_branches(path: Path) -> dict[str, str]:
    repository = pygit2.Repository(str(path))
    return {
        name.removeprefix("refs/heads/"): str(repository.lookup_reference(name).target)
        for name in repository.references
        if name.startswith("refs/heads/")
    }


def read_file(path: Path, branch: str, name: str) -> bytes | None:
    """Returns a file's bytes on a branch, or None."""
    repository = pygit2.Repository(str(path))
    tree = repository[repository.lookup_reference(f"refs/heads/{branch}").target].peel(pygit2.Tree)
    try:
        blob = tree[name]
    except KeyError:
        return None
    assert isinstance(blob, pygit2.Blob)
    return blob.data
