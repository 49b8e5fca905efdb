"""Moves a page and updates every reference to it: links, includes, navigation, and the page's own relative links."""

import posixpath
import re
from collections.abc import Iterable, Mapping

from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.page_types import INDEX_NAMES, PAGE_EXTENSIONS, extension, stem
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.references import Reference, remove_overlaps
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import (
    find_referenced_file,
    percent_encode,
    rewrite_reference,
    shift_target,
)
from copydesk.jobs.pages.site.nav_entries import find_entry_file, rename_entry, rename_link
from copydesk.jobs.pages.site.nav_files import NavFile, is_nav_file, parse_nav_file
from copydesk.jobs.pages.site.page_addresses import NUMBER_PREFIX_PATTERN
from copydesk.jobs.pages.site.paths import PathChange, is_within, join_path, strip_folder
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

Edits = list[tuple[int, int, str]]
# A link of only dots and slashes leads to a folder's index page without naming it.
UNNAMED_LINK_PATTERN = re.compile(rb"""\]\(<?[./]+[)#?> ]|=\{?["'][./]+["'#?]|\]:[ \t]*[./]+\s""")
NAME_PART_PATTERN = re.compile(r"[A-Za-z0-9_-]+")
SHIFTED_KINDS = ("link", "image", "figure", "include", "literalinclude", "download", "mdbook")
"""Kinds of references whose relative targets start from the page's folder."""


class UpdatedFiles(list[str]):
    """The files that were changed because a page moved, sorted."""

    def __init__(self, paths: Iterable[str], protected: Iterable[str]) -> None:
        super().__init__(paths)
        self.protected = list(protected)
        """Files that refer to the page too, and that no job may change."""


def move_page(workspace: Workspace, old: str, new: str) -> UpdatedFiles:
    """Moves `old` to `new` and returns the other files that were changed, sorted.

    Atomic: computes every new text before the first write, and makes the only write that can be refused first. Code is
    not changed, and neither are protected files and files that are not documentation, which no job may change."""
    if workspace.exists(new):
        raise PathRefused(f"{new} already exists.")
    index = index_workspace(workspace)
    move = _Move(index.resolver, index.nav_files, old, new)
    moved_data = move.update_own_references(workspace.read(old))
    names = [stem(address) for address in index.resolver.list_page_addresses(old) if address]
    changed_files = {}
    protected = []
    for path in workspace.paths():
        if path != old and workspace.is_documentation(path):
            is_text_file = path in index.nav_files or is_nav_file(path) or index.is_page(path)
            data = read_if_mentioned(workspace, path, old, names) if is_text_file else None
            new_data = None if data is None else move.update_mentions(path, data)
            if new_data is not None and not workspace.may_change(path):
                protected.append(path)
            elif new_data is not None:
                changed_files[path] = new_data
    _move_file(workspace, old, new, moved_data)
    for path, data in changed_files.items():
        workspace.write(path, data)
    return UpdatedFiles(changed_files, protected)


def find_translations(workspace: Workspace, old: str, new: str) -> list[PathChange]:
    """Returns the translations of a Docusaurus page, which must have the same path below their folder, and their moves.

    A translation without a page is not built, so that links to it are broken."""
    resolver = index_workspace(workspace).resolver
    site = resolver.site_by_page.get(old)
    root = site.find_root(old) if site is not None else None
    if root is None or not is_within(new, root):
        return []
    length = len(strip_folder(old, root))
    return [PathChange(path, path[:-length] + strip_folder(new, root)) for path in list_translations(resolver, old)]


def list_translations(resolver: LinkResolver, page: str) -> list[str]:
    """Returns the pages that Docusaurus shows in place of this page in other languages."""
    site = resolver.site_by_page.get(page)
    root = site.find_root(page) if site is not None and site.kind == "docusaurus" else None
    if site is None or root is None:
        return []
    name = strip_folder(root, site.folder)
    version = posixpath.basename(name) if name.startswith("versioned_docs/") else "current"
    if name != "docs" and version == "current":
        return []  # an instance of the plugin with another name
    folder = join_path(site.folder, "i18n") or "i18n"
    pattern = re.compile(rf"{re.escape(folder)}/[^/]+/docusaurus-plugin-content-docs/{re.escape(version)}/")
    path = strip_folder(page, root)
    return [each for each in resolver.pages if (match := pattern.match(each)) and each[match.end() :] == path]


def _move_file(workspace: Workspace, old: str, new: str, data: bytes) -> None:
    """Moves the file. Deletes the old path first, so that a page can be renamed to the same name in another case."""
    old_data = workspace.read(old)
    workspace.delete(old)
    try:
        workspace.write(new, data)
    except PathRefused:
        workspace.apply({old: old_data})
        raise


def read_if_mentioned(workspace: Workspace, path: str, old: str, names: list[str]) -> bytes | None:
    """Returns the bytes of a page or navigation file that may refer to the moved page, or None.

    `names` are the last names of the page's addresses, such as an ID in the front matter."""
    if not workspace.is_readable(path):
        return None
    data = workspace.read(path)
    is_mentioned = _may_mention(data, old) or any(_longest_part(name) in data for name in names)
    return data if is_text(data) and is_mentioned else None


class _Move:
    """Updates the texts of a repository for one page that moves."""

    def __init__(self, before: LinkResolver, nav_files: Mapping[str, NavFile], old: str, new: str) -> None:
        self.before = before
        self.nav_files = nav_files
        self.after = before.with_move(old, new)
        self.old = old
        self.new = new
        self.change = PathChange(old, new)

    def update_own_references(self, data: bytes) -> bytes:
        """Returns the bytes of the moved page, whose relative references start from another folder now."""
        if extension(self.old) not in PAGE_EXTENSIONS or not is_text(data):
            return data
        text = DecodedText.decode(data)
        edits: Edits = []
        for reference in _find_file_references(self.old, text.body):
            target = self._update_own_target(reference)
            if target != reference.target:
                edits.append((reference.start, reference.end, _encode_for_file(text, target)))
        return text.encode(apply_edits(text.body, edits))

    def _update_own_target(self, reference: Reference) -> str:
        kind = reference.kind
        target = reference.target
        file = find_referenced_file(self.before, self.old, kind, target)
        if file is not None:
            file_change = self.change if file == self.old else PathChange(file, file)
            return rewrite_reference(self.before, self.after, kind, target, self.change, file_change)
        if kind in SHIFTED_KINDS or (kind in ("import", "script") and target.startswith(".")):
            return shift_target(self.before, target, self.old, self.new)
        return target

    def update_mentions(self, path: str, data: bytes) -> bytes | None:
        """Returns a file's bytes with every reference to the moved page updated, or None if nothing changes."""
        text = DecodedText.decode(data)
        is_navigation = path in self.nav_files or is_nav_file(path)
        edits = self._edit_nav_entries(path, text) if is_navigation else self._edit_references(path, text)
        return text.encode(apply_edits(text.body, edits)) if edits else None

    def _edit_references(self, path: str, text: DecodedText) -> Edits:
        edits: Edits = []
        for reference in _find_file_references(path, text.body):
            kind = reference.kind
            target = reference.target
            if find_referenced_file(self.before, path, kind, target) != self.old:
                continue
            base = self.before.including_pages.get(path, path)
            page = self.change if base == self.old else PathChange(base, base)
            new_target = rewrite_reference(self.before, self.after, kind, target, page, self.change)
            if new_target != target:
                edits.append((reference.start, reference.end, _encode_for_file(text, new_target)))
        return edits

    def _edit_nav_entries(self, path: str, text: DecodedText) -> Edits:
        edits: Edits = []
        nav_file = self.nav_files.get(path) or parse_nav_file(path, text.body)
        for entry in nav_file.entries:
            if entry.is_link and entry.span is not None:
                link = rename_link(self.before, self.after, path, entry.value, self.change)
                edits += [(*entry.span, _encode_for_file(text, link))] if link != entry.value else []
                continue
            if entry.span is None or find_entry_file(self.before, path, entry.full_value) != self.old:
                continue
            value = rename_entry(self.before, self.after, path, entry.full_value, self.old, self.new)
            if value != entry.full_value and value.startswith(entry.base):
                edits.append((*entry.span, _encode_for_file(text, value[len(entry.base) :])))
        return edits


def _find_file_references(path: str, body: str) -> list[Reference]:
    return remove_overlaps(reference for reference in find_references(path, body) if reference.names_file)


def _may_mention(data: bytes, old: str) -> bool:
    """Returns whether a part of the page's name occurs in the file: a cheap check before the file is parsed."""
    name = stem(old)
    if _longest_part(NUMBER_PREFIX_PATTERN.sub("", name)) in data:
        return True
    if name not in INDEX_NAMES:
        return False
    folder_name = posixpath.basename(posixpath.dirname(old))
    return _longest_part(folder_name) in data or UNNAMED_LINK_PATTERN.search(data) is not None


def _longest_part(name: str) -> bytes:
    """Returns the longest part of a name that is written in the same way in every link."""
    return max(NAME_PART_PATTERN.findall(name), key=len, default="").encode()


def _encode_for_file(text: DecodedText, target: str) -> str:
    """Percent-encodes the characters that the file's encoding does not have."""
    if text.encoding == "utf-8":
        return target
    return "".join(c if c <= "\xff" else percent_encode(c) for c in target)
