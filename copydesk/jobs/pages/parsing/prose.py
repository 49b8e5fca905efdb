"""Separates prose from code in every kind of page: Markdown, reStructuredText, AsciiDoc and plain text."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import Span, TextLine, mask_spans, split_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing import markdown

RST_CODE_PATTERN = re.compile(
    r"\s*\.\. (?:code|code-block|sourcecode|literalinclude|parsed-literal|math|raw|toctree)::|\s*\.\. _"
)
RST_TOCTREE_PATTERN = re.compile(r"\s*\.\. toctree::")
RST_COMMENT_PATTERN = re.compile(r"\s*\.\.(?:\s(?!\S+::|_|\[|\|)|\s*$)")
# The group consumes a run of colons and letters that is not a role, so that each of its colons is not tried again.
RST_INLINE_PATTERN = re.compile(
    r"``[^`\n]+(?:`[^`\n]+)*``|:(?=[\w:+-]{2})[\w:+-]*+(?<=:)`[^`\n]+`|(?P<no_role>:[\w:+-]*+)"
)
ADOC_DELIMITER_PATTERN = re.compile(r"(-{4,}|\.{4,}|/{4,}|\+{4,}|`{3,})\w*\s*$")
ADOC_INLINE_PATTERN = re.compile(r"(?<!\w)`[^`\n]+`(?!\w)|\+\+[^+\n]+\+\+")


def mask_non_prose(path: str, body: str) -> str:
    """Replaces everything except prose with spaces. Positions and lines stay the same."""
    ext = extension(path)
    if ext in MARKDOWN_EXTENSIONS:
        return markdown.scan(body, indented_code=ext != ".mdx").prose
    if ext == ".rst":
        text = mask_spans(body, list(_find_rst_blocks(split_lines(body))))
        return mask_spans(
            text, [match.span() for match in RST_INLINE_PATTERN.finditer(text) if match["no_role"] is None]
        )
    if ext == ".adoc":
        text = mask_spans(body, list(_find_adoc_blocks(split_lines(body))))
        return mask_spans(text, [match.span() for match in ADOC_INLINE_PATTERN.finditer(text)])
    return body


def find_code_lines(path: str, body: str) -> frozenset[int]:
    """Returns the numbers of the lines in code blocks."""
    ext = extension(path)
    if ext in MARKDOWN_EXTENSIONS:
        return markdown.scan(body, indented_code=ext != ".mdx").fenced_lines
    find_blocks = {".rst": _find_rst_blocks, ".adoc": _find_adoc_blocks}.get(ext)
    starts = {start for start, _ in find_blocks(split_lines(body))} if find_blocks else set()
    return frozenset(line.number for line in split_lines(body) if line.start in starts)


def mask_rst_code(body: str) -> str:
    """Replaces only the code blocks of reStructuredText with spaces. Roles, directives and tables of contents stay."""
    return mask_spans(body, list(_find_rst_blocks(split_lines(body), only_code=True)))


def _find_rst_blocks(lines: list[TextLine], only_code: bool = False) -> Iterator[Span]:
    """Yields the lines of literal blocks, which are indented deeper than the line that introduces them."""
    block_indent: int | None = None
    for line in lines:
        if line.is_blank:
            continue
        if block_indent is not None and line.indent > block_indent:
            yield line.start, line.end
            continue
        block_indent = None
        directive = RST_CODE_PATTERN.match(line.text) or RST_COMMENT_PATTERN.match(line.text)
        if directive and only_code and RST_TOCTREE_PATTERN.match(line.text):
            continue
        if directive and not only_code:
            yield line.start, line.end
        if directive or (line.text.rstrip().endswith("::") and not line.text.lstrip().startswith("..")):
            block_indent = line.indent


def _find_adoc_blocks(lines: list[TextLine]) -> Iterator[Span]:
    open_delimiter = ""
    for line in lines:
        delimiter = ADOC_DELIMITER_PATTERN.match(line.text)
        if open_delimiter or delimiter:
            yield line.start, line.end
        if delimiter and not open_delimiter:
            open_delimiter = delimiter[1]
        elif open_delimiter and line.text.rstrip() == open_delimiter:
            open_delimiter = ""
