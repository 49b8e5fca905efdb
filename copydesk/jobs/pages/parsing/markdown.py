"""Separates the prose of a Markdown page from front matter, code, comments and raw HTML blocks."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from copydesk.jobs.pages.lines import Span, mask_spans, mask_text
from copydesk.jobs.pages.parsing import front_matter

# A fence may be in a quotation or directly after a list marker; in a list it may be indented by any amount.
FENCE_PATTERN = re.compile(r"(?P<prefix>[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
RAW_BLOCK_CLOSERS = {
    "<!--": "-->",
    "{/*": "*/}",
    "<pre": "</pre>",
    "<script": "</script>",
    "<style": "</style>",
    "<code": "</code>",
}
RAW_BLOCK_START_PATTERN = re.compile(r"<!--|\{/\*|<(?:pre|script|style|code)(?=[\s>])")
BACKTICKS_PATTERN = re.compile(r"\\`|`+")
CODE_SPAN_PATTERN = re.compile(r"`[^`\n]*(?:\n(?![ \t\r\f\v]*\n)[^`\n]*)*`")
# Containers that an indented block may belong to instead of being code: list, admonition, tab, definition, HTML.
CONTAINER_PATTERN = re.compile(r"[-*+]\s|\d+[.)]\s|!!!|\?\?\?|===|:|\[\^|<|\{|>")
CONTAINER_FIRST_CHARS = frozenset("-*+0123456789!?=:[<{>")
PARAGRAPH_BREAK_PATTERN = re.compile(r"\n[ \t\r\f\v]*(?=\n)")


@dataclass(frozen=True)
class MarkdownScan:
    prose: str
    """The body with everything except prose replaced by spaces. Positions and lines are the same as in the body."""
    fenced_lines: frozenset[int]
    """Numbers of the lines of fenced code, including the fences."""
    unclosed_fence_line: int | None = None
    """The line of a fence that is never closed."""


def scan(body: str, indented_code: bool = True) -> MarkdownScan:
    """Separates the prose of a page from its code. Pass `indented_code=False` for MDX, which has no indented code."""
    head = body[: front_matter.find_body_start(body)]
    text = body[len(head) :]
    lines = text.split("\n")
    first_line_number = head.count("\n") + 1
    fenced, unclosed = _find_fenced_lines(text, lines, indented_code)
    may_be_indented = indented_code and ("\t" in body or "\n    " in body or body.startswith("    "))
    code_lines = fenced | _find_indented_code(lines, fenced) if may_be_indented else fenced
    for index in code_lines:
        lines[index] = mask_text(lines[index])
    text = (mask_text(head) if head else "") + "\n".join(lines)
    if "`" in text:
        text = _mask_code_spans(text)
    if "<" in text or ("{" in text and "{/*" in text):
        text = mask_spans(text, _find_raw_blocks(text))
    fenced_line_numbers = frozenset(
        first_line_number + index for index in fenced if lines[index] or index + 1 < len(lines)
    )
    return MarkdownScan(text, fenced_line_numbers, None if unclosed is None else first_line_number + unclosed)


def _find_fenced_lines(text: str, lines: list[str], indented_code: bool) -> tuple[set[int], int | None]:
    """Returns the indexes of the lines in fences, and of a fence that is never closed.

    Fences inside a comment or indented code do not count.
    """
    fenced: set[int] = set()
    fence_contents: set[int] = set()
    unclosed = None
    next_index = checked_until = 0
    is_contained = False
    marks = [mark for mark in ("```", "~~~", "<", "{/*") if mark[0] in text and mark in text]
    if not marks or marks[0][0] not in "`~":
        return fenced, None
    # Only these few lines can start a fence or a comment.
    for index in sorted({index for mark in marks for index, line in enumerate(lines) if mark in line}):
        if index < next_index:
            continue  # in a fence or a comment
        line = lines[index]
        fence = FENCE_PATTERN.match(line.rstrip("\r")) if "```" in line or "~~~" in line else None
        if fence and indented_code and line.startswith(("    ", "\t")):
            is_contained = _is_contained(lines, checked_until, index, fence_contents, is_contained)
            checked_until = index
            fence = fence if is_contained else None
        if fence:
            last, next_index = _find_fence_end(lines, index, fence)
            fenced.update(range(index, next_index))
            fence_contents.update(range(index + 1, last + 1))
            unclosed = index if last == len(lines) and ">" not in fence["prefix"] else None
        elif comment_end := _find_missing_closer(line):
            ends = (number + 1 for number in range(index + 1, len(lines)) if comment_end in lines[number])
            next_index = next(ends, len(lines))
    return fenced, unclosed


def _find_fence_end(lines: list[str], start: int, fence: re.Match[str]) -> tuple[int, int]:
    """Returns the index of the line that ends a fence, and of the first line after it.

    They are the same if the fence ends together with its quotation.
    """
    mark = fence["mark"]
    is_quoted = ">" in fence["prefix"]
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if is_quoted and not line.lstrip().startswith(">"):
            return index, index
        if mark in line and _is_closing_fence(line, fence):
            return index, index + 1
    return len(lines), len(lines)


def _is_contained(lines: list[str], start: int, stop: int, fence_contents: set[int], default: bool) -> bool:
    """Returns whether the last line without indentation starts a container, so that an indented line may belong to it.

    Lines inside a fence do not count. Returns `default` if there is no such line.
    """
    for index in range(stop - 1, start - 1, -1):
        text = lines[index]
        if text and not text[0].isspace() and index not in fence_contents:
            return text[0] in CONTAINER_FIRST_CHARS and CONTAINER_PATTERN.match(text) is not None
    return default


def _is_closing_fence(text: str, fence: re.Match[str]) -> bool:
    """Returns whether a line closes the fence: the same mark, at least as long, and not indented as far as code."""
    mark = fence["mark"]
    inner = text.lstrip(" \t>").rstrip()
    if len(inner) < len(mark) or inner.strip(mark[0]):
        return False
    lead = text[: text.index(mark[0])]
    return len(lead) < len(fence["prefix"]) + 4 or "\t" in lead or ">" in lead


def _find_missing_closer(text: str) -> str:
    """Returns the closer of the comment or raw block that this line opens and does not close, or ""."""
    if not RAW_BLOCK_START_PATTERN.search(text):
        return ""
    text = _mask_code_spans(text)
    position = 0
    while match := RAW_BLOCK_START_PATTERN.search(text, position):
        closer = RAW_BLOCK_CLOSERS[match.group()]
        end = text.find(closer, match.end())
        if end < 0:
            return closer if closer != "</code>" else ""
        position = end + len(closer)
    return ""


def _find_raw_blocks(text: str) -> list[Span]:
    spans = []
    position = 0
    missing_closers: set[str] = set()
    while match := RAW_BLOCK_START_PATTERN.search(text, position):
        closer = RAW_BLOCK_CLOSERS[match.group()]
        end = -1 if closer in missing_closers else text.find(closer, match.end())
        if end < 0:
            missing_closers.add(closer)
            position = match.end()
            continue
        position = end + len(closer)
        spans.append((match.start(), position))
    return spans


def _find_indented_code(lines: list[str], fenced: set[int]) -> set[int]:
    """Returns the indexes of indented code: four spaces after an empty line, outside lists and other containers."""
    code_lines: set[int] = set()
    after_blank = True
    in_code = False
    is_contained = False
    for index, text in enumerate(lines):
        if index in fenced:
            continue
        if not text or text.isspace():
            after_blank = True
            continue
        is_indented = text.startswith(("    ", "\t"))
        if not text[0].isspace():
            is_contained = text[0] in CONTAINER_FIRST_CHARS and CONTAINER_PATTERN.match(text) is not None
        in_code = is_indented and not is_contained and (after_blank or in_code)
        after_blank = False
        if in_code:
            code_lines.add(index)
    return code_lines


def _mask_code_spans(text: str) -> str:
    """Masks code spans: a run of backticks up to the next run of the same length in the same paragraph."""
    pieces = text.split("`")
    if "" in pieces[1:-1] or ("\\" in text and "\\`" in text):
        return mask_spans(text, list(_find_code_spans(text)))
    code = pieces[1::2]
    if len(pieces) % 2 and not any("\n" in piece or "\r" in piece for piece in code):
        pieces[1::2] = [" " * (len(piece) + 2) for piece in code]
        return "".join(pieces)
    return CODE_SPAN_PATTERN.sub(lambda pair: mask_text(pair.group()), text)


def _find_code_spans(text: str) -> Iterator[Span]:
    start = 0
    for paragraph_break in PARAGRAPH_BREAK_PATTERN.finditer(text):
        if text.find("`", start, paragraph_break.start()) >= 0:
            yield from _find_paragraph_code_spans(text[start : paragraph_break.start()], start)
        start = paragraph_break.end()
    yield from _find_paragraph_code_spans(text[start:], start)


def _find_paragraph_code_spans(paragraph: str, offset: int) -> Iterator[Span]:
    runs = list(BACKTICKS_PATTERN.finditer(paragraph))
    indexes_by_length: dict[int, deque[int]] = {}
    for index, run in enumerate(runs):
        # A backslash has no meaning inside a code span, so an escaped backtick can close one.
        indexes_by_length.setdefault(len(run.group().lstrip("\\")), deque()).append(index)
    position = 0
    for index, run in enumerate(runs):
        if run.start() < position or run.group().startswith("\\"):
            continue
        candidates = indexes_by_length[len(run.group())]
        while candidates and candidates[0] <= index:
            candidates.popleft()
        if candidates:
            position = runs[candidates[0]].end()
            yield offset + run.start(), offset + position
