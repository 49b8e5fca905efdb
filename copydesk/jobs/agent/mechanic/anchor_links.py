"""Updates the links to headings that an edit renames, since the anchor of a heading changes with its text."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from urllib.parse import unquote

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.plan import MAX_FILES, EditPlan, Edits
from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.move_page import list_translations
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.headings import find_headings
from copydesk.jobs.pages.parsing.page_parser import find_references
from copydesk.jobs.pages.parsing.prose import mask_non_prose, mask_rst_code
from copydesk.jobs.pages.parsing.references import LINK_KINDS, remove_overlaps
from copydesk.jobs.pages.parsing.rst_references import find_rst_titles, normalize_name
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.nav_entries import find_entry_file, find_nav_site, resolve_link
from copydesk.jobs.pages.site.nav_files import NavEntry
from copydesk.jobs.pages.site.paths import split_target
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

ANCHOR_PATTERN = re.compile(r"#[^\s\"'`]{1,200}")
HEADING_ID_PATTERN = re.compile(r"^#{1,6}[ \t][^\n]*\{#([\w-]+)\}[ \t]*\r?$", re.M)


def update_anchor_links(workspace: Workspace, edits_by_path: dict[str, tuple[bytes, Edits]], plan: EditPlan) -> None:
    """Adds edits of links to changed headings, because the anchor of a heading changes with its text."""
    changed_headings = [path for path, (data, edits) in edits_by_path.items() if _changes_heading(path, data, edits)]
    if not changed_headings:
        return
    index = index_workspace(workspace)
    resolver = index.resolver
    renamed_anchors = {
        path: anchors
        for path in changed_headings
        if (anchors := _find_renamed_anchors(resolver, path, *edits_by_path[path]))
    }
    _rename_in_translations(workspace, resolver, renamed_anchors, edits_by_path)
    old_anchors = {old.encode() for anchors in renamed_anchors.values() for old in anchors}
    updated_links = _update_nav_files(workspace, renamed_anchors, edits_by_path, plan)
    for path in workspace.paths():
        if (
            extension(path) not in MARKDOWN_EXTENSIONS
            or not index.is_page(path)
            or not workspace.is_documentation(path)
        ):
            continue
        if not workspace.is_readable(path):
            continue
        data = workspace.read(path)
        if b"#" not in data or not is_text(data) or not any(old in data for old in old_anchors):
            continue
        edits = _find_anchor_edits(path, DecodedText.decode(data).body, resolver, renamed_anchors)
        if edits and (path in edits_by_path or len(edits_by_path) < MAX_FILES):
            edits_by_path.setdefault(path, (data, []))[1].extend(edits)
            updated_links += len(edits)
    if updated_links:
        plan.notes.append(f"Updated {pluralize(updated_links, 'link')} to the anchors of changed headings.")


def _rename_in_translations(
    workspace: Workspace,
    resolver: LinkResolver,
    renamed_anchors: dict[str, dict[str, str]],
    edits_by_path: dict[str, tuple[bytes, Edits]],
) -> None:
    """Adds edits of the IDs that translations of a page give their headings, such as `{#part}`, and of links to them.

    A page that is not translated links to the translation by the ID that the original has."""
    for page, anchors in list(renamed_anchors.items()):
        for path in list_translations(resolver, page):
            data = workspace.read(path) if workspace.is_readable(path) else b""
            if not is_text(data) or not workspace.is_documentation(path):
                continue
            body = DecodedText.decode(data).body
            ids = [match for match in HEADING_ID_PATTERN.finditer(body) if match[1] in anchors]
            if ids:
                edits = [(*match.span(1), anchors[match[1]]) for match in ids]
                edits_by_path.setdefault(path, (data, []))[1].extend(edits)
                renamed_anchors[path] = {match[1]: anchors[match[1]] for match in ids}


def _changes_heading(path: str, data: bytes, edits: Edits) -> bool:
    if extension(path) not in MARKDOWN_EXTENSIONS:
        return False
    body = DecodedText.decode(data).body
    lines = [heading.line for heading in find_headings(body, mask_non_prose(path, body))]
    starts = [line.start for line in lines]
    for start, end, _ in edits:
        index = bisect_left(starts, end) - 1  # the last heading that begins before the edit ends
        if index >= 0 and start < lines[index].end:
            return True
    return False


def _find_renamed_anchors(resolver: LinkResolver, path: str, data: bytes, edits: Edits) -> dict[str, str]:
    slugify = resolver.get_slugify(path)
    before = DecodedText.decode(data).body
    after = apply_edits(before, edits)
    pairs = zip(
        find_headings(before, mask_non_prose(path, before), slugify),
        find_headings(after, mask_non_prose(path, after), slugify),
        strict=False,
    )
    return {old.anchor: new.anchor for old, new in pairs if old.anchor != new.anchor}


def _find_anchor_edits(
    path: str, body: str, resolver: LinkResolver, renamed_anchors: dict[str, dict[str, str]]
) -> Edits:
    edits: Edits = []
    for link in remove_overlaps(each for each in find_references(path, body) if each.kind in LINK_KINDS):
        link_path, suffix = split_target(link.target)
        file: str | None = path
        if link_path or not suffix.startswith("#"):
            file = find_referenced_file(resolver, path, link.kind, link.target) if link.names_file else None
        hash_index = suffix.find("#")
        anchor = renamed_anchors.get(file or "", {}).get(unquote(suffix[hash_index + 1 :])) if hash_index >= 0 else None
        if anchor:
            edits.append((link.start + len(link_path) + hash_index + 1, link.end, anchor))
    return edits


def _update_nav_files(
    workspace: Workspace,
    renamed_anchors: dict[str, dict[str, str]],
    edits_by_path: dict[str, tuple[bytes, Edits]],
    plan: EditPlan,
) -> int:
    """Adds edits of headers, footers, menus and redirects that lead to a renamed heading. Returns their number."""
    index = index_workspace(workspace)
    updated = 0
    for path, nav_file in index.nav_files.items():
        if not workspace.is_documentation(path) or not workspace.is_readable(path):
            continue
        data = workspace.read(path)
        if b"#" not in data or not is_text(data):
            continue
        body = DecodedText.decode(data).body
        edits: Edits = []
        for entry in nav_file.entries:
            edits += _find_nav_edit(index.resolver, path, body, entry, renamed_anchors)
        if edits and not workspace.may_change(path):
            plan.notes.append(f"A person must update the anchors in {path}: jobs may not change it.")
        elif edits:
            edits_by_path.setdefault(path, (data, []))[1].extend(edits)
            updated += len(edits)
    return updated


def _find_nav_edit(
    resolver: LinkResolver, path: str, body: str, entry: NavEntry, renamed_anchors: dict[str, dict[str, str]]
) -> Iterator[tuple[int, int, str]]:
    """Yields the edit of an entry's anchor, which is a part of the entry or follows it."""
    if entry.span is None:
        return
    start, end = entry.span
    if anchor_match := ANCHOR_PATTERN.match(body, end):
        end = anchor_match.end()
    name, mark, anchor = body[start:end].partition("#")
    site = find_nav_site(resolver, path)
    if not mark or site is None:
        return
    file = resolve_link(resolver, site, name) if entry.is_link else find_entry_file(resolver, path, entry.base + name)
    new_anchor = renamed_anchors.get(file or "", {}).get(unquote(anchor))
    if new_anchor:
        yield start + len(name) + 1, end, new_anchor


def find_name_edits(body: str, edits: Edits) -> Edits:
    """Returns the edits of references such as `Some title`_ to the titles that `edits` change on the same page."""
    visible = mask_rst_code(body)
    ordered = sorted(edits)
    starts = [start for start, _, _ in ordered]
    renamed = {}
    for start, end, title in find_rst_titles(visible):
        inside = ordered[bisect_left(starts, start) : bisect_left(starts, end)]
        title_edits = [(first - start, last - start, new) for first, last, new in inside if last <= end]
        if title_edits:
            renamed[normalize_name(title)] = apply_edits(title, title_edits)
    if not renamed:
        return []
    references = (each for each in find_references("page.rst", body) if each.kind == "name")
    return [
        (each.start, each.end, renamed[name]) for each in references if (name := normalize_name(each.target)) in renamed
    ]
