"""Prose and code in every kind of page: Markdown, reStructuredText, AsciiDoc, plain text."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages import markdown
from copydesk.jobs.pages.lines import Line, Span, blanked, lines_of
from copydesk.jobs.pages.page_types import MARKDOWN, extension

RST_CODE = re.compile(
    r"\s*\.\. (?:code|code-block|sourcecode|literalinclude|parsed-literal|math|raw|toctree)::|\s*\.\. _"
)
RST_TOCTREE = re.compile(r"\s*\.\. toctree::")
RST_COMMENT = re.compile(r"\s*\.\.(?:\s(?!\S+::|_|\[|\|)|\s*$)")
# A run of colons and letters that is no role is taken as a whole (the group), or each of its colons would be tried.
RST_INLINE = re.compile(r"``[^`\n]+(?:`[^`\n]+)*``|:(?=[\w:+-]{2})[\w:+-]*+(?<=:)`[^`\n]+`|(?P<no_role>:[\w:+-]*+)")
ADOC_DELIMITER = re.compile(r"(-{4,}|\.{4,}|/{4,}|\+{4,}|`{3,})\w*\s*$")
ADOC_INLINE = re.compile(r"(?<!\w)`[^`\n]+`(?!\w)|\+\+[^+\n]+\+\+")


def prose(path: str, body: str) -> str:
    """The body with spaces for all that is not prose; positions and lines are the body's."""
    kind = extension(path)
    if kind in MARKDOWN:
        return markdown.scan(body, indented_code=kind != ".mdx").prose
    if kind == ".rst":
        text = blanked(body, list(_rst_blocks(lines_of(body))))
        return blanked(text, [match.span() for match in RST_INLINE.finditer(text) if match["no_role"] is None])
    if kind == ".adoc":
        text = blanked(body, list(_adoc_blocks(lines_of(body))))
        return blanked(text, [match.span() for match in ADOC_INLINE.finditer(text)])
    return body


def fenced(path: str, body: str) -> frozenset[int]:
    """Numbers of the lines that are a block of code."""
    if extension(path) in MARKDOWN:
        return markdown.scan(body).fenced
    blocks = {".rst": _rst_blocks, ".adoc": _adoc_blocks}.get(extension(path))
    starts = {start for start, _ in blocks(lines_of(body))} if blocks else set()
    return frozenset(line.number for line in lines_of(body) if line.start in starts)


def without_blocks(path: str, body: str) -> str:
    """The body with spaces for blocks of code only: roles, directives and tables of contents are still there."""
    if extension(path) in MARKDOWN:
        lines = markdown.scan(body).fenced
        return blanked(body, [(line.start, line.end) for line in lines_of(body) if line.number in lines])
    return blanked(body, list(_rst_blocks(lines_of(body), only_code=True)))


def _rst_blocks(lines: list[Line], only_code: bool = False) -> Iterator[Span]:
    """Literal blocks are all that is indented deeper than the line which announced them."""
    limit: int | None = None
    for line in lines:
        if line.is_blank:
            continue
        if limit is not None and line.indent > limit:
            yield line.start, line.end
            continue
        limit = None
        announced = RST_CODE.match(line.text) or RST_COMMENT.match(line.text)
        if announced and only_code and RST_TOCTREE.match(line.text):
            continue
        if announced and not only_code:
            yield line.start, line.end
        if announced or (line.text.rstrip().endswith("::") and not line.text.lstrip().startswith("..")):
            limit = line.indent


def _adoc_blocks(lines: list[Line]) -> Iterator[Span]:
    mark = ""
    for line in lines:
        delimiter = ADOC_DELIMITER.match(line.text)
        if mark or delimiter:
            yield line.start, line.end
        if delimiter and not mark:
            mark = delimiter[1]
        elif mark and line.text.rstrip() == mark:
            mark = ""
