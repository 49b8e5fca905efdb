"""Finds which commits of a repository changed the code behind a name, or a file that a page names.

A name changed if a commit removes or replaces a line that has it. A line that only moved, or a new line with the name,
which is one more use of it, is no change.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import pygit2
from pygit2.enums import DeltaStatus, DiffOption

from copydesk.jobs.checks.names.unknown_names import SOURCE_EXTENSION_PATTERN
from copydesk.jobs.pages.page_types import SKIPPED_FOLDERS, extension, is_page
from copydesk.jobs.projects.page_history import CommitSummary, summarize_commit, walk_main_line
from copydesk.jobs.projects.staleness.page_claims import contains_name, list_code_keys, squeeze
from copydesk.jobs.workspace.context_tree import is_secret_file
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import REGULAR_FILE_MODES, decode_text

MAX_COMMITS_WALKED = 5_000
MAX_DELTAS_PER_COMMIT = 500
"""Larger commits are skipped: they format, import or move code, and say nothing about a name."""
MAX_FILE_BYTES = 1 << 20
MAX_PATCH_BYTES = 200 << 10
"""A larger change of one file is generated."""
CONFIG_EXTENSIONS = frozenset({".json", ".yaml", ".yml", ".toml", ".proto", ".graphql", ".ini", ".cfg", ".conf"})
OTHER_PATH_PATTERN = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|e2e|testdata|test_data|fixtures?|mocks?|snapshots|__snapshots__|examples?|samples"
    r"|bench(?:es|marks?)?|workloads|dist|build|target|locales?|i18n|migrations)/"
    r"|(?:^|/)(?:tests?\.\w+|test_[^/]*|conftest\.py|[^/]*[._-](?:test|tests|spec|bench|min)\.\w+|package(?:-lock)?\.json|[^/]*lock\.(?:json|yaml)"
    r"|composer\.json|Cargo\.toml|pyproject\.toml|mkdocs\.ya?ml|docs\.json|[^/]*\.config\.\w+)$"
)
"""Files that use the product or build it, and do not say what it does."""
DECLARATION_PATTERN = re.compile(
    r"(?:(?:pub(?:\([a-z ]+\))?|export|default|public|private|protected|static|const|readonly|async|unsafe|def|fn|func"
    r"|function|class|struct|enum|type|interface|trait)\s+)*[\"']?([A-Za-z]\w*)[\"']?\s*(?:[?!]?:(?!:)|=(?!=)|\(|<|\{)"
)
"""A line that declares a field, a function or a type, in most languages."""
OPTIONS_PATH_PATTERN = re.compile(
    r"(?i)(?:cli|cmd|command|option|arg|flag|config|setting|main|param)[^/]*$|/(?:cli|cmd)/"
)
"""Files that declare the options of a program."""


class SourceChange(NamedTuple):
    commit: CommitSummary
    path: str
    keys: frozenset[str] = frozenset()
    """The names whose lines the commit removed or replaced in this file."""
    spellings: frozenset[str] = frozenset()
    """How pages spell those names that a removed line spells in the same way."""
    declared_keys: frozenset[str] = frozenset()
    """The names that a removed line declares, in any spelling."""

    def is_about(self, key: str, name: str) -> bool:
        """Returns whether the change is about a name as a page spells it.

        A field may have the name of a flag by chance, except in a file that declares options.
        """
        if key.startswith("/"):
            return key in self.keys
        is_option = not name.startswith("--") or OPTIONS_PATH_PATTERN.search(self.path) is not None
        return name in self.spellings or (key in self.declared_keys and is_option)


class SourceScan(NamedTuple):
    changes: list[SourceChange]
    """The newest first."""
    spelled_keys: frozenset[str]
    """The names that a removed line spells as a page does."""
    is_complete: bool


class NameUse(NamedTuple):
    """How a commit of a repository uses a name."""

    source_files: int
    is_spelled_as_on_page: bool


Spellings = Mapping[str, Set[str]]
"""The spellings on pages of each key."""


def is_source_path(path: str) -> bool:
    """Returns whether a file can say what the product does: code or configuration, not pages, tests and builds."""
    *folders, name = path.split("/")
    if any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders) or name.startswith("."):
        return False
    if not _has_code_extension(name):
        return False
    return not (is_page(path) or OTHER_PATH_PATTERN.search(path) or is_secret_file(path))


def _has_code_extension(path: str) -> bool:
    kind = extension(path)
    return kind in CONFIG_EXTENSIONS or SOURCE_EXTENSION_PATTERN.fullmatch(kind) is not None


def scan_changes(
    tree: Tree,
    since: int,
    spellings: Spellings,
    files: Set[str],
    is_source: Callable[[str], bool],
    deadline: float,
) -> SourceScan:
    """Walks the main line back to a time, once for all names and files that the pages claim.

    `deadline` is a reading of the CPU clock of this thread.
    """
    changes: list[SourceChange] = []
    spelled_keys: set[str] = set()
    is_complete = True
    for count, commit in enumerate(walk_main_line(tree, since)):
        if count >= MAX_COMMITS_WALKED or time.thread_time() > deadline:
            is_complete = False
            break
        commit_scan = _CommitScan(tree.repository, spellings, is_source)
        changes += commit_scan.find_changes(commit, files)
        spelled_keys |= commit_scan.spelled_keys
    return SourceScan(changes, frozenset(spelled_keys), is_complete)


@dataclass
class _ChangedFile:
    keys: set[str] = field(default_factory=set)
    spellings: set[str] = field(default_factory=set)
    declared_keys: set[str] = field(default_factory=set)

    def describe(self, commit: CommitSummary, path: str) -> SourceChange:
        return SourceChange(
            commit, path, frozenset(self.keys), frozenset(self.spellings), frozenset(self.declared_keys)
        )


class _CommitScan:
    """Collects the lines with wanted names that one commit removes and adds."""

    def __init__(self, repository: pygit2.Repository, spellings: Spellings, is_source: Callable[[str], bool]) -> None:
        self._repository = repository
        self._spellings = spellings
        self._is_source = is_source
        self._removed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._added: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._places: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """The source files in which a line with a name was removed, by name and line."""
        self._changes: dict[str, _ChangedFile] = {}
        self.spelled_keys: set[str] = set()

    def find_changes(self, commit: pygit2.Commit, files: Set[str]) -> list[SourceChange]:
        """Returns one change for each file with a changed name, and for each changed one of these files."""
        diff = _diff_with_parent(self._repository, commit)
        if diff is None:
            return []
        touched: set[str] = set()
        for number, delta in enumerate(diff.deltas):
            old_path = decode_text(delta.old_file.raw_path)
            if old_path in files and delta.status != DeltaStatus.ADDED:
                touched.add(old_path)
            if _is_searchable(self._repository, delta):
                self._collect_lines(diff[number], old_path, self._is_source(old_path))
        for key, removed in self._removed.items():
            for line in removed - self._added[key]:
                for path in self._places[key, line]:
                    self._add_change(path, key, line)
        changed = sorted(self._changes.keys() | touched)
        summary = summarize_commit(commit) if changed else None
        return [
            self._changes.get(path, _ChangedFile()).describe(summary, path) for path in changed if summary is not None
        ]

    def _add_change(self, path: str, key: str, line: str) -> None:
        change = self._changes.setdefault(path, _ChangedFile())
        change.keys.add(key)
        change.spellings.update(name for name in self._spellings[key] if contains_name(line, name))
        if _is_declaration(line, key):
            change.declared_keys.add(key)

    def _collect_lines(self, patch: pygit2.Patch | None, path: str, is_source: bool) -> None:
        """Adds the lines of a file. Of a file that is no source, only added ones: a line may have moved there."""
        data = patch.data if patch is not None else None
        if data is None or len(data) > MAX_PATCH_BYTES:
            return
        text = data.decode("utf-8", "replace")
        wanted = self._spellings.keys() & set(list_code_keys(text))
        needles = [squeeze(key) for key in wanted if not key.startswith("/")]
        has_endpoint = len(needles) < len(wanted)
        is_in_hunk = False
        for line in text.split("\n") if wanted else ():
            is_in_hunk = is_in_hunk or line.startswith("@@")
            if not is_in_hunk or not (line.startswith("+") or (is_source and line.startswith("-"))):
                continue
            squeezed = squeeze(line)
            if not has_endpoint and not any(needle in squeezed for needle in needles):
                continue
            content = " ".join(line[1:].split())
            for key in wanted & set(list_code_keys(content)):
                if line[0] == "+":
                    self._added[key][content] += 1
                    continue
                is_spelled = key.startswith("/") or any(
                    contains_name(content, spelling) for spelling in self._spellings[key]
                )
                if is_spelled:
                    self.spelled_keys.add(key)
                if is_spelled or _is_declaration(content, key):
                    self._removed[key][content] += 1
                    self._places[key, content].add(path)


def _diff_with_parent(repository: pygit2.Repository, commit: pygit2.Commit) -> pygit2.Diff | None:
    """Returns the change of a commit; None for the first one, and for those that change too many files."""
    try:
        parents = commit.parents[:1]
    except KeyError:  # the clone has no older commits
        return None
    if not parents:
        return None
    diff = repository.diff(parents[0], commit, context_lines=0, flags=DiffOption.SKIP_BINARY_CHECK)
    return diff if len(diff) <= MAX_DELTAS_PER_COMMIT else None


def _is_searchable(repository: pygit2.Repository, delta: pygit2.DiffDelta) -> bool:
    """Returns whether a changed file can have names: a regular file of a known kind, and not too large."""
    if not _has_code_extension(decode_text(delta.new_file.raw_path)):
        return False
    sides = [delta.old_file] if delta.status != DeltaStatus.ADDED else []
    sides += [delta.new_file] if delta.status != DeltaStatus.DELETED else []
    return all(
        side.mode in REGULAR_FILE_MODES and repository.odb.read_header(side.id)[1] <= MAX_FILE_BYTES for side in sides
    )


def _is_declaration(line: str, key: str) -> bool:
    """Returns whether a line declares the name of this key, in any spelling."""
    declared = DECLARATION_PATTERN.match(line)
    return declared is not None and squeeze(declared[1]) == key


def find_uses(
    tree: Tree, spellings: Spellings, is_source: Callable[[str], bool], deadline: float
) -> dict[str, NameUse] | None:
    """Returns how the files of a commit use each name. Tests and other code count for the spelling.

    None if that takes too long.
    """
    files: Counter[str] = Counter()
    spelled: set[str] = set()
    needles = {key: squeeze(key) if not key.startswith("/") else "/" for key in spellings}
    for path, entry in tree.files() if spellings else ():
        if not (_has_code_extension(path) or is_page(path)) or tree.size(entry) > MAX_FILE_BYTES:
            continue
        if time.thread_time() > deadline:
            return None
        text = tree.read(entry, path).decode("utf-8", "replace")
        missing = [key for key in spellings if key not in spelled]
        spelled.update(key for key in missing if any(contains_name(text, spelling) for spelling in spellings[key]))
        if is_source(path):
            squeezed = squeeze(text)
            possible = {key for key, needle in needles.items() if needle in squeezed}
            files.update(possible.intersection(list_code_keys(text)) if possible else ())
    return {key: NameUse(files[key], key in spelled) for key in spellings}
