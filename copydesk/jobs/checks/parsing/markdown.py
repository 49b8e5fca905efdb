"""Reads the facts of a Markdown page: one look at its bytes, no look at any other file."""

import re
from collections.abc import Iterator
from sys import intern

from copydesk.jobs.checks.parsing import front_matter as matter
from copydesk.jobs.checks.parsing import mdx, rst
from copydesk.jobs.checks.parsing.page_facts import EMPTY, LONGEST, Facts, Problem, Reference, keys_of
from copydesk.jobs.pages import markdown
from copydesk.jobs.pages.headings import IDS, outline
from copydesk.jobs.pages.links import DEFINITION, MYST, inline, toctree
from copydesk.jobs.pages.page_types import MARKDOWN, extension
from copydesk.jobs.workspace.text_edits import Text, is_text

LONGEST_OPENING = 200
"""Characters of a fence's first line that may name a directive."""
Found = tuple[int, str, str]
"""Where, how it is written, and the target."""

ATTRIBUTE = re.compile(r"(?<=[\s\"'])(?:href|src|to)\s*=\s*\{?(?:\"([^\"\n{}]*)\"|'([^'\n{}]*)')")
TAG = re.compile(r"[A-Za-z][\w.-]*")
LINKING = ("Card", "Link", "LinkCard", "DocCard", "Image", "Img")
QUOTED_HEADING = re.compile(r"^[ \t]*(?:>|[-*+][ \t]|\d+[.)][ \t])[ \t>]*#{1,6}[ \t]+(\S[^\n]{0,200})", re.M)
AFTER_DEFINITION = re.compile(r"[>]?[ \t]*(?:[\"'(][^\n]*)?(?:\r?\n|$)")
UNQUOTED_ID = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)=([\w.:-]+)")
ATTRIBUTE_LIST = re.compile(r"\{:?[^{}\n]{0,200}?#([\w.:-]+)")
LABEL = re.compile(r"^\(([^()\n]+)\)=[ \t]*\r?$", re.M)
NAMED = re.compile(r"^[ \t]*:name:[ \t]*(\S+)", re.M)
MYST_REF = re.compile(r"\{(ref|numref)\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
DIRECTIVE = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|:{3,})\{(include|literalinclude|image|figure)\}[ \t]+(\S+)[ \t]*\r?$", re.M
)
MACRO = re.compile(r"\{\{|\{%|^::: +[\w.]+\.\w", re.M)
GENERATING = ("{include}", "{eval-rst}", "{auto")
IMPORT = re.compile(
    r"^(?:import|export)\s(?:[^\n\"'`;=(){}]{0,300}(?:\{[^{}\"'`;=()]{0,2000}\})?[^\n\"'`;=(){}]{0,300}?\bfrom\s+)?"
    r"[\"']([^\"'\n]+)[\"']",
    re.M,
)
SNIPPET = re.compile(r"^[ \t>]*(?<!;)-{1,}8<-{1,}[ \t]+[\"']([^\"'\n]+)[\"'][ \t]*\r?$", re.M)
SNIPPETS = re.compile(r"^[ \t]*-{1,}8<-{1,}[ \t]*\r?\n((?:[^\n]*\n){1,50}?)[ \t]*-{1,}8<-{1,}[ \t]*\r?$", re.M)
LIQUID = re.compile(
    r"\{%-?\s*(include|include_relative|include-markdown|content-ref|file)\s+(?:url=|src=)?[\"']?([^\s\"'%{}]+)"
)
VITEPRESS = re.compile(r"<!--\s*@include:\s*([^\s{}#<>]{1,300})[^<>\n]{0,300}-->|^<<<[ \t]+([^\s{}#\[]+)", re.M)
MDBOOK = re.compile(r"(?<!\\)\{\{\s*#(?:include|rustdoc_include|playground)\s+([^\s:{}]+)")
SNIPPET_TAG = re.compile(r"<Snippet\s+file=[\"']([^\"'\n]+)[\"']")


def body_of(data: bytes) -> str:
    return Text.of(data).body if is_text(data) else ""


def facts_of(kind: str, data: bytes) -> Facts:
    """`kind` is the page's extension."""
    body = body_of(data)
    if not body or len(body) > LONGEST:
        return EMPTY
    return rst.facts_of(body) if kind == ".rst" else _markdown(kind, body)


def _markdown(kind: str, body: str) -> Facts:
    """One character is looked for before several are: on a page without it, that is thirty times as fast."""
    scanned = markdown.scan(body, indented_code=kind != ".mdx")
    prose = scanned.prose
    fields = matter.read(body) if body.startswith(("---", "+++")) else matter.Matter({}, True)
    references = _numbered(body, [*_links(prose), *_includes(kind, body, scanned)])
    texts = outline(body, prose) if "#" in prose or "\n---" in prose or "\n===" in prose else []
    problems = list(fields.problems)
    line = scanned.unclosed
    if line is not None and (mark := _fence_mark(body, line)):
        problems.append(Problem("fence", line, f"The code fence that {mark} opens is never closed."))
    elif kind == ".mdx":
        problems += [Problem("mdx", body.count("\n", 0, at) + 1, said) for at, said in mdx.problems(prose)]
    quoted = " #" in prose and ("> #" in prose or "- #" in prose or ". #" in prose)
    labels = tuple(found.strip() for found in LABEL.findall(prose)) if "=" in prose and ")=" in prose else ()
    if ":name:" in body:
        labels += tuple(NAMED.findall(body))
    return Facts(
        references=references,
        headings=tuple(intern(each.text) for each in texts if each.explicit is None),
        anchors=tuple({*(each.explicit for each in texts if each.explicit), *_ids(prose), *labels}),
        names=(*(mdx.names(prose) if "<" in prose else ()), *(QUOTED_HEADING.findall(body) if quoted else ())),
        labels=labels,
        fields=fields.fields,
        field_lines=fields.lines,
        has_fields=fields.readable,
        problems=tuple(problems),
        open_ended=_is_open_ended(body, prose, references, fields.fields),
        globbed="{" in body and "{toctree}" in body and ":glob:" in body,
        keys=keys_of(references),
    )


def _fence_mark(body: str, line: int) -> str:
    """Nothing where the fence may be indented code instead."""
    text = body.split("\n", line)[line - 1]
    return "" if text.startswith(("    ", "\t")) else text.strip().lstrip("-*+0123456789.) ")[:3]


def _links(prose: str) -> Iterator[Found]:
    for start, end in inline(prose):
        yield start, "link", prose[start:end]
    if "]:" in prose:
        for match in DEFINITION.finditer(prose):
            if AFTER_DEFINITION.match(prose, match.end()):
                yield match.start(match.lastindex or 0), "link", match[match.lastindex or 0]
    if "<" in prose and "=" in prose:
        for match in ATTRIBUTE.finditer(prose):
            if _is_of_a_link(prose, match.start()):
                yield match.start(), "link", match[match.lastindex or 0]


def _is_of_a_link(prose: str, position: int) -> bool:
    """A component that is not known may mean anything by its attributes."""
    tag = TAG.match(prose, prose.rfind("<", max(0, position - 1000), position) + 1)
    return tag is not None and (tag.group().islower() or tag.group() in LINKING)


def _includes(kind: str, body: str, scanned: markdown.Scanned) -> Iterator[Found]:
    """Some ways to include are carried out before Markdown is, and so in code too."""
    if "<" in body:
        yield from _in_angles(body, scanned)
    if "{" in body:
        yield from _in_braces(kind, body, scanned)
    prose = scanned.prose
    if kind == ".mdx" and ("import" in prose or "export" in prose):
        for match in IMPORT.finditer(prose):
            yield match.start(1), "import", match[1]


def _in_angles(body: str, scanned: markdown.Scanned) -> Iterator[Found]:
    if "8<" in body:
        for match in SNIPPET.finditer(body):
            yield match.start(1), "snippet", match[1]
        for match in SNIPPETS.finditer(body):
            for name in match[1].split("\n"):
                if name.strip() and not name.strip().startswith(";"):
                    yield match.start(), "snippet", name.strip()
    if "@include:" in body or "<<<" in scanned.prose:
        for match in VITEPRESS.finditer(_outside(body, scanned)):
            yield match.start(), "vitepress", match[match.lastindex or 0]
    if "<Snippet" in scanned.prose:
        for match in SNIPPET_TAG.finditer(scanned.prose):
            yield match.start(), "tag", match[1]


def _in_braces(kind: str, body: str, scanned: markdown.Scanned) -> Iterator[Found]:
    if "{%" in scanned.prose:
        for match in LIQUID.finditer(scanned.prose):
            yield match.start(), f"liquid {match[1]}", match[2]
    if "{{" in body and "#" in body:
        for match in MDBOOK.finditer(body):
            yield match.start(), "mdbook", match[1]
    if kind != ".mdx":
        yield from _myst(body, scanned)


def _myst(body: str, scanned: markdown.Scanned) -> Iterator[Found]:
    """Directives are written as fences; one within another fence is only shown."""
    if "{toctree}" in body:
        openings = _openings(body, scanned)
        for start, end in toctree(body):
            if "{toctree}" in openings.get(body.rfind("\n", 0, start) + 1, "{toctree}"):
                yield start, "toctree", body[start:end]
    if "{doc}`" in body or "ref}`" in body:
        outside = _outside(body, scanned)
        for match in MYST.finditer(outside):
            yield match.start(1), "doc", match[1]
        for match in MYST_REF.finditer(outside):
            yield match.start(2), "ref", match[2]
    if any(f"{{{name}}}" in body for name in ("include", "literalinclude", "image", "figure")):
        openings = _openings(body, scanned)
        for match in DIRECTIVE.finditer(body):
            line = body.rfind("\n", 0, match.start(1)) + 1
            if match[1] in openings.get(line, match[1]):
                yield match.start(1), match[1], match[2]


def _openings(body: str, scanned: markdown.Scanned) -> dict[int, str]:
    """The first line of the block of code that each line of code is in, by the positions where lines begin."""
    found: dict[int, str] = {}
    opening, position = "", 0
    for number, line in enumerate(body.split("\n"), 1):
        if number in scanned.fenced:
            opening = opening or line[:LONGEST_OPENING]
            found[position] = opening
        else:
            opening = ""
        position += len(line) + 1
    return found


def _outside(body: str, scanned: markdown.Scanned) -> str:
    """Without fences, but with code spans and comments, where roles and includes are written."""
    if not scanned.fenced:
        return body
    lines = body.split("\n")
    return "\n".join(" " * len(line) if n in scanned.fenced else line for n, line in enumerate(lines, 1))


def _numbered(body: str, found: list[Found]) -> tuple[Reference, ...]:
    """Those that name something of this repository, with their lines. What a template fills in is not known here."""
    references: list[Reference] = []
    line, position = 1, 0
    for start, kind, target in sorted(set(found)):
        if not ELSEWHERE.match(target):
            line += body.count("\n", position, start)
            position = start
            references.append((line, kind, intern(target)))
    return tuple(references)


NO_TEXT = ("link", "toctree", "doc", "ref", "image", "figure", "download", "literalinclude")
TEXTS = (*MARKDOWN, ".rst", ".txt", ".html", "")
ELSEWHERE = re.compile(
    r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|\?|#?$|#(?:top|/|:~:|!)|\.{3}$|…|[^<{}$*\\@]*+(?:[<{}$*\\]|(?<=[^@])@/)"
)


def _ids(prose: str) -> Iterator[str]:
    if "<" in prose:
        yield from IDS.findall(prose)
        yield from UNQUOTED_ID.findall(prose)
    if "{" in prose and "#" in prose:
        yield from ATTRIBUTE_LIST.findall(prose)


def _is_open_ended(body: str, prose: str, references: tuple[Reference, ...], fields: object) -> bool:
    if ("{" in prose or ":::" in prose) and MACRO.search(prose):
        return True
    if "```mdx-code-block" in body or ("{" in body and any(mark in body for mark in GENERATING)):
        return True
    if isinstance(fields, dict) and not fields.keys().isdisjoint(("openapi", "asyncapi", "api", "layout", "template")):
        return True
    return any(_brings_text(kind, target) for _, kind, target in references)


def _brings_text(kind: str, target: str) -> bool:
    if kind == "import":
        return target.startswith((".", "/", "@site/", "!"))
    return kind not in NO_TEXT and (kind in ("snippet", "tag") or extension(target) in TEXTS)
