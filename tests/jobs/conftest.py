"""Workspaces on real git repositories, built from a dict of files."""

from collections.abc import Callable

import pygit2
import pytest
from pygit2.enums import FileMode

from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace

Files = dict[str, bytes]
MakeWorkspace = Callable[[Files], Workspace]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> MakeWorkspace:
    """workspace({"docs/a.md": b"…"}) returns a workspace over a commit with these files, in a bare repository."""
    repository = pygit2.init_repository(str(tmp_path_factory.mktemp("repository")), bare=True)

    def make(files: Files) -> Workspace:
        author = pygit2.Signature("Ada", "ada@example.com", 1, 0)
        commit = repository.create_commit(None, author, author, "Files", _tree(repository, files), [])
        return Workspace(Tree(repository, str(commit)))

    return make


def _tree(repository: pygit2.Repository, files: Files) -> pygit2.Oid:
    builder = repository.TreeBuilder()
    folders: dict[str, Files] = {}
    for path, data in files.items():
        folder, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(folder, {})[rest] = data
        else:
            builder.insert(folder, repository.create_blob(data), FileMode.BLOB)
    for folder, inside in folders.items():
        builder.insert(folder, _tree(repository, inside), FileMode.TREE)
    return builder.write()
