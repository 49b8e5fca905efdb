"""The files that name a site's pages for its menus: docs.json, mint.json, mkdocs.yml, sidebars.js and their like.

SUMMARY.md, _sidebar.md and Sphinx's tables of contents are made of links and are read as such."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from copydesk.jobs.pages import front_matter as frontmatter
from copydesk.jobs.pages.js_tokens import tokens
from copydesk.jobs.pages.lines import Span
from copydesk.jobs.pages.link_targets import Site, split
from copydesk.jobs.pages.page_types import PAGES, extension, without_extension

LITERALS = {"docs.json", "mint.json", *(f"sidebars.{kind}" for kind in ("js", "ts", "cjs", "mjs", "json"))}
YAMLS = {"mkdocs.yml", "mkdocs.yaml", "_toc.yml"}
# A string in a list names a page unless the list is one of these; elsewhere it must be the value of one of those.
OTHER_LISTS = {"tags", "keywords", "versions", "languages", "fonts", "colors", "contexts", "options", "examples"}
PAGE_KEYS = {"id", "page", "href", "root", "link", "path", "to", "destination", "file"}
NO_PAGE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\s*$")


@dataclass(frozen=True)
class Named:
    """`value` stands at body[start:end]; it names a page, with or without slash and extension."""

    start: int
    end: int
    value: str


def is_navigation(path: str) -> bool:
    name = posixpath.basename(path)
    return name in LITERALS or name in YAMLS


def entries(path: str, body: str) -> list[Named]:
    spans = _in_yaml(body) if posixpath.basename(path) in YAMLS else _in_literals(body)
    return [Named(start, end, body[start:end]) for start, end in spans if not NO_PAGE.match(body[start:end])]


def page_of(site: Site, navigation: str, body: str, value: str) -> tuple[str, str] | None:
    """The file that an entry names, and the folder it is named from."""
    written = split(value)[0].strip("/")
    for base in _bases(navigation, body):
        joined = posixpath.normpath(posixpath.join(base, written))
        for file in (joined, *(joined + kind for kind in PAGES)):
            if file in site.paths:
                return file, base
    return None


def renamed(value: str, base: str, file: str) -> str | None:
    """The entry for the file's new place in the style of the old one; None where its folder cannot name that place."""
    if base and not file.startswith(base + "/"):
        return None
    written, suffix = split(value)
    named = file[len(base) + 1 :] if base else file
    if extension(written) not in PAGES:
        named = without_extension(named) if extension(named) in PAGES else named
    slash = "/" if written.startswith("/") else ""
    return slash + named + ("/" if written.endswith("/") else "") + suffix


def _bases(navigation: str, body: str) -> list[str]:
    folder = posixpath.dirname(navigation)
    below = "docs"
    if posixpath.basename(navigation) in YAMLS:
        declared = re.search(r"^docs_dir:[ \t]*[\"']?([^\s\"'#]+)", body, re.M)
        below = declared[1].strip("/") if declared else below
        return [posixpath.normpath(posixpath.join(folder, below)), folder]
    return [folder, posixpath.join(folder, below)]


def _in_yaml(body: str) -> Iterator[Span]:
    """The scalars below `nav` (MkDocs), or the whole of a Jupyter Book's table; custom tags are never constructed."""
    try:
        root = frontmatter.compose(body)
    except frontmatter.UNREADABLE:
        return
    if not isinstance(root, yaml.MappingNode):
        return
    top = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    nodes = [top["nav"]] if "nav" in top else [root] if {"root", "chapters", "parts"} & set(top) else []
    seen: set[int] = set()  # an alias is the same node once more, and may lead back to itself
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            nodes += [value for key, value in node.value if key.value not in ("title", "caption", "format")]
        elif isinstance(node, yaml.ScalarNode) and node.style in (None, "", "'", '"'):
            quote = 1 if node.style else 0
            yield node.start_mark.index + quote, node.end_mark.index - quote


def _in_literals(body: str) -> Iterator[Span]:
    """Strings of JSON, or of the object literals of JavaScript, by the key they stand under."""
    stack: list[tuple[str, str]] = []
    key = last = ""
    for start, end in tokens(body):
        piece = body[start:end]
        inside, owner = stack[-1] if stack else ("", "")
        if piece.startswith(("//", "/*")):
            continue
        if piece in "{[":
            stack.append((piece, key if inside == "{" else owner))
        elif piece in "}]" and stack:
            stack.pop()
        elif piece[0] in "\"'" and "\\" not in piece and _names_a_page(inside, owner, key):
            yield start + 1, end - 1
        if piece == ":":
            key = last.strip("\"'")
        elif piece in "{[]},":
            key = ""
        last = piece


def _names_a_page(inside: str, owner: str, key: str) -> bool:
    return owner not in OTHER_LISTS if inside == "[" else key in PAGE_KEYS
