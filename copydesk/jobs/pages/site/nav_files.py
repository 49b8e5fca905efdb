"""Parses navigation files as data, without running them: the pages that they name, with positions.

SUMMARY.md, _sidebar.md and Sphinx's tables of contents consist of references and are parsed as pages.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import yaml

from copydesk.jobs.pages.lines import Span
from copydesk.jobs.pages.parsing.js_tokens import mask_comments, tokenize
from copydesk.jobs.pages.parsing.page_facts import PageProblem
from copydesk.jobs.pages.parsing.yaml_reader import compose_or_none, find_scalar_span, iter_scalars
from copydesk.jobs.pages.site.generators import VITEPRESS_CONFIG_PATTERN, ConfigPart

NAVIGATION_RULE = "navigation"
MAX_NAV_FILE_CHARS = 4_000_000
MAX_NESTING_DEPTH = 200
"""Maximum number of nested brackets."""
# A string in a list may name a page, except in these lists; any other string must be the value of one of PAGE_KEYS.
NON_PAGE_LIST_KEYS = {"tags", "keywords", "versions", "languages", "fonts", "colors", "contexts", "options", "examples"}
PAGE_KEYS = {"id", "page", "href", "root", "link", "path", "to", "destination", "file"}
LINK_KEYS = ("to", "href", "link")
NON_PAGE_VALUE_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\s*$")
API_OPERATION_PATTERN = re.compile(r"(?:\S+\s+)?(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|TRACE|WEBHOOK|webhook)\s")
# Syntax that makes a script more than a literal, so that its strings may have any meaning.
COMPUTED_SCRIPT_PATTERN = re.compile(
    r"\.\.\.|\brequire\s*\(|=>|\bfunction\b|`|\bimport\s*\(|\.map\(|\.concat\(|\?\s*\[|\bprocess\."
)
SIDEBAR_CONSTANT_PATTERN = re.compile(r"\bconst\s+\w*[sS]idebar\w*\s*(?::[^=\n]{1,200})?=(?!=|>)(?=\s*[\[{])")
SCRIPT_PAGE_PATTERN = re.compile(r"(?:^|/)src/pages/(?:[^/]+/)*[^/_][^/]*\.[jt]sx?$")
SCRIPT_LINK_PATTERN = re.compile(r"\b(?:to|href)=\{?[\"'](/(?!/)[^\"'\s{}$]*)[\"']")
COMPUTED_MENU_PATTERN = re.compile(r"\b(?:sidebar|items)[\"']?\s*:\s*(?:[\w.]+\(|await\b|\.\.\.)")
NAV_PLUGIN_PATTERN = re.compile(
    r"\bawesome-(?:pages|nav)\b|literate-nav|section-index|\bblog\b|not_in_nav|exclude_docs|^INHERIT:|techdocs", re.M
)


class NavEntry(NamedTuple):
    """A value that names a page, with or without slash and extension."""

    value: str
    line: int
    span: Span | None
    """Where the value is written; None if it is not written literally."""
    is_listed: bool
    """True if the entry is in a menu; False if it is a redirect or another string that may name a page."""
    base: str = ""
    """What VitePress puts before the value."""
    is_link: bool = False
    """True if the value is an address, such as a link of the site's header or footer."""

    @property
    def full_value(self) -> str:
        return self.base + self.value


@dataclass(frozen=True)
class NavFile:
    entries: tuple[NavEntry, ...] = ()
    """In the order of the file. None is listed if the file is computed and cannot be read reliably."""
    is_complete: bool = False
    """True if every page is listed explicitly: no pattern, plugin or other file adds pages."""
    problems: tuple[PageProblem, ...] = ()
    has_menu: bool = True
    """False if the file has only links."""
    navigation_doubt: str = ""
    """Why the entries of the menu are not all known; empty if they are."""
    orphan_doubt: str = ""
    """Why the menu may list other pages too; empty if it does not."""

    @property
    def listed(self) -> tuple[NavEntry, ...]:
        return tuple(entry for entry in self.entries if entry.is_listed)

    @property
    def links(self) -> tuple[NavEntry, ...]:
        return tuple(entry for entry in self.entries if entry.is_link)


UNREADABLE_NAV_FILE = NavFile()
TOO_LARGE_DOUBT = "the navigation file is too large or nested too deeply"
COMPUTED_DOUBT = "the menu is computed by a program"


class NestingTooDeep(Exception):
    """The file is nested deeper than any real navigation."""


def is_nav_file(path: str) -> bool:
    return find_nav_parser(path) is not None


def parse_nav_file(path: str, text: str, part: ConfigPart | None = None) -> NavFile:
    """Parses a navigation file. `part` says what it contains if its name does not."""
    parser = find_nav_parser(path) if part is None else _find_part_parser(part)
    unreadable = NavFile(navigation_doubt=TOO_LARGE_DOUBT, orphan_doubt=TOO_LARGE_DOUBT)
    try:
        return parser(text) if parser and len(text) <= MAX_NAV_FILE_CHARS else unreadable
    except NestingTooDeep:
        return unreadable


def _find_part_parser(part: ConfigPart) -> Callable[[str], NavFile] | None:
    if part.role == "mintlify":
        return partial(_parse_mintlify, keys=part.keys)
    if part.role == "sidebars":
        return partial(_parse_sidebars, part.path.endswith(".json"))
    return _parse_vitepress if part.role == "vitepress" else None


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
    if name.startswith("docusaurus.config."):
        return _parse_docusaurus_config
    if "src/pages/" in path and SCRIPT_PAGE_PATTERN.search(path) and ".test." not in name:
        return _parse_script_links
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
    base: str = ""
    """The `base` of the objects around it."""

    @property
    def key(self) -> str:
        return self.keys[-1] if self.keys else ""

    @property
    def is_site_link(self) -> bool:
        """Returns whether a menu of Docusaurus or VitePress links to this address."""
        return self.bracket == "{" and self.key in LINK_KEYS and self.value[:1] == "/" and self.value[:2] != "//"

    @property
    def may_name_page(self) -> bool:
        is_page_key = self.key not in NON_PAGE_LIST_KEYS if self.bracket == "[" else self.key in PAGE_KEYS
        return is_page_key and NON_PAGE_VALUE_PATTERN.match(self.value) is None


def _build_entries(strings: Iterable[NavString], is_listed: Callable[[NavString], bool]) -> tuple[NavEntry, ...]:
    judged = ((each, is_listed(each)) for each in strings)
    return tuple(
        NavEntry(
            each.value, each.line, each.span, listed, each.base if listed else "", not listed and each.is_site_link
        )
        for each, listed in judged
        if listed or each.may_name_page
    )


def _parse_mintlify(text: str, keys: tuple[str, ...] = ()) -> NavFile:
    """Parses docs.json, or a file that it refers to below these keys. `$ref` names other files, which are merged."""
    data, problems = _load_json(text)
    is_readable = data is not None and (bool(keys) or (isinstance(data, dict) and "navigation" in data))

    def is_listed(string: NavString) -> bool:
        names_page = string.key == ("pages" if string.bracket == "[" else "root") and "navigation" in string.keys
        is_page = "://" not in string.value and not API_OPERATION_PATTERN.match(string.value)
        return is_readable and names_page and is_page

    strings = (each._replace(keys=(*keys, *each.keys)) for each in find_strings(text) if each.key != "$ref")
    entries = tuple(entry._replace(is_link=False) for entry in _build_entries(strings, is_listed))
    return NavFile(entries, is_readable, problems)


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

    doubt = "" if is_readable or problems else COMPUTED_DOUBT
    entries = _build_entries(find_strings(text), is_listed)
    is_complete = is_readable and "autogenerated" not in text
    return NavFile(entries, is_complete, problems, navigation_doubt=doubt, orphan_doubt=doubt)


def _parse_docusaurus_config(text: str) -> NavFile:
    """Parses the links of the header and the footer of a Docusaurus site."""
    entries = _build_entries(find_strings(mask_comments(text)), lambda string: False)
    return NavFile(tuple(entry for entry in entries if entry.is_link), has_menu=False)


def _parse_script_links(text: str) -> NavFile:
    """Parses the links of a page that is written as a React component."""
    text = mask_comments(text)
    entries = (
        NavEntry(match[1], text.count("\n", 0, match.start()) + 1, match.span(1), is_listed=False, is_link=True)
        for match in SCRIPT_LINK_PATTERN.finditer(text)
    )
    return NavFile(tuple(entries), has_menu=False)


def _parse_vitepress(text: str) -> NavFile:
    """Parses the links of a literal `sidebar`. Links that a function returns have an unknown `base`."""
    text = SIDEBAR_CONSTANT_PATTERN.sub(lambda match: "sidebar:".ljust(len(match.group())), mask_comments(text))
    has_sidebar = "sidebar" in text
    is_readable = has_sidebar and "rewrites" not in text and "[slug]" not in text
    strings = tuple(find_strings(text))

    def is_listed(string: NavString) -> bool:
        is_page = "://" not in string.value and (string.base + string.value)[:1] == "/"
        return is_readable and string.bracket == "{" and string.key == "link" and "sidebar" in string.keys and is_page

    entries = _build_entries(strings, is_listed)
    is_computed = COMPUTED_MENU_PATTERN.search(text) is not None or any(
        each.key == "link" and "sidebar" in each.keys and NON_PAGE_VALUE_PATTERN.match(each.value) is None
        for each in strings
        if not is_listed(each)
    )
    doubt = COMPUTED_DOUBT if has_sidebar and (is_computed or not any(each.is_listed for each in entries)) else ""
    return NavFile(entries, navigation_doubt=doubt, orphan_doubt=doubt)


def _parse_mkdocs(text: str) -> NavFile:
    try:
        root = compose_or_none(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "").split())
        return NavFile(problems=(PageProblem(NAVIGATION_RULE, line, f"The file is not valid YAML: {reason}."),))
    except yaml.YAMLError:
        return UNREADABLE_NAV_FILE
    entries = [
        _build_yaml_entry(text, node, node.value.partition("#")[0], is_listed=False)
        for keys, node in (iter_scalars(root) if root is not None and "redirect_maps" in text else ())
        if "redirect_maps" in keys and node.value and "://" not in node.value
    ]
    nav = _find_value(root, "nav")
    if nav is None:
        return NavFile(tuple(entries))
    is_list = isinstance(nav, yaml.SequenceNode)
    plugin = NAV_PLUGIN_PATTERN.search(text)
    orphan_doubt = f"{plugin.group().rstrip(':')} in the configuration adds or hides pages" if plugin else ""
    is_complete = is_list and plugin is None
    for _, node in iter_scalars(nav):
        value = node.value.strip()
        if node.tag.startswith("!") or value.endswith("/") or "*" in value:
            is_complete = False
            orphan_doubt = orphan_doubt or "a plugin builds a part of the navigation"
        elif value and "://" not in value and not value.startswith(("#", "mailto:")):
            is_listed = is_list and not value.startswith("/")
            entries.append(_build_yaml_entry(text, node, value.partition("#")[0], is_listed))
    return NavFile(tuple(entries), is_complete, orphan_doubt=orphan_doubt)


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
    doubt = "" if is_complete else "the table of contents lists pages by pattern"
    return NavFile(tuple(entries), is_complete, orphan_doubt=doubt)


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
    stack: list[tuple[str, tuple[str, ...], str]] = [("", (), "")]
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
        bracket, keys, base = stack[-1]
        if pending is not None and lexeme != ":":
            yield pending
        pending = None
        if lexeme in "{[":
            if len(stack) > MAX_NESTING_DEPTH:
                raise NestingTooDeep
            stack.append((lexeme, (*keys, key) if key else keys, base))
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
            if key == "base" and bracket == "{" and "sidebar" in keys:
                stack[-1] = (bracket, keys, lexeme[1:-1])
            pending = NavString(string_keys, bracket, line, lexeme[1:-1], (start + 1, end - 1), base)
        previous = lexeme
