"""The parsed pages, navigation files and sites of a repository. The next index is built from it and what changed."""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from fnmatch import translate
from functools import partial
from typing import TypeVar

import pygit2

from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension, is_page
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.parsing.page_parser import decode_body, parse_page
from copydesk.jobs.pages.site.config_parts import ADDITIONAL_CONFIG_PATTERN, complete_site, may_have_parts
from copydesk.jobs.pages.site.content_cache import get_or_parse
from copydesk.jobs.pages.site.generators import ConfigPart, DocsSite, find_config_parser
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.nav_files import NavFile, find_nav_parser, is_nav_file, parse_nav_file
from copydesk.jobs.pages.site.paths import is_within
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.workspace import Workspace

T = TypeVar("T")
FileIds = Mapping[str, pygit2.Oid]
ReadFile = Callable[[str], bytes]
MAX_GITIGNORE_LINES, MAX_GITIGNORE_LINE_CHARS, MAX_FOLDER_DEPTH = 500, 100, 100
"""Limits of the lines of a .gitignore, of the characters per line, and of the nested folders that are examined."""
PARSED_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst")
# Pages that are wrong on purpose, and templates that are filled in later.
SKIPPED_PATH_PATTERN = re.compile(
    r"(?:^|/)(?:fixtures|testdata|__tests__|__fixtures__|archetypes|_templates)/|^tests?/|\{\{"
)


class RepositoryIndex:
    def __init__(
        self,
        tree: Tree,
        files: FileIds,
        read: ReadFile,
        root: str = "",
        previous: "RepositoryIndex | None" = None,
        changed: Set[str] | None = None,
    ) -> None:
        """Parses the files, reusing all results of `previous` that have not changed. Only pages below `root` count.

        `changed` are the paths that differ from `previous`; None means that they are computed.
        """
        self.tree = tree
        self.files = files
        self.root = root
        if previous is None:
            changed = files.keys()
        elif changed is None:
            changed = {path for path, _ in previous.files.items() ^ files.items()}
        self.changed: Set[str] = changed

        def update(
            previous_values: Mapping[str, T], parse: Callable[[str], T | None], changed: Set[str] = changed
        ) -> dict[str, T]:
            values = dict(previous_values)
            for path in changed:  # a first index reads in git's order, which is the fastest for a pack
                values.pop(path, None)
                value = _none_if_too_large(parse, path) if path in files else None
                if value is not None:
                    values[path] = value
            return values

        previous_sites = previous.sites if previous else {}
        changed_sites = {path for path, site in previous_sites.items() if _has_changed_part(site, changed)}
        changed = {*changed, *changed_sites} if changed_sites else changed
        self.sites: dict[str, DocsSite] = update(
            previous_sites, lambda path: self._parse_site_config(path, read), changed
        )
        # Whether a file such as license.md is a page depends on the sites.
        named_pages = {path for path in files if _is_page_by_site(path)} if self.sites != previous_sites else set()
        self.pages: dict[str, PageFacts] = update(
            previous.pages if previous else {}, lambda path: self._parse_page(path, read), {*changed, *named_pages}
        )
        self.nav_files: dict[str, NavFile] = update(
            {path: nav_file for path, nav_file in previous.nav_files.items() if is_nav_file(path)} if previous else {},
            lambda path: self._parse_nav_file(path, read),
        )
        self.nav_files.update(self._parse_parts(read))
        self.ignored_pattern: re.Pattern[str] = (
            previous.ignored_pattern if previous and ".gitignore" not in changed else _read_gitignore(files, read)
        )
        # A bound method would create a reference cycle.
        is_unverifiable = partial(_is_unverifiable, tree, self.ignored_pattern)
        self.has_same_layout = previous is not None and self._has_same_layout(previous, changed)
        self.resolver: LinkResolver = (
            previous.resolver.with_changed_pages(files, self.pages, changed, is_unverifiable)
            if previous is not None and self.has_same_layout
            else LinkResolver(files, self.pages, self.sites.values(), is_unverifiable)
        )

    def is_page(self, path: str) -> bool:
        """Returns whether a file is a page, by its path and by the sites."""
        return is_page(path) or (_is_page_by_site(path) and any(site.shows(path) for site in self.sites.values()))

    def _has_same_layout(self, previous: "RepositoryIndex", changed: Set[str]) -> bool:
        """Returns whether the files, the sites, and the addresses and labels of all pages are the same as before."""
        pairs = [(previous.pages.get(path), self.pages.get(path)) for path in changed]
        return (
            previous.files.keys() == self.files.keys()
            and changed.isdisjoint(self.sites.keys() | previous.sites.keys())
            and all(
                (old is None and new is None)
                or (old is not None and new is not None and _get_layout(old) == _get_layout(new))
                for old, new in pairs
            )
        )

    def _parse_page(self, path: str, read: ReadFile) -> PageFacts | None:
        ext = extension(path)
        if (
            ext not in PARSED_EXTENSIONS
            or not is_within(path, self.root)
            or not self.is_page(path)
            or SKIPPED_PATH_PATTERN.search(path)
        ):
            return None
        return get_or_parse(self.files[path], ext, lambda: parse_page(ext, read(path)))

    def _parse_nav_file(self, path: str, read: ReadFile) -> NavFile | None:
        if find_nav_parser(path) is None or not self._may_configure_root(path):
            return None
        return get_or_parse(self.files[path], path, lambda: parse_nav_file(path, decode_body(read(path))))

    def _parse_site_config(self, path: str, read: ReadFile) -> DocsSite | None:
        parser = find_config_parser(path)
        if parser is None or SKIPPED_PATH_PATTERN.search(path) or not self._may_configure_root(path):
            return None
        text = decode_body(read(path))
        if may_have_parts(path, text):
            return complete_site(path, text, self.files, lambda name: self._read_text(name, read))
        return get_or_parse(self.files[path], f"site {path}", lambda: parser(path, text))

    def _read_text(self, path: str, read: ReadFile) -> str | None:
        if path not in self.files:
            return None
        return _none_if_too_large(lambda name: decode_body(read(name)), path)

    def _parse_parts(self, read: ReadFile) -> Iterator[tuple[str, NavFile]]:
        """Yields the navigation files that a site's configuration names."""
        for site in self.sites.values():
            for part in site.parts:
                if part.path in self.files and part.role != "versions":
                    nav_file = _none_if_too_large(partial(self._parse_part, part, read), part.path)
                    if nav_file is not None:
                        yield part.path, nav_file

    def _parse_part(self, part: ConfigPart, read: ReadFile, path: str) -> NavFile:
        kind = f"part {part}"
        return get_or_parse(self.files[path], kind, lambda: parse_nav_file(path, decode_body(read(path)), part))

    def _may_configure_root(self, path: str) -> bool:
        """Returns whether a configuration file may apply to pages in the root: it is in the root or above it."""
        folder = path.rpartition("/")[0].rpartition(".vitepress")[0].strip("/") or path.rpartition("/")[0]
        return is_within(path, self.root) or not folder or f"{self.root}/".startswith(f"{folder}/")


def _get_layout(facts: PageFacts) -> tuple[object, ...]:
    return facts.fields, facts.labels, facts.stub_folders


def _has_changed_part(site: DocsSite, changed: Set[str]) -> bool:
    """Returns whether another file of the site's configuration changed, or may have been added."""
    if site.kind == "vitepress" and any(
        ".vitepress/" in path or ADDITIONAL_CONFIG_PATTERN.search(path) for path in changed
    ):
        return True
    return any(part.path in changed for part in site.parts)


def index_workspace(workspace: Workspace) -> RepositoryIndex:
    """Parses all files of a workspace, with its edits. Takes unchanged files from the cache."""
    files = {path: entry.oid for path, entry in workspace.tree.files()}
    return RepositoryIndex(workspace.tree, apply_changes(files, workspace), workspace.read)


def list_pages(workspace: Workspace) -> list[str]:
    """Returns the pages of the documentation folder. Reads the repository only if their paths do not decide it."""
    paths = [path for path in workspace.paths() if is_page(path, in_site=True) and workspace.is_documentation(path)]
    if not any(map(_is_page_by_site, paths)):
        return paths
    index = index_workspace(workspace)
    return [path for path in paths if index.is_page(path)]


def _is_page_by_site(path: str) -> bool:
    """Returns whether a file such as license.md is a page only if a site shows it."""
    return is_page(path, in_site=True) and not is_page(path)


def apply_changes(files: FileIds, workspace: Workspace) -> dict[str, pygit2.Oid]:
    """Returns the IDs of the files with the edits of a workspace."""
    edited = dict(files)
    for path, data in workspace.changes().items():
        if data is None:
            edited.pop(path, None)
        else:
            edited[path] = pygit2.hash(data)
    return edited


def _none_if_too_large(parse: Callable[[str], T | None], path: str) -> T | None:
    """Parses a file. Returns None if it is too large: then it exists, but its content is unknown."""
    try:
        return parse(path)
    except FileTooLarge:
        return None


def _is_unverifiable(tree: Tree, ignored_pattern: re.Pattern[str], path: str) -> bool:
    """Returns whether a path may exist although the tree has no such file.

    It may be below a symbolic link or a submodule, or be build output that git ignores.
    """
    names = path.split("/")
    for end in range(1, min(len(names), MAX_FOLDER_DEPTH) + 1):
        entry = tree.find_entry("/".join(names[:end]))
        if entry is not None and entry.mode in (0o120000, 0o160000):
            return True
        if entry is None:
            break
    return any(map(ignored_pattern.match, set(names[:MAX_FOLDER_DEPTH])))


def _read_gitignore(files: FileIds, read: ReadFile) -> re.Pattern[str]:
    """Returns a pattern of the names that git ignores in any folder, such as those of build output."""
    text = _none_if_too_large(lambda path: decode_body(read(path)), ".gitignore") or "" if ".gitignore" in files else ""
    lines = (line.strip().strip("/") for line in text.splitlines()[:MAX_GITIGNORE_LINES])
    names = {line.rpartition("/")[2] for line in lines if line and line[0] not in "#!" and line[-1:] != "*"}
    return re.compile(
        "|".join(translate(name) for name in sorted(names) if len(name) <= MAX_GITIGNORE_LINE_CHARS) or "(?!)"
    )
