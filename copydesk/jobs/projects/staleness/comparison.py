"""Compares popular pages with the code that they speak about: which sources changed since the page was last edited."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from copydesk.jobs.checks.names.unknown_names import has_sources
from copydesk.jobs.pages.site.paths import is_within
from copydesk.jobs.pages.site.repository_index import RepositoryIndex
from copydesk.jobs.projects.page_history import CommitSummary, PageEdits, find_last_edits, index_pages
from copydesk.jobs.projects.staleness.page_claims import PageClaims, collect_claims, contains_name
from copydesk.jobs.projects.staleness.source_changes import (
    SourceScan,
    find_uses,
    is_source_path,
    scan_changes,
)
from copydesk.jobs.workspace.git_tree import Tree

MAX_PAGES_COMPARED = 500
MAX_CPU_SECONDS = 30.0
"""For all repositories together, each of which gets an equal share of what is left."""
GRACE_CPU_SECONDS = 1.5
"""More for each repository whose history took its whole share, so that what was found can be judged."""
MAX_FILES_PER_NAME = 8
"""A name in more source files is used everywhere, so that a change of one use says nothing."""
MAX_PAGES_PER_NAME = 6
"""A name on more pages is a term of the whole product, and not the subject of one page."""
MAX_SOURCES_LISTED = 5
MAX_COMMITS_LISTED = 3
MAX_NAMES_LISTED = 5


class PageQuestion(NamedTuple):
    address: str
    since: int = 0
    """Changes before this time are known already, in milliseconds."""


class SourceTree(NamedTuple):
    """A repository at a commit that may have the sources of pages. `name` is empty for the documentation's own."""

    name: str
    address: str
    tree: Tree


class CitedSource(NamedTuple):
    """The lines of a source that a job cited for a statement on a page, and that were verified."""

    page: str
    repository: str
    commit: str
    path: str
    lines: str


class ChangedSource(NamedTuple):
    repository: str
    path: str
    names: tuple[str, ...]
    """The names on the page whose lines changed; empty if the page names or cites the file."""
    commits: tuple[CommitSummary, ...]
    """The newest first; only some if there are many."""
    commit_count: int


class StalePage(NamedTuple):
    address: str
    edits: PageEdits
    sources: tuple[ChangedSource, ...]
    source_count: int


class Comparison(NamedTuple):
    stale: list[StalePage]
    """In the order of the questions."""
    edits: dict[str, PageEdits]
    """The last commits of each page, by its address. Addresses without a page are missing."""
    has_sources: bool
    """False if there is no code to compare with: no context repository, and none beside the pages."""
    is_complete: bool
    """False if a history was too long to read all of it."""


@dataclass
class _Page:
    question: PageQuestion
    edits: PageEdits
    claims: PageClaims
    since: int
    sources: dict[tuple[str, str], "_Reasons"] = field(default_factory=dict)


@dataclass
class _Reasons:
    names: Counter[str] = field(default_factory=Counter)
    commits: dict[str, CommitSummary] = field(default_factory=dict)


def compare_pages(
    docs: Tree,
    root: str,
    questions: Sequence[PageQuestion],
    contexts: Sequence[SourceTree],
    citations: Sequence[CitedSource] = (),
    docs_address: str = "",
) -> Comparison:
    """Returns the pages with a source that changed after the page's last edit, and after what is known already."""
    index = index_pages(docs, root)
    paths = {question: index.resolver.find_page_at(question.address) for question in questions[:MAX_PAGES_COMPARED]}
    histories = find_last_edits(docs, {path for path in paths.values() if path is not None})
    edits = {
        question.address: histories.edits[path]
        for question, path in paths.items()
        if path is not None and path in histories.edits
    }
    sources = list(contexts)
    if has_sources(index):
        sources.append(SourceTree("", docs_address, docs))
    if not sources or not edits:
        return Comparison([], edits, bool(sources), histories.is_complete)
    pages = [_read_page(index, question, edits[question.address]) for question in paths if question.address in edits]
    is_complete = histories.is_complete
    last_deadline = time.thread_time() + MAX_CPU_SECONDS
    for number, source in enumerate(sources):
        now = time.thread_time()
        deadline = now + (last_deadline - now) / (len(sources) - number)
        is_complete &= _compare_with_source(index, pages, source, citations, deadline)
    return Comparison([_describe_page(page) for page in pages if page.sources], edits, True, is_complete)


def _read_page(index: RepositoryIndex, question: PageQuestion, edits: PageEdits) -> _Page:
    body = _read_body(index, edits.path)
    return _Page(question, edits, collect_claims(edits.path, body), max(question.since, edits.edited.at))


def _read_body(index: RepositoryIndex, path: str) -> str:
    entry = index.tree.find_entry(path)
    if entry is None or not index.tree.is_readable(entry):
        return ""
    return index.tree.read(entry, path).decode("utf-8", "replace")


def _compare_with_source(
    index: RepositoryIndex,
    pages: Sequence[_Page],
    source: SourceTree,
    citations: Sequence[CitedSource],
    deadline: float,
) -> bool:
    """Adds the changes of one repository to the pages that speak about them. Returns whether all were read."""
    is_source = _build_filter(index) if not source.name else is_source_path
    named = _find_named_files(pages, source, is_source)
    cited = _find_cited_files(pages, source, citations)
    files = {path for paths in (*named.values(), *cited.values()) for path in paths}
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    for page in pages:
        for key, name in page.claims.names.items():
            spellings[key].add(name)
    scan = scan_changes(source.tree, min(page.since for page in pages), spellings, files, is_source, deadline)
    telling_keys = _select_telling_keys(index, spellings, source.tree, scan, is_source, deadline)
    if telling_keys is None:
        return False
    for page in pages:
        own_files = named[page.edits.path] | cited[page.edits.path]
        own_keys = telling_keys & page.claims.names.keys()
        for change in scan.changes:
            changed_keys = [key for key in change.keys & own_keys if change.is_about(key, page.claims.names[key])]
            if change.commit.at > page.since and (changed_keys or change.path in own_files):
                reasons = page.sources.setdefault((source.name, change.path), _Reasons())
                reasons.names.update(page.claims.names[key] for key in changed_keys)
                reasons.commits[change.commit.id] = change.commit
    return scan.is_complete


def _build_filter(index: RepositoryIndex) -> Callable[[str], bool]:
    """Returns the filter of sources for a repository that has the pages too: nothing in the folders of its sites."""
    roots = [root for site in index.sites.values() for root in site.roots if root]

    def is_source(path: str) -> bool:
        return is_source_path(path) and not any(is_within(path, root) for root in roots)

    return is_source


def _find_named_files(
    pages: Sequence[_Page], source: SourceTree, is_source: Callable[[str], bool]
) -> defaultdict[str, set[str]]:
    """Returns the source files that each page names by their whole path, or links to."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    address = source.address.removesuffix(".git").casefold()
    for page in pages:
        linked = {path for repository, path in page.claims.links if repository.casefold() == address}
        for path in page.claims.files | linked:
            entry = source.tree.find_entry(path) if is_source(path) else None
            if entry is not None and entry.is_file:
                files[page.edits.path].add(path)
    return files


def _find_cited_files(
    pages: Sequence[_Page], source: SourceTree, citations: Sequence[CitedSource]
) -> defaultdict[str, set[str]]:
    """Returns the files of evidence whose cited lines are no longer in the file."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    wanted = {page.edits.path for page in pages}
    for citation in citations:
        if citation.page in wanted and citation.repository == source.name and _has_changed(source.tree, citation):
            files[citation.page].add(citation.path)
    return files


def _has_changed(tree: Tree, citation: CitedSource) -> bool:
    """Returns whether the cited lines are gone. Lines that only moved within the file are still there."""
    first, _, last = citation.lines.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or citation.commit not in tree.repository:
        return False
    cited_text = _read_text(Tree(tree.repository, citation.commit, tree.limits), citation.path)
    if cited_text is None:
        return False
    cited = [" ".join(line.split()) for line in cited_text.split("\n")[int(first) - 1 : int(last or first)]]
    current = _read_text(tree, citation.path) or ""
    return "\n".join(cited) not in "\n".join(" ".join(line.split()) for line in current.split("\n"))


def _read_text(tree: Tree, path: str) -> str | None:
    entry = tree.find_entry(path)
    if entry is None or not entry.is_file or not tree.is_readable(entry):
        return None
    return tree.read(entry, path).decode("utf-8", "replace")


def _select_telling_keys(
    index: RepositoryIndex,
    spellings: Mapping[str, set[str]],
    tree: Tree,
    scan: SourceScan,
    is_source: Callable[[str], bool],
    deadline: float,
) -> frozenset[str] | None:
    """Returns the changed names that belong to the product, and are in few source files and on few pages.

    None if that takes too long.
    """
    touched: defaultdict[str, set[str]] = defaultdict(set)
    for change in scan.changes:
        for key in change.keys:
            touched[key].add(change.path)
    rare = {key: spellings[key] for key, paths in touched.items() if len(paths) <= MAX_FILES_PER_NAME}
    uses = find_uses(tree, rare, is_source, deadline + GRACE_CPU_SECONDS)
    if uses is None:
        return None
    known = {
        key: names
        for key, names in rare.items()
        if uses[key].source_files <= MAX_FILES_PER_NAME
        and (uses[key].is_spelled_as_on_page or key in scan.spelled_keys)
    }
    on_pages = _count_pages_with_names(index, known)
    return frozenset(key for key in known if on_pages[key] <= MAX_PAGES_PER_NAME)


def _count_pages_with_names(index: RepositoryIndex, spellings: Mapping[str, set[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in index.pages if spellings else ():
        body = _read_body(index, path)
        counts.update(key for key, names in spellings.items() if any(contains_name(body, name) for name in names))
    return counts


def _describe_page(page: _Page) -> StalePage:
    """Returns the page with its sources; those with the most changed names first."""
    ordered = sorted(page.sources.items(), key=lambda item: (-len(item[1].names), -len(item[1].commits), item[0]))
    sources = []
    for (repository, path), reasons in ordered[:MAX_SOURCES_LISTED]:
        commits = sorted(reasons.commits.values(), key=lambda commit: -commit.at)
        names = tuple(name for name, _ in reasons.names.most_common(MAX_NAMES_LISTED))
        sources.append(ChangedSource(repository, path, names, tuple(commits[:MAX_COMMITS_LISTED]), len(commits)))
    return StalePage(page.question.address, page.edits, tuple(sources), len(ordered))
