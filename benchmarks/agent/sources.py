"""Repositories of cases: existing ones by path or address, which are only read, and small ones built from text."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pygit2
from pygit2.enums import FileMode

from benchmarks.agent.case_files import build_reference_changes, encode_case_files
from benchmarks.agent.cases import EvaluationCase, InvalidCase
from benchmarks.agent.metrics import Files, find_changed_files
from copydesk.core.projects.projects import validate_root
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.workspace import Workspace

BRANCH = "main"
AUTHOR = pygit2.Signature("Ada", "ada@example.org", 1_700_000_000, 0)


@dataclass(frozen=True)
class PreparedCase:
    """A bare repository for one case: one branch with one commit, so that a model cannot see later commits."""

    path: Path
    start: str
    """The hash of that commit."""
    base: pygit2.Oid
    reference: pygit2.Oid
    root: str

    def workspace(self, branch: str) -> Workspace:
        """Returns the base with the job's changes applied."""
        base, result, _ = self.trees(branch)
        workspace = Workspace(Tree(pygit2.Repository(str(self.path)), self.start))
        workspace.apply({path: result.get(path) for path in find_changed_files(base, result)})
        return workspace

    def trees(self, branch: str) -> tuple[Files, Files, Files]:
        """Returns base, result and reference, limited to files that differ. A missing branch means no changes."""
        repository = pygit2.Repository(str(self.path))
        ref = f"refs/heads/{branch}"
        result = repository.lookup_reference(ref).peel(pygit2.Tree).id if ref in repository.references else self.base
        base, ours, theirs = (repository[tree].peel(pygit2.Tree) for tree in (self.base, result, self.reference))
        paths = _find_changed_paths(base, ours) | {
            path for path in _find_changed_paths(base, theirs) if _is_below(path, self.root)
        }
        expected = {path: theirs if _is_below(path, self.root) else base for path in paths}
        return _read_trees(dict.fromkeys(paths, base)), _read_trees(dict.fromkeys(paths, ours)), _read_trees(expected)


@dataclass(frozen=True)
class CaseSources:
    """The repositories that cases name; each address is cloned once."""

    folder: Path

    def open(self, address: str) -> pygit2.Repository:
        path = self._clone_once(address) if "://" in address else Path(address)
        try:
            return pygit2.Repository(str(path))
        except pygit2.GitError:
            raise InvalidCase(f"{address} is not a git repository.") from None

    def prepare(self, case: EvaluationCase, path: Path) -> PreparedCase:
        """Prepares a case. Raises CaseRefused if it names a commit, a file or a text that does not exist."""
        repository = pygit2.init_repository(str(path), bare=True, initial_head=BRANCH)
        source = None if case.repository is None else self.open(case.repository)
        if source is None:
            base = write_changed_tree(_empty_tree(repository), encode_case_files(case))
        else:
            (path / "objects/info/alternates").write_text(f"{_objects_folder(source)}\n")
            repository = pygit2.Repository(str(path))  # reopened to read the alternates
            base = _find_commit(source, case.base or "").tree.id
        start = str(repository.create_commit(f"refs/heads/{BRANCH}", AUTHOR, AUTHOR, "The base", base, []))
        if source is not None and isinstance(case.reference, str):
            reference = _find_commit(source, case.reference).tree.id
        else:
            tree = Tree(repository, start)
            reference = write_changed_tree(tree, build_reference_changes(case, tree))
        return PreparedCase(path, start, base, reference, validate_root(case.root))

    def _clone_once(self, address: str) -> Path:
        path = self.folder / f"{sha256(address.encode()).hexdigest()[:16]}.git"
        if not path.exists():
            _run_git("clone", "--quiet", "--bare", "--", address, str(path))
        return path


def _find_commit(repository: pygit2.Repository, name: str) -> pygit2.Commit:
    try:
        return repository.revparse_single(name).peel(pygit2.Commit)
    except (KeyError, ValueError, pygit2.GitError):
        where = Path(repository.workdir or repository.path)
        raise InvalidCase(f"There is no commit {name} in {where}; is the clone a shallow one?") from None


def _empty_tree(repository: pygit2.Repository) -> Tree:
    nothing = repository.TreeBuilder().write()
    return Tree(repository, str(repository.create_commit(None, AUTHOR, AUTHOR, "Nothing", nothing, [])))


def _objects_folder(repository: pygit2.Repository) -> str:
    """Returns the folder of git's objects, also for a folder that is one of several work trees."""
    return _run_git("-C", repository.path, "rev-parse", "--path-format=absolute", "--git-path", "objects").strip()


def _run_git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], capture_output=True, text=True)
    if result.returncode:
        raise InvalidCase(f"git {arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout


def _find_changed_paths(old: pygit2.Tree, new: pygit2.Tree) -> set[str]:
    return {delta.new_file.path for delta in old.diff_to_tree(new).deltas}


def _read_trees(trees: Mapping[str, pygit2.Tree]) -> Files:
    """Reads the files of several trees. A submodule counts as the commit that it names; missing files are left out."""
    contents = {}
    for path, tree in trees.items():
        if path in tree:
            entry = tree[path]
            is_file = entry.filemode != FileMode.COMMIT
            contents[path] = entry.peel(pygit2.Blob).data if is_file else str(entry.id).encode()
    return contents


def _is_below(path: str, root: str) -> bool:
    return not root or path.startswith(root + "/")
