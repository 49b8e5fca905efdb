"""Refuses changes with protected paths, excessive size, secrets, hidden characters or new embeds.

The agent cannot override these rules.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from pygit2.enums import FileMode

from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.publish.guard.added_lines import FilesBefore, ProposedFile, list_proposed_files
from copydesk.jobs.publish.guard.external_resources import ExternalResource, find_in_file, find_new_embed
from copydesk.jobs.publish.guard.hidden_characters import find_hidden_character, find_hidden_in_name
from copydesk.jobs.publish.guard.prompt_leaks import list_prompt_lines
from copydesk.jobs.publish.guard.secret_scanner import find_known_secret, find_secret
from copydesk.jobs.publish.guard.site_dialects import find_dialects
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import count_changed_bytes
from copydesk.jobs.workspace.path_rules import PathRefused, parent_folders, validate_path
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import UTF16_AND_UTF32_BOMS, is_utf8
from copydesk.jobs.workspace.workspace import Changes

MAX_CHANGED_FILES = 100
MAX_CHANGED_BYTES = 4 * 1024 * 1024

PROTECTED_NAMES = (
    # Instructions for agents; code ownership.
    "AGENT.md", "AGENTS*.md", "CLAUDE*.md", "GEMINI*.md", "copilot-instructions.md", "CODEOWNERS", "OWNERS",
    # Continuous integration and hosting.
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
    # Programs, and settings that are programs.
    "*.config.js", "*.config.[cm]js", "*.config.ts", "*.config.[cm]ts", "*.config.jsx", "*.config.tsx",
    "gatsby-*.[jt]s", "book.toml", "conf.py", "*.py", "*.pyc", "*.pyw", "*.pth", "*.rb", "*.gemspec", "*.lua", "*.pl",
    "*.cgi", "*.bash", "*.bat", "*.cmd", "*.fish", "*.ps1", "*.psm1", "*.sh", "*.vbs", "*.zsh", "*.dll", "*.exe",
    "*.jar", "*.so",
    # Manifests and lock files.
    "*.lock", "bun.lockb", "bunfig.toml", "Cargo.toml", "composer.json", "conda*.y*ml", "*constraints*.txt",
    "deno.json*", "environment*.y*ml", "Gemfile*", "go.mod", "go.sum", "lerna.json", "package.json",
    "package-lock.json", "npm-shrinkwrap.json", "Pipfile*", "pnpm-*.yaml", "pom.xml", "pyproject.toml",
    "*requirements*.in", "*requirements*.txt", "*requirements*.y*ml", "requirements", "setup.cfg", "setup.py",
    "tsconfig*.json",
)  # fmt: skip
"""Protected file names, as glob patterns. Names that begin with a dot are protected too."""
FOLDED_PROTECTED_NAMES = tuple(name.casefold() for name in PROTECTED_NAMES)
IGNORED_IN_NAMES_PATTERN = re.compile("[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")


class PublishRefused(JobFailed):
    reason = Reason.PUBLISH_REFUSED
    message = "The change may not be published."


def refuse_protected(path: str, allowed_patterns: Sequence[str] = (), root: str = "") -> None:
    """Raises PathRefused for a path that is protected or outside `root`, unless an allowed pattern matches it."""
    if any(fnmatchcase(path, pattern) for pattern in allowed_patterns):
        return
    if root and not path.startswith(root + "/"):
        raise PathRefused(
            f"{path} is outside the documentation folder {root}/. Only files in that folder can be changed."
        )
    parts = [fold_name(part) for part in path.split("/")]
    is_hidden = any(part.startswith(".") for part in parts)
    if is_hidden or any(fnmatchcase(parts[-1], name) for name in FOLDED_PROTECTED_NAMES):
        raise PathRefused(f"{path} is protected in this project. Leave it unchanged.")


def fold_name(name: str) -> str:
    """Returns the name as the most lenient file system reads it.

    Removes case, trailing dots and spaces, stream names and invisible characters; replaces wide and styled letters by
    plain ones.
    """
    plain = unicodedata.normalize("NFKC", IGNORED_IN_NAMES_PATTERN.sub("", name)).casefold()
    return unicodedata.normalize("NFKC", plain).partition(":")[0].rstrip(" .")


def _check_parents(tree: Tree, path: str) -> None:
    for parent in parent_folders(path):
        entry = tree.find_entry(parent)
        if entry is not None and entry.mode != FileMode.TREE:
            raise PathRefused(f"{parent} is not a folder, so {path} cannot be created.")


def check_publishable(
    tree: Tree,
    changes: Changes,
    allowed_patterns: Sequence[str] = (),
    *,
    root: str = "",
    known_secrets: Sequence[str] = (),
    texts: Sequence[str] = (),
    refuse_embeds: bool = True,
    allowed_hosts: Collection[str] = (),
) -> None:
    """Raises PublishRefused unless all paths, the total size and the content of the change are allowed.

    `known_secrets` must not appear anywhere, also not in `texts`, which are the title and other text of the change.
    Pages may load from `allowed_hosts` even if no file does yet, such as the hosts of URLs in the prompt. Scripts of a
    page may not.
    """
    _check_paths_and_sizes(tree, changes, allowed_patterns, root)
    _check_texts((*texts, *changes), known_secrets)
    resources: list[ExternalResource] = []
    dialects = lru_cache(1)(lambda: find_dialects(tree, changes))
    for file in list_proposed_files(tree, changes):
        if (line := find_known_secret(file.data, known_secrets, file.before.data)) is not None:
            raise PublishRefused(f"{_format_place(file.path, line)} contains a secret of this project.")
        if (line := find_known_secret(file.data, list_prompt_lines(), file.before.data)) is not None:
            raise PublishRefused(f"{_format_place(file.path, line)} repeats the agent's instructions.")
        if secret := find_secret(file):
            kind = secret[1]
            raise PublishRefused(
                f"{_format_place(file.path, secret[0])} adds text that looks like a secret ({kind})."
                " Use a placeholder instead."
            )
        if not_text := explain_not_text(file):
            raise PublishRefused(f"{file.path} {not_text}.")
        if hidden := find_hidden_character(file):
            raise PublishRefused(f"{_format_place(file.path, hidden[0])} adds {hidden[1]}. Remove it.")
        resources += find_in_file(file, dialects) if refuse_embeds else ()
    if new_embed := find_new_embed(tree, resources, allowed_hosts):
        raise PublishRefused(_explain_embed(new_embed))


def _explain_embed(embed: ExternalResource) -> str:
    place = _format_place(embed.path, embed.line)
    kind = {"image": "an image", "data": "data"}.get(embed.kind, f"a {embed.kind}")
    if embed.host and embed.is_script_of_page:
        return f"{place} makes readers load a script from {embed.host}. Remove it; only a person can add it."
    if embed.host:
        return (
            f"{place} makes readers load {kind} from {embed.host}, which no page loads from yet. Link to it instead, "
            "or name its URL in the prompt."
        )
    return f"{place} makes readers load or run {kind} that is part of the file. Remove it; only a person can add it."


def explain_not_text(file: ProposedFile) -> str:
    """Returns why a file is not UTF-8 text, or "". A file that was moved without a new extension is not checked."""
    before = file.before.files
    if any(data == file.data and extension(path) == extension(file.path) for path, data in before):
        return ""
    if b"\x00" in file.data or file.data.startswith(UTF16_AND_UTF32_BOMS):
        return "is not UTF-8 text (it has NUL characters or another encoding), so a reviewer could not read it"
    if not is_utf8(file.data) and all(is_utf8(data) for _, data in before):
        return "is not UTF-8 text, so a reviewer could not read it"
    return ""


def _check_texts(texts: Sequence[str], known_secrets: Sequence[str]) -> None:
    location = "The title, the description or a file name"
    for text in texts:
        data = text.encode("utf-8", "replace")
        if find_known_secret(data, known_secrets) is not None:
            raise PublishRefused(f"{location} contains a secret of this project.")
        if find_known_secret(data, list_prompt_lines()) is not None:
            raise PublishRefused(f"{location} repeats the agent's instructions.")
        if secret := find_secret(ProposedFile("", data, FilesBefore())):
            raise PublishRefused(f"{location} contains text that looks like a secret ({secret[1]}).")


def _format_place(path: str, line: int) -> str:
    return f"{path}, line {line}," if line else path


def _check_paths_and_sizes(tree: Tree, changes: Changes, allowed_patterns: Sequence[str], root: str) -> None:
    if len(changes) > MAX_CHANGED_FILES:
        raise PublishRefused(
            f"The job changed {len(changes)} files. At most {MAX_CHANGED_FILES} can be published at once."
        )
    size = 0
    for path, data in changes.items():
        entry = tree.find_entry(path)
        try:
            if entry is None:
                validate_path(path)
                _check_parents(tree, path)
                if hidden := find_hidden_in_name(path):
                    raise PathRefused(f"The name of {path!r} contains {hidden}.")
            elif not entry.is_file:
                raise PathRefused(f"{path} is a symbolic link, a folder or a submodule, which cannot be changed.")
            refuse_protected(path, allowed_patterns, root)
        except PathRefused as refusal:
            raise PublishRefused(str(refusal)) from None
        try:
            size += count_changed_bytes(tree.read(entry, path) if entry else b"", data or b"")
        except FileTooLarge as refusal:
            raise PublishRefused(str(refusal)) from None
    if size > MAX_CHANGED_BYTES:
        raise PublishRefused(f"The job changed {size:,} bytes. At most {MAX_CHANGED_BYTES:,} can be published at once.")
