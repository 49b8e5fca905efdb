"""Parses navigation files as data, without running them: the pages that they name, with positions.

SUMMARY.md, _sidebar.md and Sphinx's tables of contents consist of references and are parsed as pages.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import yaml

from copydesk.jobs.pages.lines import Span
from copydesk.jobs.pages.parsing.js_tokens import mask_comments, tokenize
from copydesk.jobs.pages.parsing.page_facts import PageProblem
from copydesk.jobs.pages.parsing.yaml_reader import compose_or_none, find_scalar_span, iter_scalars
from copydesk.jobs.pages.site.generators import VITEPRESS_CONFIG_PATTERN

NAVIGATION_RULE = "navigation"
MAX_NAV_FILE_CHARS = 4_000_000
MAX_NESTING_DEPTH = 200
"""Maximum number of nested brackets."""
# A string in a list may name a page, except in these lists; any other string must be the value of one of PAGE_KEYS.
NON_PAGE_LIST_KEYS = {"tags", "keywords", "versions", "languages", "fonts", "colors", "contexts", "options", "examples"}
PAGE_KEYS = {"id", "page", "href", "root", "link", "path", "to", "destination", "file"}
NON_PAGE_VALUE_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\s*$")
API_OPERATION_PATTERN = re.compile(r"(?:\S+\s+)?(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|TRACE|WEBHOOK|webhook)\s")
# Syntax that makes a script more than a literal, so that its strings may have any meaning.
COMPUTED_SCRIPT_PATTERN = re.compile(
    r"\.\.\.|\brequire\s*\(|=>|\bfunction\b|`|\bimport\s*\(|\.map\(|\.concat\(|\?\s*\[|\bprocess\."
)
NAV_PLUGIN_PATTERN = re.compile(
    r"awesome|literate-nav|section-index|\bblog\b|not_in_nav|exclude_docs|^INHERIT:|techdocs", re.M
)


class NavEntry(NamedTuple):
    """A value that names a page, with or without slash and extension."""

    value: str
    line: int
    span: Span | None
    """Where the value is written; None if it is not written literally."""
    is_listed: bool
    """True if the entry is in a menu; False if it is a redirect or another string that may name a page."""


@dataclass(frozen=True)
class NavFile:
    entries: tuple[NavEntry, ...] = ()
    """In the order of the file. None is listed if the file is computed and cannot be read reliably."""
    is_complete: bool = False
    """True if every page is listed explicitly: no pattern, plugin or other file adds pages."""
    problems: tuple[PageProblem, ...] = ()

    @property
    def listed(self) -> tuple[NavEntry, ...]:
        return tuple(entry for entry in self.entries if entry.is_listed)


UNREADABLE_NAV_FILE = NavFile()


class NestingTooDeep(Exception):
    """The file is nested deeper than any real navigation."""


def is_nav_file(path: str) -> bool:
    return find_nav_parser(path) is not None


def parse_nav_file(path: str, text: str) -> NavFile:
    parser = find_nav_parser(path)
    try:
        return parser(text) if parser and len(text) <= MAX_NAV_FILE_CHARS else UNREADABLE_NAV_FILE
    except NestingTooDeep:
        return UNREADABLE_NAV_FILE


def find_nav_parser(path: str) -> Callable[[str], NavFile] | None:
    name = posixpath.basename(path)
    if name in ("docs.json", "mint.json"):
        return _parse_mintlify
    if name in ("mkdocs.yml", "mkdocs.yaml"):
        return _parse_mkdocs
    if name == "_toc.yml":
        return _parse_toc
    if "sidebars." in name and re.fullmatch(r"sidebars\.(?:[cm]?[jt]s|json)|version-.+-sidebars\.json", name):
        return partial(_parse_sidebars, name.endswith(".json"))
    return _parse_vitepress if ".vitepress/" in path and VITEPRESS_CONFIG_PATTERN.search(path) else None


class NavString(NamedTuple):
    """A string of JSON or of a JavaScript literal."""

    keys: tuple[str, ...]
    """The keys above it. A string in a list is below the list's key."""
    bracket: str
    """`[` in a list, `{` in an object."""
    line: int
    value: str
    span: Span

    @property
    def key(self) -> str:
        return self.keys[-1] if self.keys else ""

    @property
    def may_name_page(self) -> bool:
        is_page_key = self.key not in NON_PAGE_LIST_KEYS if self.bracket == "[" else self.key in PAGE_KEYS
        return is_page_key and NON_PAGE_VALUE_PATTERN.match(self.value) is None


def _build_entries(text: str, is_listed: Callable[[NavString], bool]) -> tuple[NavEntry, ...]:
    strings = ((each, is_listed(each)) for each in find_strings(text))
    return tuple(
        NavEntry(each.value, each.line, each.span, listed) for each, listed in strings if listed or each.may_name_page
    )


def _parse_mintlify(text: str) -> NavFile:
    data, problems = _load_json(text)
    is_readable = isinstance(data, dict) and "navigation" in data

    def is_listed(string: NavString) -> bool:
        names_page = string.key == ("pages" if string.bracket == "[" else "root") and "navigation" in string.keys
        is_page = "://" not in string.value and not API_OPERATION_PATTERN.match(string.value)
        return is_readable and names_page and is_page

    return NavFile(_build_entries(text, is_listed), is_readable and '"$ref"' not in text, problems)


def _load_json(text: str) -> tuple[Any, tuple[PageProblem, ...]]:
    """Returns the value and the problem of a text that is not valid JSON. The value is None if it cannot be read."""
    try:
        return json.loads(text), ()
    except json.JSONDecodeError as error:
        message = f"The file is not valid JSON: {error.msg.lower()}."
        return None, (PageProblem(NAVIGATION_RULE, error.lineno, message),)
    except (ValueError, RecursionError):
        return None, ()


def _parse_sidebars(is_json: bool, text: str) -> NavFile:
    problems: tuple[PageProblem, ...] = ()
    if is_json:
        data, problems = _load_json(text)
        is_readable = data is not None
    else:
        text = mask_comments(text)
        is_readable = COMPUTED_SCRIPT_PATTERN.search(text) is None

    def is_listed(string: NavString) -> bool:
        if string.bracket == "{":
            names_page = string.key == "id"
        else:
            names_page = bool(string.keys) and string.key not in NON_PAGE_LIST_KEYS
        return is_readable and names_page and "customProps" not in string.keys

    return NavFile(_build_entries(text, is_listed), is_readable and "autogenerated" not in text, problems)


def _parse_vitepress(text: str) -> NavFile:
    """Parses the links of a literal `sidebar`. A sidebar that is computed or has its own `base` lists nothing."""
    text = mask_comments(text)
    sidebar_start = text.find("sidebar")
    is_readable = sidebar_start >= 0 and not re.search(r"rewrites|\bbase\s*:", text[sidebar_start:])
    is_readable = is_readable and "[slug]" not in text

    def is_listed(string: NavString) -> bool:
        is_page = "://" not in string.value and string.value[:1] == "/"
        return is_readable and string.bracket == "{" and string.key == "link" and "sidebar" in string.keys and is_page

    return NavFile(_build_entries(text, is_listed))


def _parse_mkdocs(text: str) -> NavFile:
    try:
        root = compose_or_none(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "").split())
        return NavFile(problems=(PageProblem(NAVIGATION_RULE, line, f"The file is not valid YAML: {reason}."),))
    except yaml.YAMLError:
        return UNREADABLE_NAV_FILE
    nav = _find_value(root, "nav")
    if nav is None:
        return UNREADABLE_NAV_FILE
    is_list = isinstance(nav, yaml.SequenceNode)
    entries = []
    is_complete = is_list and NAV_PLUGIN_PATTERN.search(text) is None
    for _, node in iter_scalars(nav):
        value = node.value.strip()
        if node.tag.startswith("!") or value.endswith("/") or "*" in value:
            is_complete = False
        elif value and "://" not in value and not value.startswith(("#", "mailto:")):
            is_listed = is_list and not value.startswith(("/", ".."))
            entries.append(_build_yaml_entry(text, node, value.partition("#")[0], is_listed))
    return NavFile(tuple(entries), is_complete)


def _parse_toc(text: str) -> NavFile:
    try:
        root = compose_or_none(text)
    except yaml.YAMLError:
        return UNREADABLE_NAV_FILE
    if root is None:
        return UNREADABLE_NAV_FILE
    entries = []
    is_complete = True
    for keys, node in iter_scalars(root):
        if keys[-1:] in (("file",), ("root",)) and "://" not in node.value:
            entries.append(_build_yaml_entry(text, node, node.value, is_listed=True))
        elif keys[-1:] == ("glob",):
            is_complete = False
    return NavFile(tuple(entries), is_complete)


def _build_yaml_entry(text: str, node: yaml.ScalarNode, value: str, is_listed: bool) -> NavEntry:
    span = find_scalar_span(text, node)
    if span is not None:
        start = span[0] + node.value.index(value)
        span = (start, start + len(value))
    return NavEntry(value, node.start_mark.line + 1, span, is_listed)


def _find_value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if getattr(name, "value", None) == key), None)


def find_strings(text: str) -> Iterator[NavString]:
    """Yields the strings of JSON or of JavaScript literals, except keys. Raises NestingTooDeep."""
    stack: list[tuple[str, tuple[str, ...]]] = [("", ())]
    key = previous = ""
    line = 1
    position = 0
    pending: NavString | None = None
    for start, end in tokenize(text):
        lexeme = text[start:end]
        if lexeme.startswith(("//", "/*")):
            continue
        line += text.count("\n", position, start)
        position = start
        bracket, keys = stack[-1]
        if pending is not None and lexeme != ":":
            yield pending
        pending = None
        if lexeme in "{[":
            if len(stack) > MAX_NESTING_DEPTH:
                raise NestingTooDeep
            stack.append((lexeme, (*keys, key) if key else keys))
            key = ""
        elif lexeme in "}]":
            if len(stack) > 1:
                stack.pop()
            key = ""
        elif lexeme == ",":
            key = ""
        elif lexeme == ":":
            key = previous.strip("\"'")
        elif lexeme[0] in "\"'" and "\\" not in lexeme and (bracket == "[" or key):
            string_keys = (*keys, key) if key else keys
            pending = NavString(string_keys, bracket, line, lexeme[1:-1], (start + 1, end - 1))
        previous = lexeme
