"""What may be published: paths, sizes, no secrets, nothing hidden, no strange embeds. The agent cannot override it."""

import re
import unicodedata
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from pygit2.enums import FileMode

from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.publish.guard.added_lines import Addition, Before, additions
from copydesk.jobs.publish.guard.external_resources import Outside, outside_in, strange_embed
from copydesk.jobs.publish.guard.hidden_characters import find_unseen, find_unseen_in_name
from copydesk.jobs.publish.guard.prompt_leaks import instruction_lines
from copydesk.jobs.publish.guard.secret_scanner import find_known, find_secret
from copydesk.jobs.publish.guard.site_dialects import find_dialects
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import changed_bytes
from copydesk.jobs.workspace.path_rules import PathRefused, checked, parents
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import WIDE_MARKS, is_utf8
from copydesk.jobs.workspace.workspace import Changes

MOST_FILES = 100
MOST_BYTES = 4 * 1024 * 1024

PROTECTED_NAMES = (
    # Orders to agents, ownership.
    "AGENT.md", "AGENTS*.md", "CLAUDE*.md", "GEMINI*.md", "copilot-instructions.md", "CODEOWNERS", "OWNERS",
    # Continuous integration and hosts.
    "action.y*ml", "appveyor.y*ml", "azure-pipelines*.y*ml", "bitbucket-pipelines.y*ml", "buildspec.y*ml",
    "cloudbuild.y*ml", "Jenkinsfile*", "readthedocs.y*ml", "renovate.json*",
    "_headers", "_redirects", "_routes.json", "_worker.*", "amplify.y*ml", "app.y*ml", "Caddyfile", "firebase.json",
    "fly.toml", "netlify.toml", "nginx*.conf", "now.json", "render.y*ml", "serverless.y*ml", "staticwebapp.config.json",
    "vercel.json", "web.config", "wrangler.*",
    # Containers, builds and tasks.
    "*compose*.y*ml", "Containerfile*", "Dockerfile*", "*.dockerfile", "devcontainer.json", "Vagrantfile", "*.nix",
    "*.bazel", "*.bzl", "BUILD", "WORKSPACE", "CMakeLists.txt", "*.cmake", "*.gradle*", "gulpfile.*", "Gruntfile.*",
    "justfile", "*makefile", "makefile.*", "*.mk", "meson.build", "mise.toml", "noxfile.py", "Procfile", "Rakefile",
    "Taskfile*.y*ml", "Tiltfile", "tox.ini", "turbo.json", "nx.json",
    # Settings that are programs, and programs.
    "*.config.js", "*.config.[cm]js", "*.config.ts", "*.config.[cm]ts", "*.config.jsx", "*.config.tsx",
    "gatsby-*.[jt]s", "book.toml", "conf.py", "*.py", "*.pyc", "*.pyw", "*.pth", "*.rb", "*.gemspec", "*.lua", "*.pl",
    "*.cgi", "*.bash", "*.bat", "*.cmd", "*.fish", "*.ps1", "*.psm1", "*.sh", "*.vbs", "*.zsh", "*.dll", "*.exe",
    "*.jar", "*.so",
    # Manifests and locks.
    "*.lock", "bun.lockb", "bunfig.toml", "Cargo.toml", "composer.json", "conda*.y*ml", "*constraints*.txt",
    "deno.json*", "environment*.y*ml", "Gemfile*", "go.mod", "go.sum", "lerna.json", "package.json",
    "package-lock.json", "npm-shrinkwrap.json", "Pipfile*", "pnpm-*.yaml", "pom.xml", "pyproject.toml",
    "*requirements*.in", "*requirements*.txt", "*requirements*.y*ml", "requirements", "setup.cfg", "setup.py",
    "tsconfig*.json",
)  # fmt: skip
"""Files that agents obey, that builds and hosts execute, manifests and locks; besides names that begin with a dot."""
FOLDED = tuple(name.casefold() for name in PROTECTED_NAMES)
IGNORED_IN_NAMES = re.compile("[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")


class PublishRefused(JobFailed):
    """The change may not be published."""

    reason = Reason.PUBLISH_REFUSED
    message = "The change may not be published."


def refuse_protected(path: str, allowed: Sequence[str] = (), root: str = "") -> None:
    """PathRefused for a protected path or one outside the documentation, unless the project allows it by a pattern."""
    if any(fnmatchcase(path, pattern) for pattern in allowed):
        return
    if root and not path.startswith(root + "/"):
        raise PathRefused(
            f"{path} lies outside {root}/, the documentation's folder; only files below it may be changed."
        )
    parts = [fold_name(part) for part in path.split("/")]
    hidden = any(part.startswith(".") for part in parts)
    if hidden or any(fnmatchcase(parts[-1], name) for name in FOLDED):
        raise PathRefused(f"{path} is protected in this project; leave it as it is.")


def fold_name(name: str) -> str:
    """Returns the name as the laxest file system reads it: without case, trailing dots and spaces, streams, and
    characters that show nothing, and with wide or styled letters as plain ones.
    """
    plain = unicodedata.normalize("NFKC", IGNORED_IN_NAMES.sub("", name)).casefold()
    return unicodedata.normalize("NFKC", plain).partition(":")[0].rstrip(" .")


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
    dialects = lru_cache(1)(lambda: find_dialects(tree, changes))
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
        if not_text := explain_not_text(added):
            raise PublishRefused(f"{added.path} {not_text}.")
        if unseen := find_unseen(added):
            raise PublishRefused(f"{_place(added.path, unseen[0])} adds {unseen[1]}; write it without.")
        brought += outside_in(added, dialects) if refuse_embeds else ()
    if strange := strange_embed(tree, brought, hosts):
        source = f"from {strange.host}, which is new here" if strange.host else "of its own"
        raise PublishRefused(
            f"{_place(strange.path, strange.line)} makes readers load a {strange.kind} {source}; "
            "link to it, or have the project allow it."
        )


def explain_not_text(added: Addition) -> str:
    """Returns what is wrong with a file that is not text; one that was only moved, and keeps its kind, is as before."""
    before = added.before.files
    if any(data == added.data and extension(path) == extension(added.path) for path, data in before):
        return ""
    if b"\x00" in added.data or added.data.startswith(WIDE_MARKS):
        return "is not text in UTF-8 (it has NUL characters or another encoding), so a reviewer could not read it"
    if not is_utf8(added.data) and all(is_utf8(data) for _, data in before):
        return "is not text in UTF-8, so a reviewer could not read it"
    return ""


def _check_texts(texts: Sequence[str], known: Sequence[str]) -> None:
    where = "The title, the text or a file's name"
    for text in texts:
        data = text.encode("utf-8", "replace")
        if find_known(data, known) is not None:
            raise PublishRefused(f"{where} contains a secret of this project.")
        if find_known(data, instruction_lines()) is not None:
            raise PublishRefused(f"{where} repeats the agent's own instructions.")
        if secret := find_secret(Addition("", data, Before())):
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
                if unseen := find_unseen_in_name(path):
                    raise PathRefused(f"The name of {path!r} has {unseen}.")
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
