"""Mines cases from a repository's history: commits that change only documentation, small enough for one prompt."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pygit2
from pygit2.enums import SortMode

from benchmarks.agent.request_drafts import draft_prompt
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.pages.page_types import is_page
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.path_rules import PathRefused

NAVIGATION_PATTERN = re.compile(
    r"(?:.*/)?(?:docs\.json|mint\.json|mkdocs\.ya?ml|_?sidebars?\.(?:js|ts|json|ya?ml)|_toc\.ya?ml)"
)


@dataclass(frozen=True)
class MiningOptions:
    since: datetime | None = None
    limit: int = 20
    max_files: int = 10
    max_lines: int = 200


@dataclass(frozen=True)
class MinedCase:
    base: str
    reference: str
    prompt: str
    files: int
    lines: int

    @property
    def name(self) -> str:
        words = re.findall(r"[a-z0-9]+", self.prompt.partition("\n")[0].lower())
        return "-".join([*words[:5], self.reference[:7]])[-80:].strip("-")

    def to_toml(self, repository: str) -> str:
        fields = {"name": self.name, "repository": repository, "base": self.base, "reference": self.reference}
        size = f"{pluralize(self.files, 'file')}, {pluralize(self.lines, 'line')}"
        return "\n".join(
            [
                "[[case]]",
                *(f"{name} = {_format_toml_string(value)}" for name, value in fields.items()),
                f"# {size}. Ask for it below as one who does not know the change.",
                f"prompt = {_format_toml_string(self.prompt)}",
            ]
        )


def mine_cases(
    repository: pygit2.Repository, options: MiningOptions, on_commit: Callable[[], None] = lambda: None
) -> Iterator[MinedCase]:
    """Yields cases along the main line, newest first, no two with the same prompt. Calls `on_commit` for each commit.

    A merge counts as one change with everything that it brought in.
    """
    prompts: set[str] = set()
    if repository.head_is_unborn:
        return
    left = options.limit
    walker = repository.walk(repository.head.target, SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    for commit in walker:
        if left == 0 or (options.since is not None and commit.commit_time < options.since.timestamp()):
            return
        on_commit()
        case = _case_from_commit(repository, commit, options)
        if case is not None and case.prompt not in prompts:
            prompts.add(case.prompt)
            left -= 1
            yield case


def _case_from_commit(repository: pygit2.Repository, commit: pygit2.Commit, options: MiningOptions) -> MinedCase | None:
    if not commit.parent_ids or commit.parent_ids[0] not in repository:
        return None
    message = commit.raw_message.decode("utf-8", "replace")
    if not draft_prompt(message, ("a page",)):
        return None
    base = commit.parents[0]
    diff = base.tree.diff_to_tree(commit.tree, context_lines=0)
    paths = {path for delta in diff.deltas for path in (delta.old_file.path, delta.new_file.path)}
    if not paths or len(paths) > options.max_files or not all(map(_is_documentation, paths)):
        return None
    lines = diff.stats.insertions + diff.stats.deletions
    if not 0 < lines <= options.max_lines:
        return None
    prompt = draft_prompt(message, tuple(sorted(paths)))
    if not prompt:
        return None
    return MinedCase(str(base.id), str(commit.id), prompt, len(paths), lines)


def _is_documentation(path: str) -> bool:
    """Returns whether a job may change this path."""
    try:
        refuse_protected(path)
    except PathRefused:
        return False
    return is_page(path) or NAVIGATION_PATTERN.fullmatch(path) is not None


def _format_toml_string(value: str) -> str:
    """Formats a TOML string. A text of several lines becomes a multi-line string, which is easier to edit."""
    lines = [json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for line in value.split("\n")]
    return f'"{lines[0]}"' if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'
