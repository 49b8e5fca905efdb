"""What may be published: paths, sizes, no secrets, nothing hidden, no strange embeds. The agent cannot override it."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from pygit2.enums import FileMode

from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.limits import FileTooLarge
from copydesk.jobs.patch import changed_bytes
from copydesk.jobs.paths import PathRefused, checked, parents
from copydesk.jobs.publish.additions import Addition, Before, additions
from copydesk.jobs.publish.instructions import instruction_lines
from copydesk.jobs.publish.outside import Outside, outside_in, strange_embed
from copydesk.jobs.publish.secrets import find_known, find_secret
from copydesk.jobs.publish.unseen import find_unseen
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Changes

MOST_FILES = 100
MOST_BYTES = 4 * 1024 * 1024

PROTECTED_NAMES = (
    "AGENTS*.md", "CLAUDE*.md", "GEMINI.md", "CODEOWNERS", "OWNERS",
    "action.y*ml", "appveyor.yml", "azure-pipelines*.y*ml", "bitbucket-pipelines.y*ml", "buildspec.y*ml",
    "cloudbuild.y*ml", "Jenkinsfile*", "netlify.toml", "renovate.json*", "vercel.json", "wrangler.*",
    "*compose.y*ml", "Dockerfile*", "*.dockerfile", "*.gradle*", "gulpfile.*", "Gruntfile.*", "justfile", "Makefile",
    "*.mk", "noxfile.py", "Procfile", "Rakefile", "Taskfile.y*ml", "tox.ini", "*.bat", "*.ps1", "*.sh",
    "*.lock", "bun.lockb", "Cargo.toml", "composer.json", "conda*.y*ml", "deno.json*", "environment.y*ml", "Gemfile",
    "go.mod", "go.sum", "package.json", "package-lock.json", "npm-shrinkwrap.json", "Pipfile", "pnpm-lock.yaml",
    "pom.xml", "pyproject.toml", "requirements*.txt", "setup.cfg", "setup.py",
)  # fmt: skip
"""Orders to agents, ownership, what builds and deploys, manifests, locks. What begins with a dot is protected too."""


class PublishRefused(JobFailed):
    """The change may not be published."""

    reason = Reason.PUBLISH_REFUSED


def refuse_protected(path: str, allowed: Sequence[str] = (), root: str = "") -> None:
    """PathRefused for a protected path or one outside the documentation, unless the project allows it by a pattern."""
    if any(fnmatchcase(path, pattern) for pattern in allowed):
        return
    if root and not path.startswith(root + "/"):
        raise PathRefused(
            f"{path} lies outside {root}/, the documentation's folder; only files below it may be changed."
        )
    parts = path.split("/")
    hidden = any(part.startswith(".") for part in parts)
    if hidden or any(fnmatchcase(parts[-1].casefold(), name.casefold()) for name in PROTECTED_NAMES):
        raise PathRefused(f"{path} is protected in this project; leave it as it is.")


def _check_parents(tree: Tree, path: str) -> None:
    for parent in parents(path):
        entry = tree.entry(parent)
        if entry is not None and entry.mode != FileMode.TREE:
            raise PathRefused(f"{parent} is not a folder, so {path} cannot be made.")


def check(
    tree: Tree,
    changes: Changes,
    allowed: Sequence[str] = (),
    *,
    root: str = "",
    known: Sequence[str] = (),
    texts: Sequence[str] = (),
    refuse_embeds: bool = True,
    hosts: Collection[str] = (),
) -> None:
    """PublishRefused unless every path, the change as a whole and what it says are within bounds.

    `known` are secrets that must appear nowhere, `texts` the title and the rest that goes with the change, `hosts`
    those that pages may load from though no file names them yet, such as the hosts that the prompt names.
    """
    _check_paths_and_sizes(tree, changes, allowed, root)
    _check_texts((*texts, *changes), known)
    brought: list[Outside] = []
    for added in additions(tree, changes):
        if (line := find_known(added.data, known, added.before.data)) is not None:
            raise PublishRefused(f"{_place(added.path, line)} contains a secret of this project.")
        if (line := find_known(added.data, instruction_lines(), added.before.data)) is not None:
            raise PublishRefused(f"{_place(added.path, line)} repeats the agent's own instructions.")
        if secret := find_secret(added):
            kind = secret[1]
            raise PublishRefused(
                f"{_place(added.path, secret[0])} adds what looks like a secret ({kind}); write a placeholder instead."
            )
        if unseen := find_unseen(added):
            raise PublishRefused(f"{_place(added.path, unseen[0])} adds {unseen[1]}; write it without.")
        brought += outside_in(added) if refuse_embeds else ()
    if strange := strange_embed(tree, brought, hosts):
        source = f"from {strange.host}, which is new here" if strange.host else "of its own"
        raise PublishRefused(
            f"{_place(strange.path, strange.line)} makes readers load a {strange.kind} {source}; "
            "link to it, or have the project allow it."
        )


def _check_texts(texts: Sequence[str], known: Sequence[str]) -> None:
    where = "The title, the text or a file's name"
    for text in texts:
        data = text.encode("utf-8", "replace")
        if find_known(data, known) is not None:
            raise PublishRefused(f"{where} contains a secret of this project.")
        if find_known(data, instruction_lines()) is not None:
            raise PublishRefused(f"{where} repeats the agent's own instructions.")
        if secret := find_secret(Addition("", data, Before(b""))):
            raise PublishRefused(f"{where} contains what looks like a secret ({secret[1]}).")


def _place(path: str, line: int) -> str:
    return f"{path}, line {line}," if line else path


def _check_paths_and_sizes(tree: Tree, changes: Changes, allowed: Sequence[str], root: str) -> None:
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
            refuse_protected(path, allowed, root)
        except PathRefused as refusal:
            raise PublishRefused(str(refusal)) from None
        try:
            size += changed_bytes(tree.read(entry, path) if entry else b"", data or b"")
        except FileTooLarge as refusal:
            raise PublishRefused(str(refusal)) from None
    if size > MOST_BYTES:
        raise PublishRefused(f"The job changed {size:,} bytes; at most {MOST_BYTES:,} can be published at once.")
