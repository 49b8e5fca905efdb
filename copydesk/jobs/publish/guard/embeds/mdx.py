"""Finds content that an MDX page loads or runs in its imports and exports, JSX tags and expressions in braces.

Uses a small tokenizer, because there is no MDX parser for Python. It reads left to right, as MDX does: outside tags and
expressions a backtick begins code; inside them it begins a template. Expressions that are not plain count as scripts.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from copydesk.jobs.publish.guard.embeds.css import find_in_css
from copydesk.jobs.publish.guard.embeds.html import LOADING_ATTRIBUTES, find_in_attributes
from copydesk.jobs.publish.guard.embeds.jsx import Expression, Tag, read_expression, read_tag
from copydesk.jobs.publish.guard.embeds.urls import Embed, EmbedKind, find_host, find_urls, shorten

SPECIAL_PATTERN = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    r"|\\.|`+|\{|<(?=[A-Za-z_$>])|^(?:import|export)\b",
    re.M | re.S,
)
IMPORT_PATTERN = re.compile(
    r"import[\w$*{}\s,]{0,1000}(?P<quote>[\"'])(?P<source>[^\"'\n]*)(?P=quote)[ \t]*;?[ \t]*\n*"
)
BLANK_LINE_PATTERN = re.compile(r"(?:\A|\n[ \t]*\n)\Z")
IDENTIFIER_PATTERN = re.compile(r"[A-Za-z_$][\w$]*")
LOCAL_PATH_PATTERN = re.compile(r"[./~@]")
EXPORTED_LITERAL_PATTERN = re.compile(r"export\s+(?:const|let)\s+[\w$]+\s*=\s*(?P<value>[^;]*);?\s*")
PATH_HELPER_PATTERN = re.compile(
    r"(?:useBaseUrl|withBase|require)\(\s*(?:'[\w./@ -]*'|\"[\w./@ -]*\")\s*\)(?:\.default)?"
)


@dataclass
class MdxReader:
    """Collects the embeds and links of a page. `imported_names` are names that the page imports from local files."""

    text: str
    embeds: list[Embed] = field(default_factory=list)
    imported_names: set[str] = field(default_factory=set)
    unclosed_tags: set[str] = field(default_factory=set)
    fences: list[tuple[int, int]] = field(default_factory=list)
    """The first line of each fence and the line after its last, counted from 0."""
    has_closed_fences: bool = True
    """False if a fence is unclosed, so that it is unclear what is code."""

    def __post_init__(self) -> None:
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def read(self) -> list[Embed]:
        position = 0
        while match := SPECIAL_PATTERN.search(self.text, position):
            position = self._read_match(match)
        return self.embeds

    def _read_match(self, match: re.Match[str]) -> int:
        start = match.start()
        mark = match.group()
        if match["fence"] is not None:
            return self._skip_fence(match)
        if mark.startswith("\\"):
            return match.end()
        if mark.startswith("`"):
            return self._skip_code(match)
        if mark == "{":
            expression = read_expression(self.text, start)
            self._read_expression(expression, start)
            return expression.end
        if mark == "<":
            tag = read_tag(self.text, start)
            self._read_tag(tag, start)
            self._read_raw_text(tag)
            return tag.end
        return self._read_module(match)

    def _skip_code(self, match: re.Match[str]) -> int:
        """Skips a code span within one line. An unmatched backtick is plain text."""
        stop = self.text.find("\n", match.end())
        line = self.text[match.end() : stop if stop >= 0 else len(self.text)][:2000]
        closing = re.search(rf"(?<!`){match.group()}(?!`)", line)
        return match.end() + closing.end() if closing else match.end()

    def _skip_fence(self, match: re.Match[str]) -> int:
        mark = match["fence"]
        info = match["info"]
        if not self.has_closed_fences or (mark[0] == "`" and "`" in info):
            return match.end("fence")
        closing = re.compile(rf"^[ \t>]*{mark}{mark[0]}*[ \t]*$", re.M).search(self.text, match.end())
        first = self._line_at(match.start())
        last = self._line_at(closing.end()) if closing else 0
        if closing is None or not self._is_fence_in_block(self.text[match.start() : match.start("fence")], first, last):
            self.has_closed_fences = False
            return match.end("fence")
        self.fences.append((first - 1, last))
        content = self.text[match.end() : closing.start()]
        if re.search(r"\blive\b", info):
            self._add("script", shorten(content), first)
        elif info.startswith("mermaid"):
            for url in find_urls(content):
                self._add("image", url, first)
        return closing.end()

    def _is_fence_in_block(self, prefix: str, first: int, last: int) -> bool:
        """Returns whether a fence stays in the list item or quotation where it begins.

        The end of that block would also end the fence.
        """
        column = len(prefix.expandtabs(4))
        quotes = prefix.count(">")
        for line in self.text[
            self._line_starts[first] : self._line_starts[last] if last < len(self._line_starts) else None
        ].split("\n"):
            start = line[: len(line) - len(line.lstrip(" \t>"))]
            if line.strip() and (start.count(">") < quotes or (not quotes and len(start.expandtabs(4)) < column)):
                return False
        return True

    def _read_module(self, match: re.Match[str]) -> int:
        """Reads imports and exports, which begin a block and extend to the next empty line."""
        start = position = match.start()
        if (statement := IMPORT_PATTERN.match(self.text, start)) and find_host(statement["source"]):
            self._read_import(statement)
        if not BLANK_LINE_PATTERN.search(self.text[max(0, start - 200) : start]):
            return match.end()
        stop = self.text.find("\n\n", start)
        stop = len(self.text) if stop < 0 else stop
        while (statement := IMPORT_PATTERN.match(self.text, position, stop + 1)) is not None:
            self._read_import(statement)
            position = statement.end()
        remainder = self.text[position:stop]
        if re.match(r"import\b|export\b", remainder):
            self._read_statement(remainder, self._line_at(position))
            return stop
        return max(position, match.end())

    def _read_import(self, statement: re.Match[str]) -> None:
        source = statement["source"]
        if find_host(source) or source.startswith("data:"):
            self._add("script", source, self._line_at(statement.start()))
        elif LOCAL_PATH_PATTERN.match(source):
            self.imported_names.update(
                IDENTIFIER_PATTERN.findall(self.text, statement.start(), statement.start("quote"))
            )

    def _read_statement(self, text: str, line: int) -> None:
        literal = EXPORTED_LITERAL_PATTERN.fullmatch(text)
        if literal is None or not read_expression("{" + literal["value"] + "}", 0).is_plain:
            self._add("script", shorten(text), line)
        for url in find_urls(text):
            self._add("script", url, line)

    def _read_expression(self, expression: Expression, start: int) -> None:
        line = self._line_at(start)
        if not expression.is_plain:
            self._add("script", shorten(expression.source), line)
        for inner in expression.tags:
            self._read_tag(inner, start)
        for text in expression.strings:
            for url in find_urls(text):
                self._add("link", url, line)

    def _read_raw_text(self, tag: Tag) -> None:
        """Reads the text of a style or script element. An unclosed one extends to the end, and is read only once."""
        name = tag.name.lower()
        if name not in ("style", "script") or name in self.unclosed_tags:
            return
        end = self.text.find(f"</{tag.name}", tag.end)
        if end < 0:
            self.unclosed_tags.add(name)
        content = self.text[tag.end : end if end >= 0 else len(self.text)]
        line = self._line_at(tag.end)
        if name == "script" and content.strip():
            self._add("script", shorten(content), line)
        embeds = find_in_css(content) if name == "style" else (Embed("script", url) for url in find_urls(content))
        self._extend(embeds, line)

    def _read_tag(self, tag: Tag, start: int) -> None:
        line = self._line_at(start)
        name = _find_element(tag.name)
        if name == "script" and not any(attribute.lower() == "src" for attribute, _ in tag.attributes):
            self._add("script", shorten(f"<{tag.name}>"), line)
        for attribute, value in tag.attributes:
            if isinstance(value, Expression):
                self._read_computed(name, attribute, value, line)
            else:
                self._extend(find_in_attributes(name, {attribute: value}), line)
        for spread in tag.spreads:
            if not re.fullmatch(r"\.\.\.\s*[\w$]+\s*", spread.source):
                self._add("script", shorten(f"{{{spread.source}}}"), line)

    def _read_computed(self, tag: str, attribute: str, value: Expression, line: int) -> None:
        """Reads an attribute in braces. A literal is read as its value; a computed value that is loaded is a script."""
        name = attribute.lower()
        literal = value.literal
        if literal is not None:
            self._extend(find_in_attributes(tag, {attribute: literal}), line)
        elif _is_handler(attribute):
            if not re.fullmatch(r"\s*[\w$.]+\s*", value.source):
                self._add("script", shorten(f"{attribute}={{{value.source}}}"), line)
        elif name == "dangerouslysetinnerhtml" or not self._is_harmless(name, value):
            self._add("script", shorten(f"{attribute}={{{value.source}}}"), line)
        for text in value.strings:
            self._extend(find_in_css(text), line)
            for url in find_urls(text):
                self._add("link" if name in ("href", "to", "link") else "image", url, line)
        for inner in value.tags:
            self._read_tag(inner, 0)

    def _is_harmless(self, name: str, value: Expression) -> bool:
        """Returns whether an attribute is a local file, a static style, or a plain value that is not loaded."""
        source = value.source.strip()
        if source in self.imported_names or PATH_HELPER_PATTERN.fullmatch(source):
            return True
        if name == "style":
            return value.is_plain and value.is_static
        return value.is_plain and (name not in LOADING_ATTRIBUTES or (name == "icon" and bool(value.tags)))

    def _line_at(self, position: int) -> int:
        return bisect_right(self._line_starts, position)

    def _add(self, kind: EmbedKind, url: str, line: int) -> None:
        self.embeds.append(Embed(kind, url, line))

    def _extend(self, embeds: Iterator[Embed], line: int) -> None:
        self.embeds.extend(Embed(embed.kind, embed.url, line) for embed in embeds)


def _find_element(name: str) -> str:
    """Returns the HTML element of a tag. A name with a capital letter is a component, and gets the prefix `x-`."""
    last = name.rpartition(".")[2]
    return last.lower() if last[:1].islower() or last == "Script" else f"x-{last.lower()}"


def _is_handler(name: str) -> bool:
    return re.match(r"on[A-Z]", name) is not None
