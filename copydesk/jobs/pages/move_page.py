"""Moves a page together with everything that names it: links, navigation, and its own relative links."""

import posixpath
import re
from urllib.parse import unquote

from copydesk.jobs.pages import navigation
from copydesk.jobs.pages.lines import spliced
from copydesk.jobs.pages.link_targets import Site, encoded, percent, relative, rewritten, split
from copydesk.jobs.pages.links import links
from copydesk.jobs.pages.page_types import INDEXES, extension, is_page, stem
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Workspace

Edits = list[tuple[int, int, str]]
# A link that is only dots and slashes leads to a folder's index without naming it.
UNNAMED = re.compile(rb"""\]\(<?[./]+[)#?> ]|=\{?["'][./]+["'#?]|\]:[ \t]*[./]+\s""")


def move_page(workspace: Workspace, old: str, new: str) -> list[str]:
    """Moves `old` to `new` and answers which other files were changed for it, sorted.

    All or nothing: every new text is made before the first change, and the only change that can be refused comes
    first. Code is left alone, and so are dot folders and what is no documentation, which no job may change."""
    if workspace.exists(new):
        raise PathRefused(f"{new} exists already.")
    site = Site(workspace.paths())
    after = site.moved(old, new)
    moved = _with_own_links(workspace.read(old), old, new, site, after)
    others = {}
    for path in sorted(filter(workspace.is_documentation, site.paths - {old})):
        changed = _with_new_place(workspace, path, old, new, site, after)
        if changed is not None:
            others[path] = changed
    _carry_over(workspace, old, new, moved)
    for path, data in others.items():
        workspace.write(path, data)
    return list(others)


def _carry_over(workspace: Workspace, old: str, new: str, data: bytes) -> None:
    """The old path goes first, so that a page can be renamed to the same name in another case."""
    before = workspace.read(old)
    workspace.delete(old)
    try:
        workspace.write(new, data)
    except PathRefused:
        workspace.apply({old: before})
        raise


def _with_own_links(data: bytes, old: str, new: str, site: Site, after: Site) -> bytes:
    if not is_page(old) or not is_text(data):
        return data
    text = Text.of(data)
    edits: Edits = []
    for link in links(old, text.body):
        if link.is_internal:
            target = _own_link(link.target, old, new, site, after)
            edits.append((link.start, link.end, _fitting(text, target)))
    return text.encode(spliced(text.body, edits))


def _own_link(target: str, old: str, new: str, site: Site, after: Site) -> str:
    found = site.resolve(old, target)
    if found is None:
        return _shifted(target, old, new, site)
    goal = new if found.file == old else found.file
    again = after.resolve(new, target)
    return target if again and again.file == goal else rewritten(target, new, found, goal)


def _shifted(target: str, old: str, new: str, site: Site) -> str:
    """A relative link to something that is no file here, such as a folder or what a build makes, keeps its place."""
    written, suffix = split(target)
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(old), unquote(written)))
    names_something = "/" in written or extension(written) or joined in site.folders
    if written.startswith("/") or not names_something or joined.startswith(".."):
        return target
    if posixpath.dirname(old) == posixpath.dirname(new):
        return target
    path = relative(joined, posixpath.dirname(new), written)
    slash = "/" if written.endswith("/") and not path.endswith("/") else ""
    return encoded(path, written) + slash + suffix


def _with_new_place(workspace: Workspace, path: str, old: str, new: str, site: Site, after: Site) -> bytes | None:
    """The file's bytes with every mention of the moved page changed; None where there is none."""
    listing = navigation.is_navigation(path)
    if not (listing or is_page(path)) or not workspace.is_readable(path):
        return None
    data = workspace.read(path)
    if not is_text(data) or not _may_mention(data, old):
        return None
    text = Text.of(data)
    edits = _entries(path, text, old, new, site) if listing else _links(path, text, old, new, site, after)
    return text.encode(spliced(text.body, edits)) if edits else None


def _links(path: str, text: Text, old: str, new: str, site: Site, after: Site) -> Edits:
    edits: Edits = []
    for link in links(path, text.body):
        found = site.resolve(path, link.target) if link.is_internal else None
        if found is None or found.file != old:
            continue
        again = after.resolve(path, link.target)
        if again is None or again.file != new:
            edits.append((link.start, link.end, _fitting(text, rewritten(link.target, path, found, new))))
    return edits


def _entries(path: str, text: Text, old: str, new: str, site: Site) -> Edits:
    edits: Edits = []
    for entry in navigation.entries(path, text.body):
        found = navigation.page_of(site, path, text.body, entry.value)
        if found and found[0] == old:
            value = navigation.renamed(entry.value, found[1], new)
            if value is not None:
                edits.append((entry.start, entry.end, value))
    return edits


def _may_mention(data: bytes, old: str) -> bool:
    """A cheap look before the page is read: does a piece of the name occur at all?"""
    name = stem(old)
    plain = max(re.findall(r"[A-Za-z0-9_-]+", name), key=len, default="")
    if plain.encode() in data:
        return True
    if name not in INDEXES:
        return False
    folder = max(re.findall(r"[A-Za-z0-9_-]+", posixpath.basename(posixpath.dirname(old))), key=len, default="")
    return folder.encode() in data or UNNAMED.search(data) is not None


def _fitting(text: Text, target: str) -> str:
    """Percent-encoded where the file's encoding has no such character."""
    if text.encoding == "utf-8":
        return target
    return "".join(c if c <= "\xff" else percent(c) for c in target)
