"""Git repositories with a history, in which each commit is a day after the one before."""

from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import FileMode

from copydesk.jobs.workspace.git_tree import Tree

MAIN = "refs/heads/main"
FIRST_DAY = 1_700_000_000
DAY = 86_400


class History:
    """A repository to which a test adds commits, each a day after the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repository = pygit2.init_repository(str(path), bare=True, initial_head="main")
        self.day = 0

    def commit(
        self,
        files: Mapping[str, bytes | None],
        message: str = "Change",
        author: str = "Ada",
        parents: list[str] | None = None,
        at: int | None = None,
    ) -> str:
        """Adds or replaces these files; None deletes one. Returns the commit, which is the newest of the branch."""
        self.day += 1
        signature = pygit2.Signature(author, "a@example.org", at or FIRST_DAY + self.day * DAY, 0)
        if parents is None:
            has_main = MAIN in self.repository.references
            parents = [str(self.repository.lookup_reference(MAIN).target)] if has_main else []
        index = pygit2.Index()
        if parents:
            index.read_tree(self.repository[parents[0]].peel(pygit2.Tree))
        for path, data in files.items():
            if data is None:
                index.remove(path)
            else:
                index.add(pygit2.IndexEntry(path, self.repository.create_blob(data), FileMode.BLOB))
        tree = index.write_tree(self.repository)
        commit = self.repository.create_commit(None, signature, signature, message, tree, list(parents))
        self.repository.references.create(MAIN, commit, force=True)
        return str(commit)

    @property
    def tree(self) -> Tree:
        return Tree(self.repository, str(self.repository.lookup_reference(MAIN).target))
