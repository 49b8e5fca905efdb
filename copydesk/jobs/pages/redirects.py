"""Redirects for pages that move or disappear, in the form of the site's generator."""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from copydesk.jobs.pages.page_types import INDEX_NAMES, is_site_page, strip_extension
from copydesk.jobs.pages.parsing.js_tokens import tokenize
from copydesk.jobs.pages.parsing.yaml_reader import YAML_ERRORS, compose_or_none
from copydesk.jobs.pages.site.generators import ROUTE_BASE_PATTERN, DocsSite
from copydesk.jobs.pages.site.link_resolver import Redirects
from copydesk.jobs.pages.site.paths import is_within, strip_folder
from copydesk.jobs.pages.site.repository_index import RepositoryIndex, index_workspace
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Workspace

REDIRECT_FILES = ("_redirects", "netlify.toml", "vercel.json")
"""Files in which hosts read redirects."""
SLUG_PATTERN = re.compile(rb"^slug:.*", re.M)
HTML_REDIRECTS = ("mdbook", "sphinx")
"""Generators whose configuration lists redirects to HTML files."""
MAPS_PATTERN = re.compile(r"^([ \t]*)redirect_maps:[ \t]*$", re.M)
CLIENT_REDIRECTS_PATTERN = re.compile(r"plugin-client-redirects.*?\bredirects\s*:\s*\[", re.S)
JSON_REDIRECTS_PATTERN = re.compile(r'"redirects"\s*:\s*\[')
URL_PATH_CHARS = "/!$&'()+,;=@~"
"""The characters besides letters, digits, `-`, `.` and `_` that a browser requests as they are."""


class PageAddress(NamedTuple):
    site: DocsSite
    path: str
    """The page's file."""
    address: str
    """The page's address on the site, with a leading slash."""

    @property
    def url_path(self) -> str:
        """Returns the address as a browser requests it: without spaces and umlauts. It may be encoded already."""
        return quote(unquote(self.address), safe=URL_PATH_CHARS)


class RedirectResult(NamedTuple):
    path: str | None
    """The file that was changed; None if there is no place for a redirect."""
    message: str


class AddressChange(NamedTuple):
    old: str | None
    """The address before the change; None if the page is new."""
    new: str


def find_address(index: RepositoryIndex, page: str) -> PageAddress | None:
    """Returns the address of a page; None if no known site shows the page."""
    site = index.resolver.site_by_page.get(page)
    facts = index.pages.get(page)
    root = site.find_root(page) if site else None
    if site is None or facts is None or root is None or not (is_site_page(page, in_site=True) or page.endswith(".rst")):
        return None
    address = strip_extension(strip_folder(page, root))
    folder, _, name = address.rpartition("/")
    address = folder if name in INDEX_NAMES else address
    page_id = facts.fields.get("id")
    if site.kind == "docusaurus" and isinstance(page_id, str) and page_id:
        address = f"{folder}/{page_id}".strip("/")
    slug = facts.fields.get("slug")
    if isinstance(slug, str) and slug.startswith("/"):
        address = slug.strip("/")
    return PageAddress(site, page, f"/{address}")


def add_redirect(workspace: Workspace, old: PageAddress, new_page: str) -> RedirectResult:
    """Adds a redirect from the address of a page to another page, if the site has a place for redirects."""
    target = find_address(index_workspace(workspace), new_page)
    if target is None:
        return RedirectResult(None, f"No redirect was added, because {new_page} has no address on the site.")
    for path in _list_places(workspace, old.site):
        if not workspace.may_change(path):
            return RedirectResult(None, f"No redirect was added: it belongs in {path}, which is protected.")
        text = _read_text(workspace, path)
        new_body = _insert_redirect_in_file(path, text.body, old, target) if text else None
        if text is not None and new_body is not None:
            workspace.write(path, text.encode(new_body))
            return RedirectResult(path, f"Added a redirect from {old.address} to {target.address} in {path}.")
    return RedirectResult(None, f"No redirect was added: {_explain_missing_place(old.site)}.")


def find_new_addresses(workspace: Workspace, previous_paths: Mapping[str, str]) -> list[AddressChange]:
    """Returns the pages that the change adds or shows at another address, sorted by their new addresses.

    `previous_paths` has the earlier paths of renamed files. A page that is renamed or gets another `slug` has moved.
    """
    changed = [
        path for path, data in workspace.changes().items() if data and _may_change_address(workspace, path, data)
    ]
    if not changed:
        return []
    before = index_workspace(Workspace(workspace.tree, root=workspace.root))
    after = index_workspace(workspace)
    address_changes = set()
    for path in changed:
        new = find_address(after, path)
        old = find_address(before, previous_paths.get(path, path))
        if new is not None and (old is None or old.address != new.address):
            address_changes.add(AddressChange(old.address if old else None, new.address))
    return sorted(address_changes, key=lambda change: (change.new, change.old or ""))


def _may_change_address(workspace: Workspace, path: str, data: bytes) -> bool:
    """Returns whether a page is new or may have another slug: a cheap check before the repository is read."""
    if not is_site_page(path, in_site=True) and not path.endswith(".rst"):
        return False
    old_data = workspace.read_original(path)
    return old_data is None or SLUG_PATTERN.findall(old_data) != SLUG_PATTERN.findall(data)


def find_stale_redirects(workspace: Workspace, old: PageAddress) -> list[str]:
    """Returns the protected files whose redirects lead to the address of a page that moves or disappears."""
    name = re.escape(posixpath.basename(old.address))
    pattern = re.compile(rf"(?<![\w/.-])(?:{_either_spelling(old)}(?:\.html)?/?|(?:[\w./-]+/)?{name}\.html)(?![\w/.-])")
    places = [*_list_places(workspace, old.site), *([old.site.config_path] if old.site.kind in HTML_REDIRECTS else [])]
    stale = []
    for path in dict.fromkeys(places):
        text = None if workspace.may_change(path) else _read_text(workspace, path)
        start = 0 if text is None else text.body.find("redirect") if path == old.site.config_path else 0
        if text is not None and start >= 0 and name and pattern.search(text.body, start):
            stale.append(path)
    return stale


def find_vanished_addresses(workspace: Workspace) -> list[str]:
    """Returns the addresses that the change removes without a redirect, for the reviewer."""
    removed = [path for path, data in workspace.changes().items() if data is None and is_site_page(path, in_site=True)]
    if not removed:
        return []
    before = index_workspace(Workspace(workspace.tree, root=workspace.root))
    after = index_workspace(workspace)
    present = {found.address for page in after.pages if (found := find_address(after, page))}
    vanished = []
    for page in sorted(removed):
        old = find_address(before, page)
        if old and old.address not in present and not _has_redirect(workspace, after, old):
            vanished.append(old.address)
    return vanished


def is_redirected(workspace: Workspace, old: PageAddress) -> bool:
    """Returns whether the site redirects an address."""
    return _has_redirect(workspace, index_workspace(workspace), old)


def _has_redirect(workspace: Workspace, after: RepositoryIndex, old: PageAddress) -> bool:
    site = next((each for each in after.resolver.sites if each.config_path == old.site.config_path), None)
    spellings = {old.address.strip("/"), old.url_path.strip("/")}
    if site is not None and any(map(Redirects(site.redirects).matches, spellings)):
        return True
    address = _either_spelling(old)
    name = re.escape(strip_folder(old.path, old.site.roots[0]))
    route = r"(?:/[\w-]+)?" if old.site.kind == "docusaurus" else ""
    pattern = re.compile(rf"(?<![\w/.-])(?:{route}{address}/?|{name})(?![\w/.-])")
    texts = (_read_text(workspace, path) for path in _list_places(workspace, old.site))
    return any(text is not None and pattern.search(text.body) for text in texts)


def _either_spelling(old: PageAddress) -> str:
    """Returns a pattern for an address as it is written, or as a browser requests it."""
    return f"(?:{re.escape(old.address)}|{re.escape(old.url_path)})"


def _list_places(workspace: Workspace, site: DocsSite) -> Iterator[str]:
    """Yields the files that may hold the redirects of a site, its own configuration first."""
    if site.kind in ("mintlify", "mkdocs", "docusaurus"):
        yield site.config_path
    folders = dict.fromkeys(("", site.folder, *site.asset_folders, *site.roots))
    for folder in folders:
        for name in REDIRECT_FILES:
            if workspace.exists(path := posixpath.join(folder, name)):
                yield path


def _explain_missing_place(site: DocsSite) -> str:
    if site.kind == "mkdocs":
        return f"{site.config_path} does not use the redirects plugin"
    if site.kind == "docusaurus":
        return f"{site.config_path} does not list redirects of the plugin client-redirects"
    return "the site has no file for redirects"


def _insert_redirect_in_file(path: str, body: str, old: PageAddress, new: PageAddress) -> str | None:
    """Returns the text of a file with one more redirect in the file's own line endings."""
    if not 0 < body.count("\r\n") == body.count("\n"):
        return _insert_redirect(path, body, old, new)
    new_body = _insert_redirect(path, body.replace("\r\n", "\n"), old, new)
    return None if new_body is None else new_body.replace("\n", "\r\n")


def _insert_redirect(path: str, text: str, old: PageAddress, new: PageAddress) -> str | None:
    """Returns the text with one more redirect, or None if it has no place for one."""
    name = posixpath.basename(path)
    if name in ("docs.json", "mint.json"):
        return _insert_in_docs_json(text, old.url_path, new.url_path)
    if name in ("mkdocs.yml", "mkdocs.yaml"):
        root = old.site.roots[0]
        if not is_within(new.path, root):
            return None
        return _insert_in_mkdocs(text, strip_folder(old.path, root), strip_folder(new.path, root))
    if name.startswith("docusaurus.config."):
        return _insert_in_docusaurus(text, old, new)
    if name == "_redirects":
        ending = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{ending}{old.url_path} {new.url_path} 301\n"
    return None


def _insert_in_docs_json(text: str, source: str, destination: str) -> str | None:
    unit = next((match[1] for match in re.finditer(r"^([ \t]+)\"", text, re.M)), "  ")
    match = JSON_REDIRECTS_PATTERN.search(text)
    entry = [f'"source": {json.dumps(source)},', f'"destination": {json.dumps(destination)}']

    def format_entry(indent: str) -> str:
        return "\n".join([f"{indent}{{", *(f"{indent}{unit}{line}" for line in entry), f"{indent}}}"])

    if match is not None:
        close = _find_closing_bracket(text, match.end() - 1)
        if close is None:
            return None
        inside = text[match.end() : close]
        line_indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, match.start()) + 1 :])
        indent = (line_indent[0] if line_indent else "") + unit
        lead = "," if inside.strip() else ""
        new_text = f"{text[: match.end()]}{inside.rstrip()}{lead}\n{format_entry(indent)}\n{indent[: -len(unit)]}"
        new_text += text[close:]
    else:
        end = text.rstrip().rfind("}")
        body = text[:end].rstrip()
        comma = "" if body.endswith("{") else ","
        new_text = f'{body}{comma}\n{unit}"redirects": [\n{format_entry(unit * 2)}\n{unit}]\n{text[end:]}'
    try:
        redirects = json.loads(new_text)["redirects"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return new_text if redirects[-1] == {"source": source, "destination": destination} else None


def _find_closing_bracket(text: str, start: int) -> int | None:
    depth = 0
    for token_start, token_end in tokenize(text[start:]):
        lexeme = text[start + token_start : start + token_end]
        depth += (lexeme in ("[", "{")) - (lexeme in ("]", "}"))
        if depth == 0:
            return start + token_start
    return None


def _insert_in_mkdocs(text: str, old: str, new: str) -> str | None:
    match = MAPS_PATTERN.search(text)
    if match is None:
        return None
    following = re.match(r"\r?\n([ \t]+)([\"']?)", text[match.end() :])
    indent = following[1] if following and len(following[1]) > len(match[1]) else match[1] + "  "
    quote = (following[2] if following else "") or "'"
    line = f"\n{indent}{quote}{old}{quote}: {quote}{new}{quote}"
    new_text = text[: match.end()] + line + text[match.end() :]
    try:
        return new_text if compose_or_none(new_text) is not None else None
    except YAML_ERRORS:
        return None


def _insert_in_docusaurus(text: str, old: PageAddress, new: PageAddress) -> str | None:
    match = CLIENT_REDIRECTS_PATTERN.search(text)
    if match is None:
        return None
    route = next(iter(ROUTE_BASE_PATTERN.findall(text)), "docs").strip("/")
    prefix = f"/{route}" if route else ""
    indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, match.end()) + 1 :])
    line_indent = (indent[0] if indent else "") + "  "
    entry = f"{{from: {json.dumps(prefix + old.address)}, to: {json.dumps(prefix + new.address)}}},"
    return f"{text[: match.end()]}\n{line_indent}{entry}{text[match.end() :]}"


def _read_text(workspace: Workspace, path: str) -> DecodedText | None:
    try:
        return DecodedText.decode(workspace.read(path)) if workspace.is_readable(path) else None
    except (KeyError, NotEditable):
        return None
