"""Finds names in added lines that occur nowhere: in the repository as it was, other changed files, or the request.

Models invent flags, settings and endpoints. A repository with source code knows what exists; one with documentation
alone does not, so there an unknown name is listed as not judged.
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

import pygit2

from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.jobs.checks.findings import Finding, Unjudged
from copydesk.jobs.checks.names.block_settings import collect_block_settings
from copydesk.jobs.checks.names.claimed_names import ClaimedName, NameKind, collect_names, display_name, find_names
from copydesk.jobs.checks.names.known_names import SearchTooLong, WantedName, find_unknown, search_text
from copydesk.jobs.checks.renames import find_renames
from copydesk.jobs.pages.page_types import extension, is_page
from copydesk.jobs.pages.site.paths import is_within
from copydesk.jobs.pages.site.repository_index import RepositoryIndex
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import FileTooLarge

UNKNOWN_NAME_RULE = "unknown-name"
MAX_NAMES = 100
"""How many different names of a change are searched for."""
MAX_SEARCHED_BYTES = 150 << 20
MAX_FILE_BYTES = 1 << 20
"""Larger files are data."""
BINARY_PROBE_BYTES = 8000
MIN_SOURCE_FILES = 20
MAX_CACHED_CONTEXTS = 10
MAX_PAGES_PER_SOURCE_FILE = 4
MIN_SIMILARITY = 0.75
MAX_SIMILAR_NAMES = 5_000
MAX_SUGGESTIONS = 20
MAX_SUGGESTION_BYTES = 20 << 20
"""How much text is searched for similar names."""
SOURCE_EXTENSION_PATTERN = re.compile(
    r"\.(?:c|cc|clj|cpp|cs|cts|dart|erl|ex|exs|go|h|hpp|hs|java|jl|js|jsx|kt|lua|m|mjs|mts|php|pl|py|pyi|r|rb|rs|scala|sh|sql"
    r"|swift|ts|tsx|zig)"
)
NO_SOURCES_REASON = "there is no source code in the repository that could confirm it"
TOO_LARGE_REASON = "the repository is too large to search for so many names"
TOO_MANY_REASON = f"the change has more than {MAX_NAMES} names"
TOO_MANY_SETTINGS_REASON = f"the change has more than {MAX_NAMES} settings in code blocks"


class NameReport(NamedTuple):
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    please_check: tuple[Finding, ...] = ()
    """Settings in code blocks that occur nowhere. Some are names that an example chooses, so that a person decides."""
    judged: tuple[ClaimedName, ...] = ()
    """The different names that were judged."""


class _AddedNames(NamedTuple):
    names: list[ClaimedName]
    block_settings: list[ClaimedName]


class NameSearch:
    """Searches the commits of one or more repositories. Remembers which names are known: checks are repeated."""

    def __init__(self, *trees: Tree) -> None:
        self._trees = trees
        self._known: dict[tuple[NameKind, str], bool] = {}
        self._existing_names: dict[NameKind, list[str]] = {}
        self._suggestions: dict[tuple[NameKind, str], str | None] = {}

    def find_unknown(self, wanted: list[WantedName]) -> list[WantedName]:
        """Returns the names that occur in no file. Raises SearchTooLong if that would read too much."""
        partly_known = [each for each in wanted if each.is_partly_known]  # by what was searched before
        new = [each for each in wanted if not each.is_partly_known and (each.kind, each.name) not in self._known]
        if new or partly_known:
            find_unknown([*partly_known, *new], self._list_contents())
            self._known.update({(each.kind, each.name): each.is_known for each in new})
        return [each for each in wanted if not (each.is_known or self._known.get((each.kind, each.name)))]

    def suggest(self, name: ClaimedName) -> str | None:
        """Returns the most similar name of the same kind that occurs in the repository.

        Comparing is slow, so only the first names of a repository's state get a suggestion.
        """
        key = (name.kind, name.name)
        if key not in self._suggestions and len(self._suggestions) < MAX_SUGGESTIONS:
            matches = difflib.get_close_matches(name.name, self._list_existing_names(name.kind), 1, MIN_SIMILARITY)
            self._suggestions[key] = matches[0] if matches else None
        return self._suggestions.get(key)

    def _list_existing_names(self, kind: NameKind) -> list[str]:
        """Returns the most frequent names of this kind in the first files, which are pages."""
        if kind not in self._existing_names:
            names: Counter[str] = Counter()
            read_bytes = 0
            for _, content in self._list_contents():
                names.update(find_names(kind, content.decode("ascii", "replace")))
                read_bytes += len(content)
                if read_bytes > MAX_SUGGESTION_BYTES:
                    break
            self._existing_names[kind] = [name for name, _ in names.most_common(MAX_SIMILAR_NAMES)]
        return self._existing_names[kind]

    def _list_contents(self) -> Iterator[tuple[str, bytes]]:
        """Yields all text files; pages first, because most names are in other pages too."""
        read_bytes = 0
        for tree in self._trees:
            entries = list(tree.files())
            for path, entry in sorted(entries, key=lambda each: not is_page(each[0])):
                if tree.size(entry) > MAX_FILE_BYTES:
                    continue
                content = tree.read(entry, path)
                read_bytes += len(content)
                if read_bytes > MAX_SEARCHED_BYTES:
                    raise SearchTooLong
                if b"\0" not in content[:BINARY_PROBE_BYTES]:
                    yield path, content


_context_searches = BoundedCache[tuple[tuple[str, str], ...], NameSearch](MAX_CACHED_CONTEXTS)


def find_unknown_names(
    search: NameSearch,
    before: RepositoryIndex,
    after: RepositoryIndex,
    read: Callable[[str], bytes],
    request: str,
    contexts: Sequence[ContextTree] = (),
) -> NameReport:
    """Searches for the names in the lines that the change adds to pages, each once.

    `read` reads a file after the change. `request` is what the job was asked to do: a name in it is known. So is one
    that occurs in a context repository, or in another file that the change adds or edits.
    """
    added = _collect_added_names(before, after, read)
    names, settings = added.names[:MAX_NAMES], added.block_settings[:MAX_NAMES]
    unjudged = [
        Unjudged(UNKNOWN_NAME_RULE, first.path, first.line, "", reason)
        for first, reason in (
            *((name, TOO_MANY_REASON) for name in added.names[MAX_NAMES : MAX_NAMES + 1]),
            *((name, TOO_MANY_SETTINGS_REASON) for name in added.block_settings[MAX_NAMES : MAX_NAMES + 1]),
        )
    ]
    claimed = {(name.kind, name.name): name for name in (*settings, *names)}
    wanted = [WantedName(kind, name) for kind, name in claimed]
    wanted = search_text(wanted, request.encode(errors="replace"), is_source=False)
    for content in _list_changed_contents(after, read) if wanted else ():
        wanted = search_text(wanted, content, is_source=True)
    try:
        search = _get_context_search(before.tree, contexts) if contexts and wanted else search
        unknown = {(each.kind, each.name) for each in search.find_unknown(wanted)} if wanted else set()
    except SearchTooLong:
        first = claimed[wanted[0].kind, wanted[0].name]
        unjudged.append(Unjudged(UNKNOWN_NAME_RULE, first.path, first.line, "", TOO_LARGE_REASON))
        left = {(each.kind, each.name) for each in wanted}
        return NameReport((), tuple(unjudged), (), tuple(name for key, name in claimed.items() if key not in left))
    unknown_names = [name for name in names if (name.kind, name.name) in unknown]
    unknown_settings = [name for name in settings if (name.kind, name.name) in unknown]
    findings: list[Finding] = []
    if unknown_names and not (has_sources(before) or any(map(_has_source_file, contexts))):
        unjudged += (
            Unjudged(UNKNOWN_NAME_RULE, name.path, name.line, name.display_name, NO_SOURCES_REASON)
            for name in unknown_names
        )
    else:
        findings += (_build_finding(name, search.suggest(name)) for name in unknown_names)
    please_check = tuple(_build_finding(name) for name in unknown_settings)
    not_judged = {*unknown_settings, *(() if findings else unknown_names)}
    judged = tuple(name for name in claimed.values() if name not in not_judged)
    return NameReport(tuple(findings), tuple(unjudged), please_check, judged)


def _list_changed_contents(after: RepositoryIndex, read: Callable[[str], bytes]) -> Iterator[bytes]:
    """Yields the files that the change adds or edits, without pages and menus: those prove no name of the product."""
    read_bytes = 0
    for path in sorted(after.changed - after.nav_files.keys() - after.sites.keys()):
        if path not in after.files or is_page(path):
            continue
        try:
            content = read(path)
        except FileTooLarge:
            continue
        read_bytes += len(content)
        if read_bytes > MAX_SEARCHED_BYTES:
            return
        if len(content) <= MAX_FILE_BYTES and b"\0" not in content[:BINARY_PROBE_BYTES]:
            yield content


def _has_source_file(context: ContextTree) -> bool:
    return any(SOURCE_EXTENSION_PATTERN.fullmatch(extension(path)) for path, _ in context.tree.files())


def _get_context_search(tree: Tree, contexts: Sequence[ContextTree]) -> NameSearch:
    """Returns the search of a repository together with context repositories; repeated checks get the same one."""
    trees = [tree, *(context.tree for context in contexts)]
    key = tuple((each.repository.path, each.commit) for each in trees)
    return _context_searches.get(key) or _context_searches.store(key, NameSearch(*trees))


def _build_finding(name: ClaimedName, similar: str | None = None) -> Finding:
    hint = f" Did you mean `{display_name(name.kind, similar)}`?" if similar else ""
    message = f"The {name.kind} `{name.display_name}` occurs nowhere in the repository or the request.{hint}"
    return Finding(UNKNOWN_NAME_RULE, name.path, name.line, message)


def _collect_added_names(before: RepositoryIndex, after: RepositoryIndex, read: Callable[[str], bytes]) -> _AddedNames:
    """Returns each name in an added line once, at its first place. A page that only moved adds no line."""
    names: dict[tuple[NameKind, str], ClaimedName] = {}
    settings: dict[tuple[NameKind, str], ClaimedName] = {}
    old_paths = {new: old for old, new in find_renames(before, after).items()}
    for path in sorted(after.pages):
        if before.files.get(path) == after.files[path]:
            continue
        data = read(path)
        old_path = old_paths.get(path, path)
        entry = before.tree.find_entry(old_path) if old_path in before.files else None
        added = _list_added_lines(before.tree.read(entry, old_path) if entry else None, data)
        body = data.decode(errors="replace")
        for name in collect_names(path, body, added):
            names.setdefault((name.kind, name.name), name)
        for name in collect_block_settings(path, body, added):
            settings.setdefault((name.kind, name.name), name)
    return _AddedNames(list(names.values()), [name for key, name in settings.items() if key not in names])


def _list_added_lines(old: bytes | None, new: bytes) -> Set[int]:
    patch = pygit2.Patch.create_from(old, new, context_lines=0)
    return {line.new_lineno for hunk in patch.hunks for line in hunk.lines if line.origin == "+"}


def has_sources(index: RepositoryIndex) -> bool:
    """Returns whether there is enough source code outside of the documentation to know the product's names."""
    roots = [root for site in index.sites.values() for root in site.roots]
    sources = sum(
        1
        for path in index.files
        if SOURCE_EXTENSION_PATTERN.fullmatch(extension(path))
        and not path.startswith(".")
        and not any(is_within(path, root) for root in roots)
    )
    return sources >= max(MIN_SOURCE_FILES, len(index.pages) // MAX_PAGES_PER_SOURCE_FILE)
