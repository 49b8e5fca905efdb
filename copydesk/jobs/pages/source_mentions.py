"""Finds links to a page in files that are neither pages nor menus: docstrings, templates and components.

Moving and deleting a page leaves them as they are, and most generators build them without a warning."""

import re
from collections.abc import Callable, Iterator

from copydesk.jobs.pages.page_types import INDEX_NAMES, SKIPPED_FOLDERS, extension, stem, strip_extension
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.paths import is_within, split_target, strip_folder
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.text_edits import is_text
from copydesk.jobs.workspace.workspace import Workspace

DOCSTRING_EXTENSIONS = (".py", ".pyi")
TEMPLATE_EXTENSIONS = (".html", ".htm", ".jinja", ".jinja2", ".j2", ".vue", ".jsx", ".tsx", ".svelte")
OTHER_FOLDERS = {*SKIPPED_FOLDERS, "_build", "build", "dist", "site", "test", "tests"}
"""Folders of built sites and of fixtures."""
DOC_ROLE_PATTERN = re.compile(r":doc:`(?:[^`<\n]{0,200}<)?([\w./-]+)>?`")
PATHTO_PATTERN = re.compile(r"\bpathto\(\s*[\"']([\w./-]+)[\"']")
MARKDOWN_LINK_PATTERN = re.compile(r"\](?:\(|:[ \t]+)<?([\w./-]+\.md)(?=[#)>\s])")
MARKDOWN_ADDRESS_PATTERN = re.compile(r"\](?:\(|:[ \t]+)<?(/(?!/)[\w./-]+)(?=[#)>\s]|$)")
URL_FILTER_PATTERN = re.compile(r"[\"']([\w./-]+)(?:#[\w-]*)?[\"']\s*\|\s*url\b")
ADDRESS_PATTERN = re.compile(r"\b(?:href|to|link)[\"']?\s*[=:]\s*\{?\s*[\"'`](/(?!/)[^\"'`\s{}$]*)[\"'`]")

MAX_SEARCHED_BYTES = 50 << 20
MAX_MENTIONS_LISTED = 20

Rule = tuple[re.Pattern[str], Callable[[str], bool]]


def describe_source_mentions(workspace: Workspace, page: str) -> str:
    """Returns the places that link to a page of a site, each as a path and a line; "" if there are none.

    Call it while the page exists."""
    mentions, is_complete = _find_source_mentions(workspace, page)
    more = f" and {len(mentions) - MAX_MENTIONS_LISTED} more" if len(mentions) > MAX_MENTIONS_LISTED else ""
    places = ", ".join(mentions[:MAX_MENTIONS_LISTED]) + more
    if is_complete:
        return places
    return f"{places or 'source code'} (only the first {MAX_SEARCHED_BYTES >> 20} MB of it were searched)"


def _find_source_mentions(workspace: Workspace, page: str) -> tuple[list[str], bool]:
    """Returns the places, and whether all files were searched."""
    index = index_workspace(workspace)
    site = index.resolver.site_by_page.get(page)
    if site is None:
        return [], True
    search = _MentionSearch(index.resolver, site, page)
    mentions: list[str] = []
    bytes_left = MAX_SEARCHED_BYTES
    for path in workspace.paths():
        rules = search.list_rules(path) if path not in index.nav_files else []
        data = workspace.read(path) if rules and workspace.is_readable(path) else b""
        bytes_left -= len(data)
        if bytes_left < 0:
            return mentions, False
        if any(name in data for name in search.names) and is_text(data):
            lines = search.find_lines(data.decode("utf-8", "replace"), rules)
            mentions += [f"{path}:{number}" for number in lines]
    return mentions, True


class _MentionSearch:
    """Decides which links of a file lead to one page."""

    def __init__(self, resolver: LinkResolver, site: DocsSite, page: str) -> None:
        self._resolver = resolver
        self._site = site
        self._page = page
        self._path = strip_folder(page, site.find_root(page) or "")
        addresses = [address.rpartition("/")[2] for address in resolver.list_page_addresses(page)]
        self.names = {name.encode() for name in (stem(page), *addresses) if name}
        """One of these is in every file with a link to the page: a cheap check before the file is searched."""

    def list_rules(self, path: str) -> list[Rule]:
        """Returns the forms of links that a file may have on this site; none if it cannot have any."""
        kind = extension(path)
        if kind in DOCSTRING_EXTENSIONS:
            docstrings: dict[str, list[Rule]] = {
                "sphinx": [(DOC_ROLE_PATTERN, self._is_name)],
                "mkdocs": [(MARKDOWN_LINK_PATTERN, self._is_name), (MARKDOWN_ADDRESS_PATTERN, self._is_address)],
            }
            return docstrings.get(self._site.kind, [])
        if kind not in TEMPLATE_EXTENSIONS or not is_within(path, self._site.folder):
            return []
        if not OTHER_FOLDERS.isdisjoint(strip_folder(path, self._site.folder).split("/")):
            return []
        templates: dict[str, list[Rule]] = {
            "sphinx": [(PATHTO_PATTERN, self._is_docname)],
            "mkdocs": [(URL_FILTER_PATTERN, self._is_address), (ADDRESS_PATTERN, self._is_address)],
        }
        return templates.get(self._site.kind, [(ADDRESS_PATTERN, self._is_address)])

    def find_lines(self, text: str, rules: list[Rule]) -> Iterator[int]:
        for number, line in enumerate(text.split("\n"), 1):
            if any(leads_to_page(match[1]) for pattern, leads_to_page in rules for match in pattern.finditer(line)):
                yield number

    def _is_docname(self, target: str) -> bool:
        return target.strip("/") == strip_extension(self._path)

    def _is_name(self, target: str) -> bool:
        """Compares the end of the path: a docstring does not say which page shows it."""
        name = re.sub(r"^(?:\.{0,2}/)+", "", target)
        path = self._path if extension(name) in (".md", ".rst") else strip_extension(self._path)
        is_common = "/" not in name and stem(name) in INDEX_NAMES
        return name == path or (not target.startswith("/") and not is_common and path.endswith(f"/{name}"))

    def _is_address(self, target: str) -> bool:
        return self._resolver.resolve(self._page, f"/{split_target(target)[0].strip('/')}") == self._page
