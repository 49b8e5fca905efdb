"""Parses the facts of a Markdown page from its bytes alone, without reading any other file."""

import re
from collections.abc import Iterator
from sys import intern

from copydesk.jobs.checks.parsing import front_matter, mdx, rst
from copydesk.jobs.checks.parsing.page_facts import (
    MAX_PAGE_CHARS,
    UNKNOWN_FACTS,
    PageFacts,
    PageProblem,
    Reference,
    collect_dependency_keys,
)
from copydesk.jobs.pages import markdown
from copydesk.jobs.pages.headings import HTML_ID_PATTERN, find_raw_headings
from copydesk.jobs.pages.links import DEFINITION_PATTERN, MYST_DOC_PATTERN, find_inline_links, find_toctree_entries
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.workspace.text_edits import DecodedText, is_text

MAX_OPENING_LINE_CHARS = 200
"""Characters of a fence's first line that are searched for a directive."""
FoundReference = tuple[int, str, str]
"""Position, kind (the syntax of the reference) and target."""

LINK_ATTRIBUTE_PATTERN = re.compile(r"(?<=[\s\"'])(?:href|src|to)\s*=\s*\{?(?:\"([^\"\n{}]*)\"|'([^'\n{}]*)')")
TAG_NAME_PATTERN = re.compile(r"[A-Za-z][\w.-]*")
LINK_COMPONENTS = ("Card", "Link", "LinkCard", "DocCard", "Image", "Img")
QUOTED_HEADING_PATTERN = re.compile(r"^[ \t]*(?:>|[-*+][ \t]|\d+[.)][ \t])[ \t>]*#{1,6}[ \t]+(\S[^\n]{0,200})", re.M)
DEFINITION_END_PATTERN = re.compile(r"[>]?[ \t]*(?:[\"'(][^\n]*)?(?:\r?\n|$)")
UNQUOTED_ID_PATTERN = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)=([\w.:-]+)")
ATTRIBUTE_LIST_ID_PATTERN = re.compile(r"\{:?[^{}\n]{0,200}?#([\w.:-]+)")
MYST_LABEL_PATTERN = re.compile(r"^\(([^()\n]+)\)=[ \t]*\r?$", re.M)
NAME_OPTION_PATTERN = re.compile(r"^[ \t]*:name:[ \t]*(\S+)", re.M)
MYST_REF_PATTERN = re.compile(r"\{(ref|numref)\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
MYST_DIRECTIVE_PATTERN = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|:{3,})\{(include|literalinclude|image|figure)\}[ \t]+(\S+)[ \t]*\r?$", re.M
)
MACRO_PATTERN = re.compile(r"\{\{|\{%|^::: +[\w.]+\.\w", re.M)
GENERATING_DIRECTIVES = ("{include}", "{eval-rst}", "{auto")
IMPORT_PATTERN = re.compile(
    r"^(?:import|export)\s(?:[^\n\"'`;=(){}]{0,300}(?:\{[^{}\"'`;=()]{0,2000}\})?[^\n\"'`;=(){}]{0,300}?\bfrom\s+)?"
    r"[\"']([^\"'\n]+)[\"']",
    re.M,
)
SNIPPET_PATTERN = re.compile(r"^[ \t>]*(?<!;)-{1,}8<-{1,}[ \t]+[\"']([^\"'\n]+)[\"'][ \t]*\r?$", re.M)
SNIPPET_BLOCK_PATTERN = re.compile(
    r"^[ \t]*-{1,}8<-{1,}[ \t]*\r?\n((?:[^\n]*\n){1,50}?)[ \t]*-{1,}8<-{1,}[ \t]*\r?$", re.M
)
LIQUID_INCLUDE_PATTERN = re.compile(
    r"\{%-?\s*(include|include_relative|include-markdown|content-ref|file)\s+(?:url=|src=)?[\"']?([^\s\"'%{}]+)"
)
VITEPRESS_INCLUDE_PATTERN = re.compile(
    r"<!--\s*@include:\s*([^\s{}#<>]{1,300})[^<>\n]{0,300}-->|^<<<[ \t]+([^\s{}#\[]+)", re.M
)
MDBOOK_INCLUDE_PATTERN = re.compile(r"(?<!\\)\{\{\s*#(?:include|rustdoc_include|playground)\s+([^\s:{}]+)")
SNIPPET_TAG_PATTERN = re.compile(r"<Snippet\s+file=[\"']([^\"'\n]+)[\"']")


def decode_body(data: bytes) -> str:
    return DecodedText.decode(data).body if is_text(data) else ""


def parse_page(ext: str, data: bytes) -> PageFacts:
    """Parses the facts of a page. `ext` is the page's extension."""
    body = decode_body(data)
    if not body or len(body) > MAX_PAGE_CHARS:
        return UNKNOWN_FACTS
    return rst.parse_rst_page(body) if ext == ".rst" else _parse_markdown(ext, body)


def _parse_markdown(ext: str, body: str) -> PageFacts:
    """Parses the facts of a Markdown or MDX page.

    Searches for a single character before a longer string or a pattern, which is much faster on pages without it.
    """
    scanned = markdown.scan(body, indented_code=ext != ".mdx")
    prose = scanned.prose
    parsed_fields = (
        front_matter.parse_front_matter(body)
        if body.startswith(("---", "+++"))
        else front_matter.ParsedFrontMatter({}, True)
    )
    references = _add_line_numbers(body, [*_find_links(prose), *_find_includes(ext, body, scanned)])
    raw_headings = find_raw_headings(body, prose) if "#" in prose or "\n-" in prose or "\n=" in prose else []
    problems = list(parsed_fields.problems)
    line = scanned.unclosed_fence_line
    if line is not None and (mark := _find_fence_mark(body, line)):
        problems.append(PageProblem("fence", line, f"The code fence opened with {mark} is never closed."))
    elif ext == ".mdx":
        problems += [PageProblem("mdx", body.count("\n", 0, at) + 1, said) for at, said in mdx.find_problems(prose)]
    has_quoted_headings = " #" in prose and ("> #" in prose or "- #" in prose or ". #" in prose)
    labels = (
        tuple(found.strip() for found in MYST_LABEL_PATTERN.findall(prose)) if "=" in prose and ")=" in prose else ()
    )
    if ":name:" in body:
        labels += tuple(NAME_OPTION_PATTERN.findall(body))
    return PageFacts(
        references=references,
        headings=tuple(intern(each.text) for each in raw_headings if each.explicit_id is None),
        explicit_ids=tuple(
            {*(each.explicit_id for each in raw_headings if each.explicit_id), *_find_ids(prose), *labels}
        ),
        component_titles=(
            *(mdx.find_component_titles(prose) if "<" in prose else ()),
            *(QUOTED_HEADING_PATTERN.findall(body) if has_quoted_headings else ()),
        ),
        labels=labels,
        fields=parsed_fields.fields,
        field_lines=parsed_fields.field_lines,
        is_front_matter_readable=parsed_fields.is_readable,
        problems=tuple(problems),
        is_open_ended=_is_open_ended(body, prose, references, parsed_fields.fields),
        has_toctree_glob="{" in body and "{toctree}" in body and ":glob:" in body,
        dependency_keys=collect_dependency_keys(references),
    )


def _find_fence_mark(body: str, line: int) -> str:
    """Returns the mark that opens a fence, or "" if the fence may be indented code instead."""
    text = body.split("\n", line)[line - 1]
    return "" if text.startswith(("    ", "\t")) else text.strip().lstrip("-*+0123456789.) ")[:3]


def _find_links(prose: str) -> Iterator[FoundReference]:
    for start, end in find_inline_links(prose):
        yield start, "link", prose[start:end]
    if "]:" in prose:
        for match in DEFINITION_PATTERN.finditer(prose):
            if DEFINITION_END_PATTERN.match(prose, match.end()):
                yield match.start(match.lastindex or 0), "link", match[match.lastindex or 0]
    if "<" in prose and "=" in prose:
        for match in LINK_ATTRIBUTE_PATTERN.finditer(prose):
            if _is_link_attribute(prose, match.start()):
                yield match.start(), "link", match[match.lastindex or 0]


def _is_link_attribute(prose: str, position: int) -> bool:
    """Returns whether an attribute is a link. Attributes of unknown components may have any meaning."""
    tag = TAG_NAME_PATTERN.match(prose, prose.rfind("<", max(0, position - 1000), position) + 1)
    return tag is not None and (tag.group().islower() or tag.group() in LINK_COMPONENTS)


def _find_includes(ext: str, body: str, scanned: markdown.MarkdownScan) -> Iterator[FoundReference]:
    """Yields included files. Some includes are processed before Markdown, so they also apply in code."""
    if "<" in body:
        yield from _find_angle_includes(body, scanned)
    if "{" in body:
        yield from _find_brace_includes(ext, body, scanned)
    prose = scanned.prose
    if ext == ".mdx" and ("import" in prose or "export" in prose):
        for match in IMPORT_PATTERN.finditer(prose):
            yield match.start(1), "import", match[1]


def _find_angle_includes(body: str, scanned: markdown.MarkdownScan) -> Iterator[FoundReference]:
    if "8<" in body:
        for match in SNIPPET_PATTERN.finditer(body):
            yield match.start(1), "snippet", match[1]
        for match in SNIPPET_BLOCK_PATTERN.finditer(body):
            for name in match[1].split("\n"):
                if name.strip() and not name.strip().startswith(";"):
                    yield match.start(), "snippet", name.strip()
    if "@include:" in body or "<<<" in scanned.prose:
        for match in VITEPRESS_INCLUDE_PATTERN.finditer(_mask_fences(body, scanned)):
            yield match.start(), "vitepress", match[match.lastindex or 0]
    if "<Snippet" in scanned.prose:
        for match in SNIPPET_TAG_PATTERN.finditer(scanned.prose):
            yield match.start(), "tag", match[1]


def _find_brace_includes(ext: str, body: str, scanned: markdown.MarkdownScan) -> Iterator[FoundReference]:
    if "{%" in scanned.prose:
        for match in LIQUID_INCLUDE_PATTERN.finditer(scanned.prose):
            yield match.start(), f"liquid {match[1]}", match[2]
    if "{{" in body and "#" in body:
        for match in MDBOOK_INCLUDE_PATTERN.finditer(body):
            yield match.start(), "mdbook", match[1]
    if ext != ".mdx":
        yield from _find_myst_references(body, scanned)


def _find_myst_references(body: str, scanned: markdown.MarkdownScan) -> Iterator[FoundReference]:
    """Yields MyST references. Directives are written as fences; a directive inside another fence is only an example."""
    if "{toctree}" in body:
        openings = _find_block_openings(body, scanned)
        for start, end in find_toctree_entries(body):
            if "{toctree}" in openings.get(body.rfind("\n", 0, start) + 1, "{toctree}"):
                yield start, "toctree", body[start:end]
    if "{doc}`" in body or "ref}`" in body:
        visible = _mask_fences(body, scanned)
        for match in MYST_DOC_PATTERN.finditer(visible):
            yield match.start(1), "doc", match[1]
        for match in MYST_REF_PATTERN.finditer(visible):
            yield match.start(2), "ref", match[2]
    if any(f"{{{name}}}" in body for name in ("include", "literalinclude", "image", "figure")):
        openings = _find_block_openings(body, scanned)
        for match in MYST_DIRECTIVE_PATTERN.finditer(body):
            line = body.rfind("\n", 0, match.start(1)) + 1
            if match[1] in openings.get(line, match[1]):
                yield match.start(1), match[1], match[2]


def _find_block_openings(body: str, scanned: markdown.MarkdownScan) -> dict[int, str]:
    """Maps the start of each line of fenced code to the first line of its block."""
    openings: dict[int, str] = {}
    opening, position = "", 0
    for number, line in enumerate(body.split("\n"), 1):
        if number in scanned.fenced_lines:
            opening = opening or line[:MAX_OPENING_LINE_CHARS]
            openings[position] = opening
        else:
            opening = ""
        position += len(line) + 1
    return openings


def _mask_fences(body: str, scanned: markdown.MarkdownScan) -> str:
    """Masks fenced code, but leaves code spans and comments, which contain roles and includes."""
    if not scanned.fenced_lines:
        return body
    lines = body.split("\n")
    return "\n".join(" " * len(line) if n in scanned.fenced_lines else line for n, line in enumerate(lines, 1))


def _add_line_numbers(body: str, found: list[FoundReference]) -> tuple[Reference, ...]:
    """Returns the references to files of this repository, with line numbers.

    Targets that a template fills in are unknown, so they are left out.
    """
    references: list[Reference] = []
    line, position = 1, 0
    for start, kind, target in sorted(set(found)):
        if not NON_FILE_TARGET_PATTERN.match(target):
            line += body.count("\n", position, start)
            position = start
            references.append((line, kind, intern(target)))
    return tuple(references)


KINDS_WITHOUT_TEXT = ("link", "toctree", "doc", "ref", "image", "figure", "download", "literalinclude")
TEXT_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst", ".txt", ".html", "")
NON_FILE_TARGET_PATTERN = re.compile(
    r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|\?|#?$|#(?:top|/|:~:|!)|\.{3}$|…|[^<{}$*\\@]*+(?:[<{}$*\\]|(?<=[^@])@/)"
)


def _find_ids(prose: str) -> Iterator[str]:
    if "<" in prose:
        yield from HTML_ID_PATTERN.findall(prose)
        yield from UNQUOTED_ID_PATTERN.findall(prose)
    if "{" in prose and "#" in prose:
        yield from ATTRIBUTE_LIST_ID_PATTERN.findall(prose)


def _is_open_ended(body: str, prose: str, references: tuple[Reference, ...], fields: object) -> bool:
    if ("{" in prose or ":::" in prose) and MACRO_PATTERN.search(prose):
        return True
    if "```mdx-code-block" in body or ("{" in body and any(mark in body for mark in GENERATING_DIRECTIVES)):
        return True
    if isinstance(fields, dict) and not fields.keys().isdisjoint(("openapi", "asyncapi", "api", "layout", "template")):
        return True
    return any(_includes_text(kind, target) for _, kind, target in references)


def _includes_text(kind: str, target: str) -> bool:
    if kind == "import":
        return target.startswith((".", "/", "@site/", "!"))
    return kind not in KINDS_WITHOUT_TEXT and (kind in ("snippet", "tag") or extension(target) in TEXT_EXTENSIONS)
