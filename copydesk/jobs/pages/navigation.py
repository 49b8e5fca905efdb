"""Finds and renames pages in navigation files: docs.json, mint.json, mkdocs.yml, sidebars.js and similar.

SUMMARY.md, _sidebar.md and Sphinx's tables of contents consist of links and are parsed as links."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from copydesk.jobs.pages import front_matter
from copydesk.jobs.pages.js_tokens import tokenize
from copydesk.jobs.pages.lines import Span
from copydesk.jobs.pages.link_targets import RepositoryPaths, split_target
from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension, strip_extension

LITERAL_NAV_FILES = {"docs.json", "mint.json", *(f"sidebars.{kind}" for kind in ("js", "ts", "cjs", "mjs", "json"))}
YAML_NAV_FILES = {"mkdocs.yml", "mkdocs.yaml", "_toc.yml"}
# A string in a list names a page, except in these lists; any other string must be the value of one of PAGE_KEYS.
NON_PAGE_LIST_KEYS = {"tags", "keywords", "versions", "languages", "fonts", "colors", "contexts", "options", "examples"}
PAGE_KEYS = {"id", "page", "href", "root", "link", "path", "to", "destination", "file"}
NON_PAGE_VALUE_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\s*$")


@dataclass(frozen=True)
class NavEntry:
    """An entry that names a page, with or without slash and extension. `value` is body[start:end]."""

    start: int
    end: int
    value: str


def is_nav_file(path: str) -> bool:
    name = posixpath.basename(path)
    return name in LITERAL_NAV_FILES or name in YAML_NAV_FILES


def find_entries(path: str, body: str) -> list[NavEntry]:
    spans = _find_yaml_values(body) if posixpath.basename(path) in YAML_NAV_FILES else _find_literal_values(body)
    return [
        NavEntry(start, end, body[start:end])
        for start, end in spans
        if not NON_PAGE_VALUE_PATTERN.match(body[start:end])
    ]


def resolve_entry(paths: RepositoryPaths, nav_path: str, body: str, value: str) -> tuple[str, str] | None:
    """Returns the file that an entry names and the folder that the entry is relative to, or None."""
    name = split_target(value)[0].strip("/")
    for base in _list_base_folders(nav_path, body):
        full_path = posixpath.normpath(posixpath.join(base, name))
        for file in (full_path, *(full_path + kind for kind in PAGE_EXTENSIONS)):
            if file in paths.paths:
                return file, base
    return None


def rename_entry(value: str, base: str, file: str) -> str | None:
    """Returns the entry for the file's new path in the style of the old one, or None if that is outside `base`."""
    if base and not file.startswith(base + "/"):
        return None
    old_name, query_and_anchor = split_target(value)
    new_name = file[len(base) + 1 :] if base else file
    if extension(old_name) not in PAGE_EXTENSIONS:
        new_name = strip_extension(new_name) if extension(new_name) in PAGE_EXTENSIONS else new_name
    leading_slash = "/" if old_name.startswith("/") else ""
    return leading_slash + new_name + ("/" if old_name.endswith("/") else "") + query_and_anchor


def _list_base_folders(nav_path: str, body: str) -> list[str]:
    folder = posixpath.dirname(nav_path)
    docs_folder = "docs"
    if posixpath.basename(nav_path) in YAML_NAV_FILES:
        declared = re.search(r"^docs_dir:[ \t]*[\"']?([^\s\"'#]+)", body, re.M)
        docs_folder = declared[1].strip("/") if declared else docs_folder
        return [posixpath.normpath(posixpath.join(folder, docs_folder)), folder]
    return [folder, posixpath.join(folder, docs_folder)]


def _find_yaml_values(body: str) -> Iterator[Span]:
    """Yields the scalars below `nav` (MkDocs) or of a Jupyter Book's `_toc.yml`. Never constructs custom tags."""
    try:
        root = front_matter.compose_yaml(body)
    except front_matter.YAML_ERRORS:
        return
    if not isinstance(root, yaml.MappingNode):
        return
    top_level = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    pending = (
        [top_level["nav"]] if "nav" in top_level else [root] if {"root", "chapters", "parts"} & set(top_level) else []
    )
    seen: set[int] = set()  # an alias repeats a node, and may form a cycle
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            values = [value for key, value in node.value if key.value not in ("title", "caption", "format")]
            pending += reversed(values)
        elif isinstance(node, yaml.ScalarNode) and node.style in (None, "", "'", '"'):
            quote_width = 1 if node.style else 0
            yield node.start_mark.index + quote_width, node.end_mark.index - quote_width


def _find_literal_values(body: str) -> Iterator[Span]:
    """Yields the strings of JSON or JavaScript object literals whose key says that they name a page."""
    stack: list[tuple[str, str]] = []
    key = previous = ""
    for start, end in tokenize(body):
        lexeme = body[start:end]
        bracket, parent_key = stack[-1] if stack else ("", "")
        if lexeme.startswith(("//", "/*")):
            continue
        if lexeme in "{[":
            stack.append((lexeme, key if bracket == "{" else parent_key))
        elif lexeme in "}]" and stack:
            stack.pop()
        elif lexeme[0] in "\"'" and "\\" not in lexeme and _names_page(bracket, parent_key, key):
            yield start + 1, end - 1
        if lexeme == ":":
            key = previous.strip("\"'")
        elif lexeme in "{[]},":
            key = ""
        previous = lexeme


def _names_page(bracket: str, parent_key: str, key: str) -> bool:
    return parent_key not in NON_PAGE_LIST_KEYS if bracket == "[" else key in PAGE_KEYS
