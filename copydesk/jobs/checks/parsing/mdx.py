"""Tags and expressions of an MDX page: what its compiler would stumble over. One pass, no recursion."""

import re
from collections.abc import Iterator

Problem = tuple[int, str]
"""Where, and a sentence."""

NEXT = re.compile(r"\\[<{\\]|[<{]")
NAME = re.compile(r"[A-Za-z_$][\w$.:-]*")
NAME_IN_TAG = re.compile(r"\s*([A-Za-z_$][\w$.:-]*)")
IN_TAG = re.compile(r"[\"'{>]|/[ \t\r\n]*>")
IN_BRACES = re.compile(r"[{}\"'`]|/\*|//")
MODULE = re.compile(r"^(?:import|export)[ \t{*\"'].*(?:\n.*\S.*)*", re.M)
TEMPLATE = re.compile(r"\{\{|\{%")


class _Doubt(Exception):
    """The page is written in a way that this scanner does not understand, so it says nothing."""


def problems(prose: str) -> list[Problem]:
    """Of the page without its code, comments and front matter; at most one of each kind, since the rest follows."""
    if ("<" not in prose and "{" not in prose) or TEMPLATE.search(prose) or _has_formulas(prose):
        return []
    try:
        return _scanned(_without_modules(prose))
    except _Doubt:
        return []


def _has_formulas(prose: str) -> bool:
    """TeX between dollars, in which `<` and `{` mean something else."""
    between = prose.split("$")[1:-1]
    return "$$" in prose or any(("<" in piece or "{" in piece) and "\n" not in piece for piece in between)


def _without_modules(prose: str) -> str:
    """Imports and exports are JavaScript up to the next empty line; one with an empty line in its braces is a doubt."""
    if "import" not in prose and "export" not in prose:
        return prose
    pieces, position = [], 0
    for match in MODULE.finditer(prose):
        code = match.group()
        if code.count("{") != code.count("}") or code.count("(") != code.count(")") or code.count("`") % 2:
            raise _Doubt
        pieces += [prose[position : match.start()], re.sub(r"[^\n]", " ", code)]
        position = match.end()
    return "".join(pieces) + prose[position:]


def _scanned(text: str) -> list[Problem]:
    stack: list[tuple[str, int]] = []
    position = 0
    while match := NEXT.search(text, position):
        start = match.start()
        if match.group()[0] == "\\":
            position = match.end()
        elif match.group() == "{":
            end = _braces(text, start)
            if end is None:
                return _open_brace(text, start)
            position = end
        else:
            following = text[start + 1 : start + 2]
            if following.isspace() or following in ("!", ""):
                position = start + 1
                continue
            if not (NAME.match(following) or following in "/>"):
                return [(start, f"`<{following}` starts no tag; write `\\<{following}` or put it in code.")]
            closing = following == "/"
            name, end, closed = _tag(text, start + 1 + closing)
            position = end
            if closing:
                if not stack:
                    return [(start, f"`</{name}>` closes a tag that was never opened.")]
                if stack[-1][0] != name:
                    return [(start, f"`</{name}>` comes before `<{stack[-1][0]}>` is closed.")]
                stack.pop()
            elif not closed:
                stack.append((name, start))
    return [(stack[-1][1], f"`<{stack[-1][0]}>` is never closed.")] if stack else []


def _tag(text: str, position: int) -> tuple[str, int, bool]:
    """Its name, where it ends, and whether it closes itself."""
    named = NAME_IN_TAG.match(text, position)
    name = named[1] if named else ""
    if name.startswith(("http:", "https:", "mailto:")) or (named and text[named.end() : named.end() + 1] in "@,"):
        raise _Doubt  # an address in angle brackets, or types such as Map<K, V>: an error to some, not to all
    position = named.end() if named else position
    while match := IN_TAG.search(text, position):
        mark = match.group()
        if mark == ">":
            return name, match.end(), False
        if mark[0] == "/":
            return name, match.end(), True
        end = _braces(text, match.start()) if mark == "{" else text.find(mark, match.end()) + 1 or None
        if end is None:
            raise _Doubt
        position = end
    raise _Doubt


def _braces(text: str, position: int) -> int | None:
    """Where the expression that opens here ends. Quotes count where they close on their line: prose has apostrophes."""
    depth = 0
    while match := IN_BRACES.search(text, position):
        mark, position = match.group(), match.end()
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
            before = text[match.start() - 1]
            position = match.end() if before in ":\"'" else _line_end(text, position)
        else:
            end = text.find(mark, position)
            if end >= 0 and (mark == "`" or "\n" not in text[position : min(end, position + 2000)]):
                position = end + 1
    return None


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline


def _open_brace(text: str, start: int) -> list[Problem]:
    """Said only where a plain count agrees."""
    rest = text[start:]
    if rest.count("{") <= rest.count("}"):
        return []
    return [(start, "The expression that `{` opens is never closed.")]


def names(prose: str) -> Iterator[str]:
    """What components call their parts: the text that their anchors are made of."""
    for match in TITLES.finditer(prose):
        yield match[1] or match[2] or match[3]


TITLES = re.compile(
    r"\b(?:title|label|name|id|path|query|body|header|heading|question|value|summary)=\{?[\"'`]([^\"'`\n]{1,200})"
    r"|<h[1-6][^<>]*>([^<>]{1,200})|<summary>([^<>]{1,200})"
)
