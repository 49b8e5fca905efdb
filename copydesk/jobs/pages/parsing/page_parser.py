"""Parses the references and the facts of a page from its text alone, without reading any other file."""

import re
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.parsing import front_matter, markdown, mdx
from copydesk.jobs.pages.parsing.headings import find_raw_headings
from copydesk.jobs.pages.parsing.markdown_references import find_markdown_references
from copydesk.jobs.pages.parsing.page_facts import (
    MAX_PAGE_CHARS,
    PageFacts,
    PageProblem,
    UnjudgedRule,
    build_unknown_facts,
    collect_dependency_keys,
)
from copydesk.jobs.pages.parsing.prose import mask_non_prose, mask_rst_code
from copydesk.jobs.pages.parsing.references import NumberedReference, Reference, number_lines
from copydesk.jobs.pages.parsing.rst_references import find_adoc_references, find_rst_names, find_rst_references
from copydesk.jobs.workspace.text_edits import DecodedText, is_text

QUOTED_HEADING_PATTERN = re.compile(r"^[ \t]*(?:>|[-*+][ \t]|\d+[.)][ \t])[ \t>]*#{1,6}[ \t]+(\S[^\n]{0,200})", re.M)
HTML_ID_PATTERN = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)\s*=\s*[\"']([^\"'<>]+)[\"']")
UNQUOTED_ID_PATTERN = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)=([\w.:-]+)")
ATTRIBUTE_LIST_ID_PATTERN = re.compile(r"\{:?[^{}\n]{0,200}?#([\w.:-]+)")
MYST_LABEL_PATTERN = re.compile(r"^\(([^()\n]+)\)=[ \t]*\r?$", re.M)
NAME_OPTION_PATTERN = re.compile(r"^[ \t]*:name:[ \t]*(\S+)", re.M)
MACRO_PATTERN = re.compile(r"\{\{(?!\s*#(?:include|rustdoc_include|playground)\b)|\{%|^::: +[\w.]+\.\w", re.M)
MDX_MACRO_PATTERN = re.compile(rf"{mdx.TEMPLATE_PATTERN.pattern}|^::: +[\w.]+\.\w", re.M)
SHORTCODE_PATTERN = re.compile(r"<!--\s*[\w-]+:")
GENERATING_DIRECTIVES = ("{eval-rst}", "{auto")
KINDS_WITHOUT_TEXT = (
    "link",
    "html",
    "script",
    "toctree",
    "doc",
    "ref",
    "name",
    "image",
    "figure",
    "download",
    "literalinclude",
)
CODE_KINDS = ("snippet", "mdbook", "vitepress")
"""Includes that may be inside a code block, where their text is code."""
TEXT_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst", ".txt", ".html", "")
RST_LABEL_PATTERN = re.compile(r"^[ \t]*\.\. _(`[^`\n]+`|[^:\n]+):[ \t]*\r?$", re.M)
RST_NAME_OPTION_PATTERN = re.compile(r"^[ \t]+:name:[ \t]*(\S[^\n]*)", re.M)
STUB_FOLDER_PATTERN = re.compile(r"^[ \t]+:toctree:[ \t]*([^\s`]*)", re.M)
ORPHAN_PATTERN = re.compile(r"^:orphan:[ \t]*\r?$", re.M)
MAX_FIELD_CHARS = 200


def find_references(path: str, body: str) -> list[Reference]:
    """Returns every reference of a page outside code, in order. References may overlap."""
    ext = extension(path)
    if ext in MARKDOWN_EXTENSIONS:
        scan = markdown.scan(body, indented_code=ext != ".mdx")
        return sorted(set(find_markdown_references(ext, body, scan)))
    if ext == ".rst":
        return sorted(set(find_rst_references(mask_rst_code(body))))
    return sorted(set(find_adoc_references(mask_non_prose(path, body)))) if ext == ".adoc" else []


def decode_body(data: bytes) -> str:
    return DecodedText.decode(data).body if is_text(data) else ""


def parse_page(ext: str, data: bytes) -> PageFacts:
    """Parses the facts of a page. `ext` is the page's extension."""
    body = decode_body(data)
    if len(body) > MAX_PAGE_CHARS:
        return build_unknown_facts(f"the page has more than {MAX_PAGE_CHARS:,} characters")
    if not body:
        return build_unknown_facts("the file is not text" if data else "")
    return _parse_rst(body) if ext == ".rst" else _parse_markdown(ext, body)


def _parse_markdown(ext: str, body: str) -> PageFacts:
    """Parses the facts of a Markdown or MDX page."""
    scan = markdown.scan(body, indented_code=ext != ".mdx")
    prose = scan.prose
    fields, field_lines, is_readable, problems = _parse_fields(body)
    references = number_lines(body, find_markdown_references(ext, body, scan))
    raw_headings = find_raw_headings(body, prose) if "#" in prose or "\n-" in prose or "\n=" in prose else []
    line = scan.unclosed_fence_line
    unjudged: tuple[UnjudgedRule, ...] = ()
    if line is not None and (mark := _find_fence_mark(body, line)):
        problems.append(PageProblem("fence", line, f"The code fence opened with {mark} is never closed."))
        unjudged = (UnjudgedRule("mdx", "a code fence is never closed"),) if ext == ".mdx" else ()
    elif ext == ".mdx":
        markup = mdx.scan_markup(prose)
        unjudged = (UnjudgedRule("mdx", markup.doubt),) if markup.doubt else ()
        problems += [
            PageProblem("mdx", body.count("\n", 0, position) + 1, message) for position, message in markup.problems
        ]
    has_quoted_headings = " #" in prose and ("> #" in prose or "- #" in prose or ". #" in prose)
    labels = (
        tuple(label.strip() for label in MYST_LABEL_PATTERN.findall(prose)) if "=" in prose and ")=" in prose else ()
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
        fields=fields,
        field_lines=field_lines,
        is_front_matter_readable=is_readable,
        problems=tuple(problems),
        unjudged=unjudged,
        open_reason=_find_open_reason(ext, body, prose, fields),
        text_includes=_list_text_includes(references, scan.fenced_lines),
        stub_folders=tuple(STUB_FOLDER_PATTERN.findall(body)) if "{autosummary}" in body else (),
        has_shortcodes="<!--" in body and SHORTCODE_PATTERN.search(body) is not None,
        has_fences=bool(scan.fenced_lines),
        has_toctree_glob="{" in body and "{toctree}" in body and ":glob:" in body,
        dependency_keys=collect_dependency_keys(references),
    )


def _parse_fields(body: str) -> tuple[Mapping[str, Any], tuple[int, ...], bool, list[PageProblem]]:
    """Returns the fields of the front matter, their lines, whether they are readable, and the problems."""
    if not body.startswith(("---", "+++")):
        return {}, (), True, []
    matter = front_matter.parse_front_matter(body)
    if matter is None:
        if not front_matter.is_unclosed(body):
            return {}, (), not body.startswith("+++"), []  # TOML that never ends cannot be read
        message = "The front matter has no closing `---`."
        return {}, (), False, [PageProblem(front_matter.FRONT_MATTER_RULE, 1, message)]
    problems = list(matter.parsed.problems)
    if matter.fields is None:
        return {}, (), False, problems
    fields = {intern(name): _shorten_value(value) for name, value in matter.fields.items()}
    return fields, matter.parsed.lines, True, problems


def _shorten_value(value: Any) -> Any:
    """Shortens a value. Only its type and whether it is empty matter, and the text of addresses and titles."""
    if isinstance(value, str | list):
        return value[:MAX_FIELD_CHARS] if isinstance(value, str) else value[:1]
    return dict.fromkeys(list(value)[:1]) if isinstance(value, dict) else value


def _find_fence_mark(body: str, line: int) -> str:
    """Returns the mark that opens a fence, or "" if the fence may be indented code instead."""
    text = body.split("\n", line)[line - 1]
    return "" if text.startswith(("    ", "\t")) else text.strip().lstrip("-*+0123456789.) ")[:3]


def _find_ids(prose: str) -> Iterator[str]:
    if "<" in prose:
        yield from HTML_ID_PATTERN.findall(prose)
        yield from UNQUOTED_ID_PATTERN.findall(prose)
    if "{" in prose and "#" in prose:
        yield from ATTRIBUTE_LIST_ID_PATTERN.findall(prose)


def _find_open_reason(ext: str, body: str, prose: str, fields: Mapping[str, object]) -> str:
    """Returns why something other than the page's text may add anchors to it, or ""."""
    pattern = MDX_MACRO_PATTERN if ext == ".mdx" else MACRO_PATTERN
    if ("{" in prose or ":::" in prose) and pattern.search(prose):
        return "the page contains macros of a template"
    if "```mdx-code-block" in body or ("{" in body and any(mark in body for mark in GENERATING_DIRECTIVES)):
        return "the page contains directives that generate text"
    if not fields.keys().isdisjoint(("openapi", "asyncapi", "api", "layout", "template")):
        return "the page is generated from its front matter"
    return ""


def _list_text_includes(
    references: tuple[NumberedReference, ...], fenced_lines: frozenset[int]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (kind, target)
        for line, kind, target in references
        if _includes_text(kind, target) and not (kind in CODE_KINDS and line in fenced_lines)
    )


def _includes_text(kind: str, target: str) -> bool:
    if kind == "import":
        return target.startswith((".", "/", "@site/", "!"))
    return kind not in KINDS_WITHOUT_TEXT and (kind in ("snippet", "tag") or extension(target) in TEXT_EXTENSIONS)


def _parse_rst(body: str) -> PageFacts:
    visible = mask_rst_code(body) if "::" in body or ".." in body else body
    references = number_lines(body, find_rst_references(visible))
    labels: tuple[str, ...] = ()
    if ".. _" in visible:
        labels = tuple(label.strip("` ").lower() for label in RST_LABEL_PATTERN.findall(visible))
    if ":name:" in visible:
        labels += tuple(name.strip().lower() for name in RST_NAME_OPTION_PATTERN.findall(visible))
    return PageFacts(
        references=references,
        explicit_ids=labels,
        labels=labels,
        names=tuple(find_rst_names(visible)) if "`_" in visible else (),
        fields={"orphan": True} if ":orphan:" in body and ORPHAN_PATTERN.search(body) else {},
        is_front_matter_readable=False,
        open_reason="anchors of reStructuredText are not read",
        stub_folders=tuple(STUB_FOLDER_PATTERN.findall(visible)) if "autosummary::" in visible else (),
        has_toctree_glob=":glob:" in body,
        dependency_keys=collect_dependency_keys(references),
    )
