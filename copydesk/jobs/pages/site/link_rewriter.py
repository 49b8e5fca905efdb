"""Finds the file that a reference leads to, and rewrites the reference when its page or its file has moved.

A rewritten reference is used only if the resolver, which the checks use too, finds the right file with it.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import INDEX_NAMES, PAGE_EXTENSIONS, extension, stem, strip_extension
from copydesk.jobs.pages.parsing.references import LINK_KINDS
from copydesk.jobs.pages.site.include_paths import (
    INCLUDE_PARSERS,
    IncludedFile,
    IncludePath,
    find_included_file,
    parse_include,
)
from copydesk.jobs.pages.site.link_resolver import (
    ASSET_FOLDERS,
    IMPLIED_ENDINGS,
    IMPLIED_ENDINGS_WITHOUT_SITE,
    LinkResolver,
)
from copydesk.jobs.pages.site.page_addresses import NUMBER_PREFIX_PATTERN
from copydesk.jobs.pages.site.paths import PathChange, is_within, list_parent_folders, split_target, strip_folder

RELATIVE_INCLUDES = ("vitepress", "liquid include_relative")
"""Kinds of includes that start from the page's folder, although the resolver searches for them in others too."""
UNENCODED_CHAR_PATTERN = re.compile(r"[A-Za-z0-9/_.~!$&'*+,;=@:-]")


@dataclass(frozen=True)
class LinkStyle:
    """How a link names its file."""

    base: str
    """The folder that the link starts from."""
    omitted_ending: str
    """The end of the file's path that the link leaves out."""
    url_ending: str
    """The `/` or `.html` that the link has in its place."""
    is_relative_to_address: bool = False
    """True if the link is relative to the page's address, as if the page were a folder, not to the page's folder."""


def find_referenced_file(resolver: LinkResolver, page: str, kind: str, target: str) -> str | None:
    """Returns the file that a reference on this page leads to; None if it leads to no file."""
    if kind in INCLUDE_PARSERS:
        include = parse_include(resolver, page, kind, target)
        included = find_included_file(resolver, include) if include else None
        return included.path if included else None
    is_link = kind in LINK_KINDS and not resolver.is_label(page, target)
    file = resolver.resolve(page, split_target(target)[0], is_html=kind == "html") if is_link else None
    return file if file in resolver.files else None


def rewrite_reference(
    before: LinkResolver, after: LinkResolver, kind: str, target: str, page: PathChange, file: PathChange
) -> str:
    """Returns the target that leads from the page to the file after a move; the same target if there is no other."""
    if kind in INCLUDE_PARSERS:
        candidates = _list_new_includes(before, after, kind, target, page, file)
    else:
        candidates = _list_new_links(before, after, target, page, file)
    for candidate in candidates:
        if find_referenced_file(after, page.new, kind, candidate) == file.new:
            return candidate
    return target


def _list_new_includes(
    before: LinkResolver, after: LinkResolver, kind: str, target: str, page: PathChange, file: PathChange
) -> Iterator[str]:
    """Yields the unchanged target, unless it would start from another folder, and new targets."""
    if kind not in RELATIVE_INCLUDES or (
        _starts_from_page(before, page.old, kind, target) == _starts_from_page(after, page.new, kind, target)
    ):
        yield target
    include = parse_include(before, page.old, kind, target)
    included = find_included_file(before, include) if include else None
    if include is None or included is None:
        return
    for ending in dict.fromkeys((included.ending, "")):
        name = _rename_include(include, included, ending, page, file.new)
        if name is not None:
            yield include.prefix + name + include.suffix
            yield f"{include.prefix}./{name}{include.suffix}"  # an import without a leading dot names a package


def _starts_from_page(resolver: LinkResolver, page: str, kind: str, target: str) -> bool:
    """Returns whether an include leads to a file that is found from the page's folder."""
    include = parse_include(resolver, page, kind, target)
    included = find_included_file(resolver, include) if include and not include.prefix else None
    return included is not None and included.base == posixpath.dirname(page)


def _rename_include(
    include: IncludePath, included: IncludedFile, ending: str, page: PathChange, new_file: str
) -> str | None:
    if not new_file.endswith(ending):
        return None
    path = new_file.removesuffix(ending)
    if not include.prefix and included.base == posixpath.dirname(page.old):
        return relative_path(path, posixpath.dirname(page.new), include.name)
    return strip_folder(path, included.base) if is_within(path, included.base) else None


def _list_new_links(
    before: LinkResolver, after: LinkResolver, target: str, page: PathChange, file: PathChange
) -> Iterator[str]:
    """Yields new targets: the unchanged one, in its style, by the file's address, and by the path between the files."""
    old_path, query_and_anchor = split_target(target)
    style = find_link_style(page.old, target, file.old)
    if style is None or old_path.startswith("/") or _keeps_style(style, target, page, file):
        yield target
    if style and style.omitted_ending and _has_id(after, file.new):
        style = None  # the address has the ID in place of the file's name
    file_site = after.site_by_page.get(file.new)
    if style:
        if style.omitted_ending and _is_named_by_folder(after, file.new, style.url_ending):
            style = replace(style, omitted_ending=f"/{posixpath.basename(file.new)}")
        new_target = rewrite_target(target, page.new, style, file.new)
        if style.omitted_ending and file_site is not None and file_site.kind == "docusaurus":
            yield NUMBER_PREFIX_PATTERN.sub(r"\1", split_target(new_target)[0]) + query_and_anchor
        yield new_target
    if old_path.startswith("/"):
        for address in _list_new_addresses(before, after, unquote(old_path), file):
            yield encode_like(address, old_path) + query_and_anchor
    site = before.site_by_page.get(page.old)
    if site is not None and old_path.startswith("@site/") and is_within(file.new, site.folder):
        yield f"@site/{encode_like(strip_folder(file.new, site.folder), old_path)}{query_and_anchor}"
    path = relative_path(file.new, posixpath.dirname(page.new), old_path)
    yield encode_like(path, old_path) + query_and_anchor


def _has_id(resolver: LinkResolver, page: str) -> bool:
    site = resolver.site_by_page.get(page)
    return site is not None and site.kind == "docusaurus" and bool(resolver.pages[page].fields.get("id"))


def _is_named_by_folder(resolver: LinkResolver, file: str, url_ending: str) -> bool:
    """Returns whether an address with this end leads to an index page by its folder, and not by the page's own name."""
    site = resolver.site_by_page.get(file)
    is_index = stem(file) in INDEX_NAMES
    return is_index and (url_ending == "/" or (site is not None and site.kind in ("mkdocs", "docusaurus")))


def _keeps_style(style: LinkStyle, target: str, page: PathChange, file: PathChange) -> bool:
    """Returns whether an unchanged relative link names its file in the same way as before the move.

    If not, the resolver may still find the file, for example as if the page were a folder, but the generator may not.
    """
    new_style = find_link_style(page.new, target, file.new)
    if new_style is None:
        return False
    # The address of an index page is its folder, so that both ways are the same for addresses.
    is_address = extension(split_target(target)[0]) in ("", ".html")
    has_index = any(stem(path) in INDEX_NAMES for path in page)
    return style.is_relative_to_address == new_style.is_relative_to_address or (is_address and has_index)


def _list_new_addresses(before: LinkResolver, after: LinkResolver, old_path: str, file: PathChange) -> Iterator[str]:
    """Yields absolute links to the new address. Keeps what precedes the address, such as a base path or a locale."""
    old_addresses = before.list_page_addresses(file.old)
    new_addresses = after.list_page_addresses(file.new)
    tail = next((ending for ending in (".html", "/") if old_path.endswith(ending)), "")
    name = old_path.removesuffix(tail).strip("/")
    if tail != ".html" and _is_named_by_folder(after, file.new, tail):
        new_addresses = [posixpath.dirname(new) if stem(new) in INDEX_NAMES else new for new in new_addresses]
    for old, new in zip(old_addresses, new_addresses, strict=False):
        if old and (name == old or name.endswith("/" + old)):
            yield f"/{name.removesuffix(old)}{new}".rstrip("/") + (tail or ("" if new else "/"))


def find_link_style(page: str, target: str, file: str) -> LinkStyle | None:
    """Returns how a link on this page names this file; None if it names it in another way than by its path."""
    path = unquote(split_target(target)[0])
    for base in list_base_folders(page, path):
        style = _match_path(base, path, file)
        if style:
            is_relative_to_address = not path.startswith("/") and base != posixpath.dirname(page)
            return replace(style, is_relative_to_address=is_relative_to_address)
    return None


def _match_path(base: str, path: str, file: str) -> LinkStyle | None:
    full_path = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
    full_path = "" if full_path == "." else full_path
    slash = "/" if path.endswith("/") and path.strip("/") else ""
    if full_path == file:
        return LinkStyle(base, "", slash)
    ending = file.removeprefix(full_path) if full_path else f"/{file}"
    if ending in IMPLIED_ENDINGS or ending in IMPLIED_ENDINGS_WITHOUT_SITE:
        return LinkStyle(base, ending, slash)
    if extension(full_path) == ".html" and strip_extension(full_path) == strip_extension(file):
        return LinkStyle(base, extension(file), ".html")
    return None


def list_base_folders(page: str, path: str) -> Iterator[str]:
    """Yields the folders that a link may start from, the most likely first."""
    if path.startswith("/"):
        roots = list(reversed(list_parent_folders(page)))
        yield from roots
        yield from (posixpath.join(root, asset) for root in roots for asset in ASSET_FOLDERS)
        return
    yield posixpath.dirname(page)
    if stem(page) not in INDEX_NAMES and extension(path) not in PAGE_EXTENSIONS:
        yield strip_extension(page)  # relative to the page's address, where the page acts as a folder


def rewrite_target(target: str, page: str, style: LinkStyle, file: str) -> str:
    """Rewrites a link so that it leads from `page` to `file`. Keeps its style, query and anchor."""
    old_path, query_and_anchor = split_target(target)
    short_path = _omit_ending(file, style)
    if old_path.startswith("/"):
        new_path = "/" + (strip_folder(short_path, style.base) if is_within(short_path, style.base) else short_path)
    else:
        is_below_page = style.is_relative_to_address and stem(page) not in INDEX_NAMES
        base = strip_extension(page) if is_below_page else posixpath.dirname(page)
        new_path = relative_path(short_path, base, old_path)
    return encode_like(new_path + (style.url_ending if new_path.strip("./") else ""), old_path) + query_and_anchor


def shift_target(resolver: LinkResolver, target: str, old: str, new: str) -> str:
    """Rewrites a relative link of a moved page whose target is not a file, such as a folder or build output.

    The link leads to the same path as before.
    """
    old_path, query_and_anchor = split_target(target)
    full_path = posixpath.normpath(posixpath.join(posixpath.dirname(old), unquote(old_path)))
    site = resolver.site_by_page.get(old)
    if site is not None and site.kind == "sphinx" and not extension(old_path) and not old_path.startswith("."):
        return target  # it may be a label of MyST or of another project
    names_something = "/" in old_path or extension(old_path) or full_path in resolver.folders
    if old_path.startswith(("/", "@", "~")) or not names_something or full_path.startswith(".."):
        return target
    if posixpath.dirname(old) == posixpath.dirname(new):
        return target
    new_path = relative_path(full_path, posixpath.dirname(new), old_path)
    slash = "/" if old_path.endswith("/") and not new_path.endswith("/") else ""
    return encode_like(new_path, old_path) + slash + query_and_anchor


def relative_path(target_path: str, base: str, old_path: str) -> str:
    path = posixpath.relpath(target_path or ".", base or ".")
    if old_path.startswith("./") and not path.startswith("."):
        return f"./{path}"
    return "./" if path == "." else path


def _omit_ending(file: str, style: LinkStyle) -> str:
    """Returns the file's path without the ending that the link leaves out."""
    if not style.omitted_ending or extension(file) not in (*PAGE_EXTENSIONS, ".html", ".ipynb"):
        return file
    if style.omitted_ending.startswith("/") and stem(file) in INDEX_NAMES:
        return posixpath.dirname(file)
    return strip_extension(file)


def encode_like(path: str, like: str) -> str:
    """Percent-encodes a path in the style of `like`: characters that `like` does not encode are not encoded."""
    keeps_unicode = not re.search(r"%[89A-Fa-f][0-9A-Fa-f]", like)
    plain_chars = set(like) - {"%"}
    return "".join(
        c
        if UNENCODED_CHAR_PATTERN.match(c) or c in plain_chars or (not c.isascii() and keeps_unicode)
        else percent_encode(c)
        for c in path
    )


def percent_encode(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
