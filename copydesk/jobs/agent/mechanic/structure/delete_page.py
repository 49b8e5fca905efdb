"""Plans the deletion of a page: its links become plain text, its entries in menus go, and its address may redirect."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.instructions import DeletePage
from copydesk.jobs.agent.mechanic.plan import EditPlan, Edits, find_page_candidates, join_limited
from copydesk.jobs.agent.mechanic.structure.definition_edits import remove_definition
from copydesk.jobs.agent.mechanic.structure.list_edits import (
    Edit,
    find_element,
    find_subtree_end,
    remove_element,
    remove_lines,
)
from copydesk.jobs.agent.mechanic.structure.page_labels import find_own_labels
from copydesk.jobs.pages.lines import Span, TextLine, apply_edits, line_at, split_lines
from copydesk.jobs.pages.move_page import read_if_mentioned
from copydesk.jobs.pages.page_types import (
    MARKDOWN_EXTENSIONS,
    MARKDOWN_NAV_FILES,
    PAGE_EXTENSIONS,
    extension,
    stem,
)
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.references import Reference
from copydesk.jobs.pages.parsing.rst_references import normalize_name
from copydesk.jobs.pages.redirects import find_address, find_stale_redirects
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.nav_entries import find_entry_file, find_nav_site, resolve_link
from copydesk.jobs.pages.site.nav_files import NavFile, is_nav_file
from copydesk.jobs.pages.site.repository_index import index_workspace, list_pages
from copydesk.jobs.pages.source_mentions import describe_source_mentions
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

LINK_ONLY_ITEM_PATTERN = re.compile(r"[ \t>]*(?:[-*+]|\d+[.)])[ \t]+(?:\*\*|__)?(?P<link>\S.*?)(?:\*\*|__)?[ \t.]*$")
# The text of a link may go over several lines, but not over a blank one.
INLINE_LINK_PATTERN = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]\n]*\])*)\]\(<?\Z")
MAX_LINK_TEXT_CHARS = 1000
INLINE_END_PATTERN = re.compile(r">?(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?\)")
ROLE_PATTERN = re.compile(r"(?::(?:[\w-]+:)?(?:doc|ref):|\{(?:[\w-]+:)?(?:doc|ref)\})`(?:(?P<text>[^`<\n]*?)[ \t]*<)?$")
TITLE_PATTERN = re.compile(r"^# (.+)$|^(\S.*)\n[=*#-]+$", re.M)


def find_one_page(workspace: Workspace, name: str, plan: EditPlan) -> str | None:
    """Returns the page that a person means, or None with a note. A whole path may also name a license or the like."""
    exact = name.removeprefix("./").strip("/")
    if extension(exact) in PAGE_EXTENSIONS and workspace.exists(exact) and workspace.is_documentation(exact):
        return exact
    pages = list_pages(workspace)
    candidates = find_page_candidates(pages, name.strip("/"))
    if not candidates:
        plan.notes.append(f"There is no page “{name}”. Nothing was changed.")
    elif len(candidates) > 1:
        plan.notes.append(
            f"“{name}” could be any of {join_limited(candidates)}. Nothing was changed. Give the full path."
        )
    return candidates[0] if len(candidates) == 1 else None


def plan_deletion(workspace: Workspace, instruction: DeletePage) -> EditPlan:
    plan = EditPlan()
    page = find_one_page(workspace, instruction.page, plan)
    target = find_one_page(workspace, instruction.redirect_to, plan) if page and instruction.redirect_to else None
    if page is None or plan.notes:
        return plan
    index = index_workspace(workspace)
    remover = _ReferenceRemover(index.resolver, page, DecodedText.decode(workspace.read(page)).body)
    protected: list[str] = []
    for path in workspace.paths():
        if path == page or not workspace.is_documentation(path) or not workspace.is_readable(path):
            continue
        nav_file = index.nav_files.get(path)
        if nav_file is None and not index.is_page(path):
            continue
        data = workspace.read(path)
        if not is_text(data):
            continue
        body = DecodedText.decode(data).body
        edits = remover.find_nav_edits(path, body, nav_file) if nav_file else remover.find_edits(path, body)
        if edits and not workspace.may_change(path):
            protected.append(path)
        elif edits:
            plan.add_edits(path, data, edits)
    count = plan.file_count
    address = find_address(index, page)
    protected += find_stale_redirects(workspace, address) if address else []
    arguments = {"path": page, **({"redirect_to": target} if target else {})}
    plan.calls.append(("delete", arguments))
    if count:
        plan.notes.append(f"Removed the links and navigation entries in {pluralize(count, 'file')}.")
    if address and not target:
        plan.notes.append(
            f"Its address {address.address} no longer exists. Name a page to redirect to, if there is one."
        )
    if protected:
        names = join_limited(list(dict.fromkeys(protected)))
        plan.notes.append(f"A person must update {names}: jobs may not change it.")
    if mentions := describe_source_mentions(workspace, page):
        plan.notes.append(f"A person must update the links to it in {mentions}.")
    if remover.undecided:
        plan.notes.append(
            f"Needs a person, because the link is a part of something else: {join_limited(remover.undecided)}."
        )
    return plan


class RemovedEntries(NamedTuple):
    menus: list[str]
    """The files whose entries for the page were removed."""
    protected: list[str]
    """The files with an entry for the page that no job may change."""
    links: list[str]
    """The places that still lead to the page, each as a path and a line."""


def remove_from_navigation(workspace: Workspace, page: str) -> RemovedEntries:
    """Removes a file's entries from all menus and tables of contents, and finds the other links to it.

    Call it while the file exists."""
    index = index_workspace(workspace)
    data = workspace.read(page)
    remover = _ReferenceRemover(index.resolver, page, DecodedText.decode(data).body if is_text(data) else "")
    names = [stem(address) for address in index.resolver.list_page_addresses(page) if address]
    names += index.pages[page].labels if page in index.pages else ()
    menus: list[str] = []
    protected: list[str] = []
    for path in workspace.paths():
        nav_file = index.nav_files.get(path)
        if path == page or not workspace.is_documentation(path):
            continue
        is_text_file = nav_file is not None or is_nav_file(path) or index.is_page(path)
        text_data = read_if_mentioned(workspace, path, page, names) if is_text_file else None
        if text_data is None:
            continue
        text = DecodedText.decode(text_data)
        if nav_file is not None:
            edits = remover.find_nav_edits(path, text.body, nav_file)
        else:
            edits = remover.find_edits(path, text.body, menus_only=True)
        if edits and not workspace.may_change(path):
            protected.append(path)
        elif edits:
            workspace.write(path, text.encode(apply_edits(text.body, edits)))
            menus.append(path)
    return RemovedEntries(menus, protected, [*remover.undecided, *remover.left_links])


def _find_title(body: str) -> str:
    match = TITLE_PATTERN.search(body.replace("\r\n", "\n"))
    return (match[1] or match[2]).strip() if match else ""


class _ReferenceRemover:
    """Finds the edits that remove every reference to one page."""

    def __init__(self, resolver: LinkResolver, page: str, body: str) -> None:
        self.undecided: list[str] = []
        self.left_links: list[str] = []
        """The links outside menus that were left as they are."""
        self._resolver = resolver
        self._page = page
        self._title = _find_title(body)
        self.labels = find_own_labels(resolver, page, body)

    def find_edits(self, path: str, body: str, menus_only: bool = False) -> Edits:
        edits: Edits = []
        lines = split_lines(body)
        for reference in find_references(path, body):
            if not self._leads_to_page(path, reference):
                continue
            number = line_at(lines, reference.start).number
            if menus_only and reference.kind != "toctree" and path.rpartition("/")[2] not in MARKDOWN_NAV_FILES:
                self.left_links.append(f"{path}:{number}")
                continue
            definition = remove_definition(path, body, (reference.start, reference.end))
            edit = self._remove_reference(path, body, lines, reference) if definition is None else None
            if definition is not None:
                uses = [_remove_item(body, lines, span) or use for use, span in definition]
                edits += uses
            elif edit is None:
                self.undecided.append(f"{path}:{number}")
            else:
                edits.append(edit)
        return _remove_overlaps(edits)

    def _leads_to_page(self, path: str, reference: Reference) -> bool:
        if reference.kind == "ref":
            return normalize_name(reference.target) in self.labels
        file = find_referenced_file(self._resolver, path, reference.kind, reference.target)
        return reference.names_file and file == self._page

    def _remove_reference(self, path: str, body: str, lines: list[TextLine], reference: Reference) -> Edit | None:
        index = line_at(lines, reference.start).number - 1
        line = lines[index]
        if reference.kind == "toctree":
            return remove_lines(lines, index, index + 1, body)
        span, text = self._find_link(body, reference)
        if span is None:
            return None
        item = _remove_item(body, lines, span)
        if item is not None:
            return item
        if path.rpartition("/")[2] in MARKDOWN_NAV_FILES and _is_item(line, span):
            return reference.start, reference.end, ""  # a chapter without a page keeps its subchapters
        if path.rpartition("/")[2] in MARKDOWN_NAV_FILES and line.text.strip() == body[slice(*span)]:
            return remove_lines(lines, index, index + 1, body)
        return *span, text

    def _find_link(self, body: str, reference: Reference) -> tuple[tuple[int, int] | None, str]:
        """Returns the whole link around a target, and the text that stays; None if it is in another form."""
        line_start = body.rfind("\n", 0, reference.start) + 1
        before = body[line_start : reference.start]
        if reference.kind == "link":
            floor = max(body.rfind("\n\n", 0, reference.start) + 2, reference.start - MAX_LINK_TEXT_CHARS, 0)
            opening = INLINE_LINK_PATTERN.search(body[floor : reference.start])
            closing = INLINE_END_PATTERN.match(body, reference.end)
            if opening and closing:
                return (floor + opening.start(), closing.end()), opening["text"]
        if reference.kind in ("doc", "ref"):
            role = ROLE_PATTERN.search(before)
            end = body.find("`", reference.end)
            is_label = reference.kind == "ref"
            title = self.labels[normalize_name(reference.target)] if is_label else self._title or reference.target
            text = (role["text"] if role else None) or title
            if role and end >= 0 and text:
                return (line_start + role.start(), end + 1), text.strip()
        return None, ""

    def find_nav_edits(self, path: str, body: str, nav_file: NavFile) -> Edits:
        if extension(path) in MARKDOWN_EXTENSIONS:
            return self.find_edits(path, body)
        site = find_nav_site(self._resolver, path)
        edits: Edits = []
        for entry in nav_file.entries:
            if entry.span is None:
                continue
            if entry.is_link:
                file = resolve_link(self._resolver, site, entry.value) if site else None
            else:
                file = find_entry_file(self._resolver, path, entry.full_value)
            if file != self._page:
                continue
            is_yaml = path.endswith((".yml", ".yaml"))
            edit = _remove_yaml_line(body, entry.span[0]) if is_yaml else _remove_js_entry(body, entry.span[0])
            if edit is None or not (entry.is_listed or entry.is_link):
                self.undecided.append(f"{path}:{entry.line}")
            elif not any(start < edit[1] and edit[0] < end for start, end, _ in edits):
                edits.append(edit)
        return edits


def _is_item(line: TextLine, link: Span) -> bool:
    """Returns whether a line is an item of a list with nothing but this link."""
    item = LINK_ONLY_ITEM_PATTERN.match(line.text)
    return item is not None and (line.start + item.start("link"), line.start + item.end("link")) == link


def _remove_item(body: str, lines: list[TextLine], link: Span) -> Edit | None:
    """Removes the item of a list that is only this link and has no items below it; None if there is no such item."""
    index = line_at(lines, link[0]).number - 1
    if not _is_item(lines[index], link) or find_subtree_end(lines, index) != index + 1:
        return None
    return remove_lines(lines, index, index + 1, body)


def _remove_overlaps(edits: Edits) -> Edits:
    result: Edits = []
    for edit in sorted(edits):
        if not result or result[-1][1] <= edit[0]:
            result.append(edit)
    return result


def _remove_js_entry(body: str, position: int) -> Edit | None:
    element = find_element(body, position)
    return None if element is None or element.has_items else remove_element(body, element)


def _remove_yaml_line(body: str, position: int) -> Edit | None:
    """Removes the line of an entry, and the sections above it that would be empty."""
    lines = split_lines(body)
    index = line_at(lines, position).number - 1
    if not lines[index].text.lstrip().startswith("- "):
        return None
    first = index
    for parent in _list_parents(index, body):
        if find_subtree_end(lines, parent) != index + 1 or any(
            not lines[number].is_blank for number in range(parent + 1, first)
        ):
            break
        if not lines[parent].text.lstrip().startswith("- "):
            return None  # the whole menu would be empty
        first = parent
    return remove_lines(lines, first, index + 1, body)


def _list_parents(index: int, body: str) -> Iterator[int]:
    lines = split_lines(body)
    indent = lines[index].indent
    for number in range(index - 1, -1, -1):
        line = lines[number]
        if not line.is_blank and line.indent < indent:
            indent = line.indent
            yield number
