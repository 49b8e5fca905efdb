"""Moves a page and updates every reference to it: links, navigation, and the page's own relative links."""

import posixpath
import re
from urllib.parse import unquote

from copydesk.jobs.pages import navigation
from copydesk.jobs.pages.lines import apply_edits
from copydesk.jobs.pages.link_targets import (
    RepositoryPaths,
    encode_like,
    percent_encode,
    relative_path,
    rewrite_target,
    split_target,
)
from copydesk.jobs.pages.links import find_links
from copydesk.jobs.pages.page_types import INDEX_NAMES, extension, is_page, stem
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace

Edits = list[tuple[int, int, str]]
# A link of only dots and slashes leads to a folder's index page without naming it.
UNNAMED_LINK_PATTERN = re.compile(rb"""\]\(<?[./]+[)#?> ]|=\{?["'][./]+["'#?]|\]:[ \t]*[./]+\s""")


def move_page(workspace: Workspace, old: str, new: str) -> list[str]:
    """Moves `old` to `new` and returns the other files that were changed, sorted.

    Atomic: computes every new text before the first write, and makes the only write that can be refused first. Code is
    not changed, and neither are dot folders and files that are not documentation, which no job may change."""
    if workspace.exists(new):
        raise PathRefused(f"{new} already exists.")
    paths = RepositoryPaths(workspace.paths())
    paths_after = paths.with_move(old, new)
    moved_data = _update_own_links(workspace.read(old), old, new, paths, paths_after)
    changed_files = {}
    for path in sorted(filter(workspace.is_documentation, paths.paths - {old})):
        new_data = _update_mentions(workspace, path, old, new, paths, paths_after)
        if new_data is not None:
            changed_files[path] = new_data
    _move_file(workspace, old, new, moved_data)
    for path, data in changed_files.items():
        workspace.write(path, data)
    return list(changed_files)


def _move_file(workspace: Workspace, old: str, new: str, data: bytes) -> None:
    """Moves the file. Deletes the old path first, so that a page can be renamed to the same name in another case."""
    old_data = workspace.read(old)
    workspace.delete(old)
    try:
        workspace.write(new, data)
    except PathRefused:
        workspace.apply({old: old_data})
        raise


def _update_own_links(data: bytes, old: str, new: str, paths: RepositoryPaths, paths_after: RepositoryPaths) -> bytes:
    if not is_page(old) or not is_text(data):
        return data
    text = DecodedText.decode(data)
    edits: Edits = []
    for link in find_links(old, text.body):
        if link.is_internal:
            target = _update_own_link(link.target, old, new, paths, paths_after)
            edits.append((link.start, link.end, _encode_for_file(text, target)))
    return text.encode(apply_edits(text.body, edits))


def _update_own_link(target: str, old: str, new: str, paths: RepositoryPaths, paths_after: RepositoryPaths) -> str:
    resolved = paths.resolve(old, target)
    if resolved is None:
        return _shift_target(target, old, new, paths)
    file = new if resolved.file == old else resolved.file
    resolved_after = paths_after.resolve(new, target)
    return target if resolved_after and resolved_after.file == file else rewrite_target(target, new, resolved, file)


def _shift_target(target: str, old: str, new: str, paths: RepositoryPaths) -> str:
    """Rewrites a relative link whose target is not a file here, such as a folder or build output.

    The link leads to the same path as before.
    """
    old_path, query_and_anchor = split_target(target)
    full_path = posixpath.normpath(posixpath.join(posixpath.dirname(old), unquote(old_path)))
    names_something = "/" in old_path or extension(old_path) or full_path in paths.folders
    if old_path.startswith("/") or not names_something or full_path.startswith(".."):
        return target
    if posixpath.dirname(old) == posixpath.dirname(new):
        return target
    new_path = relative_path(full_path, posixpath.dirname(new), old_path)
    slash = "/" if old_path.endswith("/") and not new_path.endswith("/") else ""
    return encode_like(new_path, old_path) + slash + query_and_anchor


def _update_mentions(
    workspace: Workspace, path: str, old: str, new: str, paths: RepositoryPaths, paths_after: RepositoryPaths
) -> bytes | None:
    """Returns the file's bytes with every reference to the moved page updated, or None if there is no reference."""
    is_nav_file = navigation.is_nav_file(path)
    if not (is_nav_file or is_page(path)) or not workspace.is_readable(path):
        return None
    data = workspace.read(path)
    if not is_text(data) or not _may_mention(data, old):
        return None
    text = DecodedText.decode(data)
    edits = (
        _edit_nav_entries(path, text, old, new, paths)
        if is_nav_file
        else _edit_links(path, text, old, new, paths, paths_after)
    )
    return text.encode(apply_edits(text.body, edits)) if edits else None


def _edit_links(
    path: str, text: DecodedText, old: str, new: str, paths: RepositoryPaths, paths_after: RepositoryPaths
) -> Edits:
    edits: Edits = []
    for link in find_links(path, text.body):
        resolved = paths.resolve(path, link.target) if link.is_internal else None
        if resolved is None or resolved.file != old:
            continue
        resolved_after = paths_after.resolve(path, link.target)
        if resolved_after is None or resolved_after.file != new:
            edits.append(
                (link.start, link.end, _encode_for_file(text, rewrite_target(link.target, path, resolved, new)))
            )
    return edits


def _edit_nav_entries(path: str, text: DecodedText, old: str, new: str, paths: RepositoryPaths) -> Edits:
    edits: Edits = []
    for entry in navigation.find_entries(path, text.body):
        resolved = navigation.resolve_entry(paths, path, text.body, entry.value)
        if resolved and resolved[0] == old:
            value = navigation.rename_entry(entry.value, resolved[1], new)
            if value is not None:
                edits.append((entry.start, entry.end, value))
    return edits


def _may_mention(data: bytes, old: str) -> bool:
    """Returns whether a part of the page's name occurs in the file: a cheap check before the file is parsed."""
    name = stem(old)
    name_part = max(re.findall(r"[A-Za-z0-9_-]+", name), key=len, default="")
    if name_part.encode() in data:
        return True
    if name not in INDEX_NAMES:
        return False
    folder_part = max(re.findall(r"[A-Za-z0-9_-]+", posixpath.basename(posixpath.dirname(old))), key=len, default="")
    return folder_part.encode() in data or UNNAMED_LINK_PATTERN.search(data) is not None


def _encode_for_file(text: DecodedText, target: str) -> str:
    """Percent-encodes the characters that the file's encoding does not have."""
    if text.encoding == "utf-8":
        return target
    return "".join(c if c <= "\xff" else percent_encode(c) for c in target)
