"""Lists the code blocks of Markdown and reStructuredText pages with their languages."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from copydesk.jobs.pages.lines import split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing import markdown

LANGUAGE_PATTERN = re.compile(r"(?:\{(?:code-block|code|sourcecode)\}|\{?\.?)[ \t]*([\w+-]+)")
RST_DIRECTIVE_PATTERN = re.compile(r"[ \t]*\.\. (?:code-block|code|sourcecode)::[ \t]*([\w+-]*)")
RST_OPTION_PATTERN = re.compile(r"[ \t]+:[\w-]+:")
QUOTE_PATTERN = re.compile(r"[ \t]*>[ \t]?")


class CodeBlock(NamedTuple):
    language: str
    """In lower case; "" if the block does not say."""
    opening: str
    """The line that opens the block, which may name a file."""
    lines: tuple[tuple[int, str], ...]
    """Numbers and texts of its lines, without the marks of a quotation."""


def list_code_blocks(path: str, body: str) -> Iterator[CodeBlock]:
    ext = extension(path)
    if ext in MARKDOWN_EXTENSIONS:
        yield from _list_fences(body, markdown.scan(body, indented_code=ext != ".mdx").fenced_lines)
    elif ext == ".rst":
        yield from _list_directives(body)


def _list_fences(body: str, fenced_lines: frozenset[int]) -> Iterator[CodeBlock]:
    opening: re.Match[str] | None = None
    lines: list[tuple[int, str]] = []
    for line in split_lines(body) if fenced_lines else ():
        if opening is not None and (line.number not in fenced_lines or _closes(line.text, opening)):
            yield _build_block(opening, lines)
            opening, lines = None, []
        elif opening is not None:
            text = QUOTE_PATTERN.sub("", line.text, count=1) if ">" in opening["prefix"] else line.text
            lines.append((line.number, text))
        elif line.number in fenced_lines:
            opening = markdown.FENCE_PATTERN.match(line.text)
    if opening is not None:
        yield _build_block(opening, lines)


def _build_block(opening: re.Match[str], lines: list[tuple[int, str]]) -> CodeBlock:
    info = opening.string[opening.end() :].strip()
    language = LANGUAGE_PATTERN.match(info)
    return CodeBlock(language[1].lower() if language else "", info, tuple(lines))


def _closes(text: str, opening: re.Match[str]) -> bool:
    mark = opening["mark"]
    rest = text.lstrip("> \t").rstrip()
    return rest.startswith(mark) and not rest.strip(mark[0])


def _list_directives(body: str) -> Iterator[CodeBlock]:
    directive: re.Match[str] | None = None
    indent = 0
    lines: list[tuple[int, str]] = []
    for line in split_lines(body):
        if directive is not None and not line.is_blank and line.indent <= indent:
            yield CodeBlock(directive[1].lower(), directive.string, tuple(lines))
            directive, lines = None, []
        if directive is None:
            directive = RST_DIRECTIVE_PATTERN.match(line.text)
            indent = line.indent
        elif lines or not (line.is_blank or RST_OPTION_PATTERN.match(line.text)):
            lines.append((line.number, line.text))
    if directive is not None:
        yield CodeBlock(directive[1].lower(), directive.string, tuple(lines))
