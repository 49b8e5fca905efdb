"""Finds tags and expressions of an MDX page that its compiler would refuse, in one pass without recursion."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MdxProblem = tuple[int, str]
"""Position and message."""

MARKUP_START_PATTERN = re.compile(r"\\[<{\\]|[<{]")
TAG_NAME_PATTERN = re.compile(r"[A-Za-z_$][\w$.:-]*")
NAME_IN_TAG_PATTERN = re.compile(r"\s*([A-Za-z_$][\w$.:-]*)")
TAG_TOKEN_PATTERN = re.compile(r"[\"'{>]|/[ \t\r\n]*>")
BRACES_TOKEN_PATTERN = re.compile(r"[{}\"'`]|/\*|//")
MODULE_STATEMENT_PATTERN = re.compile(r"^(?:import|export)[ \t{*\"'].*(?:\n.*\S.*)*", re.M)
TEMPLATE_PATTERN = re.compile(r"(?<!=)\{\{|\{%")
"""Matches the syntax of templates, and not the object of an attribute such as `style={{color: "red"}}`."""


class MarkupScan(NamedTuple):
    problems: list[MdxProblem]
    doubt: str = ""
    """Why the page cannot be judged; empty if it was."""


class _NotUnderstood(Exception):
    """The page uses syntax that this scanner does not understand, so no problem is reported."""


def scan_markup(prose: str) -> MarkupScan:
    """Returns at most one problem, since others usually follow from it.

    `prose` is the page without code, comments and front matter.
    """
    if "<" not in prose and "{" not in prose:
        return MarkupScan([])
    if TEMPLATE_PATTERN.search(prose):
        return MarkupScan([], "the page contains macros of a template")
    if _has_formulas(prose):
        return MarkupScan([], "the page contains formulas, in which braces have another meaning")
    try:
        return MarkupScan(_scan(_mask_modules(prose)))
    except _NotUnderstood:
        return MarkupScan([], "the page uses syntax that Copydesk does not understand")


def _has_formulas(prose: str) -> bool:
    """Returns whether the page has TeX between dollar signs, in which `<` and `{` have other meanings."""
    pieces = prose.split("$")[1:-1]
    return "$$" in prose or any(("<" in piece or "{" in piece) and "\n" not in piece for piece in pieces)


def _mask_modules(prose: str) -> str:
    """Masks imports and exports, which are JavaScript up to the next empty line.

    Raises _NotUnderstood if brackets are unbalanced there: the statement may contain an empty line.
    """
    if "import" not in prose and "export" not in prose:
        return prose
    pieces = []
    position = 0
    for match in MODULE_STATEMENT_PATTERN.finditer(prose):
        code = match.group()
        if code.count("{") != code.count("}") or code.count("(") != code.count(")") or code.count("`") % 2:
            raise _NotUnderstood
        pieces += [prose[position : match.start()], re.sub(r"[^\n]", " ", code)]
        position = match.end()
    return "".join(pieces) + prose[position:]


def _scan(text: str) -> list[MdxProblem]:
    stack: list[tuple[str, int]] = []
    position = 0
    while match := MARKUP_START_PATTERN.search(text, position):
        start = match.start()
        if match.group()[0] == "\\":
            position = match.end()
        elif match.group() == "{":
            end = _find_braces_end(text, start)
            if end is None:
                return _report_open_brace(text, start)
            position = end
        else:
            next_char = text[start + 1 : start + 2]
            if next_char.isspace() or next_char in ("!", ""):
                position = start + 1
                continue
            if not (TAG_NAME_PATTERN.match(next_char) or next_char in "/>"):
                return [(start, f"`<{next_char}` does not start a tag; write `\\<{next_char}` or put it in code.")]
            is_closing = next_char == "/"
            name, end, is_self_closing = _scan_tag(text, start + 1 + is_closing)
            position = end
            if is_closing:
                if not stack:
                    return [(start, f"`</{name}>` has no opening tag.")]
                if stack[-1][0] != name:
                    return [(start, f"`</{name}>` appears before `<{stack[-1][0]}>` is closed.")]
                stack.pop()
            elif not is_self_closing:
                stack.append((name, start))
    return [(stack[-1][1], f"`<{stack[-1][0]}>` is never closed.")] if stack else []


def _scan_tag(text: str, position: int) -> tuple[str, int, bool]:
    """Returns the name of a tag, where it ends, and whether it is self-closing."""
    name_match = NAME_IN_TAG_PATTERN.match(text, position)
    name = name_match[1] if name_match else ""
    if name.startswith(("http:", "https:", "mailto:")) or (
        name_match and text[name_match.end() : name_match.end() + 1] in "@,"
    ):
        raise _NotUnderstood  # a URL in angle brackets, or a type such as Map<K, V>: only some compilers refuse it
    position = name_match.end() if name_match else position
    while match := TAG_TOKEN_PATTERN.search(text, position):
        mark = match.group()
        if mark == ">":
            return name, match.end(), False
        if mark[0] == "/":
            return name, match.end(), True
        end = _find_braces_end(text, match.start()) if mark == "{" else text.find(mark, match.end()) + 1 or None
        if end is None:
            raise _NotUnderstood
        position = end
    raise _NotUnderstood


def _find_braces_end(text: str, position: int) -> int | None:
    """Returns where the expression that starts here ends, or None if it is never closed.

    Single and double quotes count only if they close on the same line, because prose contains apostrophes.
    """
    depth = 0
    while match := BRACES_TOKEN_PATTERN.search(text, position):
        mark = match.group()
        position = match.end()
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if not depth:
                return position
        elif mark == "/*":
            position = text.find("*/", position) + 2
            if position == 1:
                return None
        elif mark == "//":
            previous_char = text[match.start() - 1]
            position = match.end() if previous_char in ":\"'" else _line_end(text, position)
        else:
            end = text.find(mark, position)
            if end >= 0 and (mark == "`" or "\n" not in text[position : min(end, position + 2000)]):
                position = end + 1
    return None


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline


def _report_open_brace(text: str, start: int) -> list[MdxProblem]:
    """Reports an unclosed brace, but only if a plain count of the braces agrees."""
    remainder = text[start:]
    if remainder.count("{") <= remainder.count("}"):
        return []
    return [(start, "The expression opened with `{` is never closed.")]


def find_component_titles(prose: str) -> Iterator[str]:
    """Yields the titles of components and their parts, from which anchors are generated."""
    for match in COMPONENT_TITLE_PATTERN.finditer(prose):
        yield match[1] or match[2] or match[3]


COMPONENT_TITLE_PATTERN = re.compile(
    r"\b(?:title|label|name|id|path|query|body|header|heading|question|value|summary)=\{?[\"'`]([^\"'`\n]{1,200})"
    r"|<h[1-6][^<>]*>([^<>]{1,200})|<summary>([^<>]{1,200})"
)
