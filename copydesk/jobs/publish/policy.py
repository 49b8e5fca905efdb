"""What may be published: which paths, how many files, how many bytes. The agent cannot override it."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pygit2.enums import FileMode

from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.patch import changed_bytes
from copydesk.jobs.paths import PathRefused, checked, parents
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Changes

MOST_FILES = 100
MOST_BYTES = 4 * 1024 * 1024

PROTECTED_NAMES = (
    "AGENTS.md", "CLAUDE.md", "CODEOWNERS", "Dockerfile*", "Jenkinsfile", "Makefile", "*.lock",
    "azure-pipelines.y*ml", "bitbucket-pipelines.y*ml", "Cargo.toml", "composer.json", "Gemfile", "go.mod", "go.sum",
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "Pipfile", "pnpm-lock.yaml", "pom.xml",
    "pyproject.toml", "requirements*.txt", "setup.cfg", "setup.py",
)  # fmt: skip
"""Continuous integration, ownership, manifests and lock files; whatever begins with a dot is protected too."""


class PublishRefused(JobFailed):
    """The change may not be published."""

    reason = Reason.PUBLISH_REFUSED


def refuse_protected(path: str, allowed: Sequence[str] = ()) -> None:
    """PathRefused for a protected path, unless one of the project's patterns allows it."""
    if any(fnmatchcase(path, pattern) for pattern in allowed):
        return
    parts = path.split("/")
    hidden = any(part.startswith(".") for part in parts)
    if hidden or any(fnmatchcase(parts[-1].casefold(), name.casefold()) for name in PROTECTED_NAMES):
        raise PathRefused(f"{path} is protected in this project; leave it as it is.")


def _check_parents(tree: Tree, path: str) -> None:
    for parent in parents(path):
        entry = tree.entry(parent)
        if entry is not None and entry.mode != FileMode.TREE:
            raise PathRefused(f"{parent} is not a folder, so {path} cannot be made.")


def check(tree: Tree, changes: Changes, allowed: Sequence[str] = ()) -> None:
    """PublishRefused unless every path and the change as a whole are within bounds."""
    if len(changes) > MOST_FILES:
        raise PublishRefused(f"The job changed {len(changes)} files; at most {MOST_FILES} can be published at once.")
    size = 0
    for path, data in changes.items():
        entry = tree.entry(path)
        try:
            if entry is None:
                checked(path)
                _check_parents(tree, path)
            elif not entry.is_file:
                raise PathRefused(f"{path} is a link, a folder or a submodule; it cannot be changed.")
            refuse_protected(path, allowed)
        except PathRefused as refusal:
            raise PublishRefused(str(refusal)) from None
        size += changed_bytes(tree.read(entry) if entry else b"", data or b"")
    if size > MOST_BYTES:
        raise PublishRefused(f"The job changed {size:,} bytes; at most {MOST_BYTES:,} can be published at once.")
