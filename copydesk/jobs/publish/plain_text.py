"""Plain subjects and bodies for commits, from a model's text, which may follow a template for pull requests."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TEMPLATE_HEADINGS = frozenset(
    (
        *("about", "change", "changes", "changes made", "context", "description", "documentation", "goal"),
        *("motivation", "overview", "proposed change", "proposed changes", "pull request", "purpose", "summary"),
        *("summary of changes", "tldr", "type of change", "what", "what and why", "what changed", "whats changed"),
        *("what does this pr do", "what does this pull request do", "what this pr does", "why"),
    )
)
"""Headings that say nothing about the change, in lower case and without punctuation."""
HEADING_PATTERN = re.compile(r"^ {0,3}#{1,6}(?:[ \t]+(?P<text>.*?))?(?:[ \t]+#*)?[ \t]*$")
BOLD_LINE_PATTERN = re.compile(r"^ {0,3}(?:\*\*|__)(?P<text>[^*_]+)(?:\*\*|__):?[ \t]*$")
UNDERLINE_PATTERN = re.compile(r"^ {0,3}(?:=+|-{2,})[ \t]*$")
FENCE_LINE_PATTERN = re.compile(r"^ {0,3}(`{3,}|~{3,})")
OPEN_BOX_PATTERN = re.compile(r"^\s*[-*+] \[ \]")
TEMPLATE_MARK_PATTERN = re.compile(r"^(?:#{1,6}|[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
TICKED_BOX_PATTERN = re.compile(r"^(\s*[-*+]) \[[xX]\](?= )")
RULE_PATTERN = re.compile(r"^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
CODE_SPAN_PATTERN = re.compile(r"(`+)[^`\n](?:.*?[^`\n])?\1(?!`)")
TAG_PATTERN = re.compile(
    r"</?(?:a|b|br|center|details|div|em|h[1-6]|hr|i|img|kbd|p|picture|source|span|strong|sub|summary|sup)\b[^<>\n]*>",
    re.I,
)
IMAGE_PATTERN = re.compile(r"!\[([^][\n]*)\]\([^()\n]*\)")
LINK_PATTERN = re.compile(r"\[([^][\n]*)\]\(<?([^()\s<>]*)>?(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?\)")
BOLD_PATTERN = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
SENTENCE_END_PATTERN = re.compile(r"(?<=[.!?])\s")


class _Section(NamedTuple):
    heading: str
    lines: list[str]

    @property
    def is_empty(self) -> bool:
        return not any(line.strip() for line in self.lines)


def choose_title(title: str, summary: str) -> str:
    """Returns the title without the marks of a heading; the first sentence of the summary if it is a template's."""
    plain_title = _strip_marks(title)
    if plain_title and not _is_template_heading(plain_title):
        return plain_title
    first_line = next((line.strip() for line in to_plain_body(summary, title).splitlines() if line.strip()), "")
    return SENTENCE_END_PATTERN.split(first_line, maxsplit=1)[0].removesuffix(".") or plain_title or title


def to_plain_body(text: str, title: str = "", template: str = "") -> str:
    """Returns the text as the body of a commit message, without the structure of Markdown.

    Git drops lines that begin with `#` when a commit is amended, so headings become plain lines. Leaves out headings
    and other lines of a template for pull requests, a leading heading that repeats the title, sections without text,
    comments, and boxes that are not ticked.
    """
    lines = _strip_comments(template).splitlines()
    template_lines = {_normalize_line(line) for line in lines if not FENCE_LINE_PATTERN.match(line)} - {""}
    parts: list[str] = []
    for section in _split_sections(_strip_comments(text)):
        lines = [line for line in section.lines if _normalize_line(line) not in template_lines]
        if not any(line.strip() for line in lines):
            continue
        repeats_title = not parts and section.heading.casefold() == _strip_marks(title).casefold()
        is_template = _normalize_line(section.heading) in template_lines or _is_template_heading(section.heading)
        if section.heading and not is_template and not repeats_title:
            parts.append(_strip_inline_marks(section.heading))
        parts.append("\n".join(_strip_line_marks(lines)).strip("\n").rstrip())
    return "\n\n".join(part for part in parts if part)


def _normalize_line(line: str) -> str:
    """Returns the words of a line of a template, in lower case and without the marks of a heading, list or box."""
    bare = TEMPLATE_MARK_PATTERN.sub("", line.strip())
    words = "".join(char for char in bare.casefold() if char.isalnum() or char.isspace())
    return " ".join(words.split())


def _strip_line_marks(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines of a section as plain text. Fenced code is indented instead, and rules are left out."""
    fence = ""
    for line in lines:
        mark = FENCE_LINE_PATTERN.match(line)
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                yield f"    {line}".rstrip()
        elif mark:
            fence = mark[1]
        elif not RULE_PATTERN.match(line):
            yield _strip_inline_marks(line)


def _strip_inline_marks(line: str) -> str:
    parts = []
    end = 0
    for span in CODE_SPAN_PATTERN.finditer(line):
        parts += [_strip_prose_marks(line[end : span.start()]), span[0]]
        end = span.end()
    return "".join(parts) + _strip_prose_marks(line[end:])


def _strip_prose_marks(text: str) -> str:
    text = IMAGE_PATTERN.sub(r"\1", TAG_PATTERN.sub("", text))
    return BOLD_PATTERN.sub(r"\1", LINK_PATTERN.sub(_describe_link, text))


def _describe_link(link: re.Match[str]) -> str:
    text, target = link[1], link[2]
    return (
        f"{text} ({target})"
        if target.startswith(("https://", "http://")) and text not in (target, "")
        else text or target
    )


def _split_sections(text: str) -> list[_Section]:
    sections = [_Section("", [])]
    fence = ""
    for line in text.splitlines():
        lines = sections[-1].lines
        mark = FENCE_LINE_PATTERN.match(line)
        if fence:
            lines.append(line)
            fence = "" if line.strip() == fence else fence
        elif mark:
            fence = mark[1]
            lines.append(line)
        elif (heading := HEADING_PATTERN.match(line) or _match_leading_bold(line, sections)) is not None:
            sections.append(_Section((heading["text"] or "").strip(), []))
        elif UNDERLINE_PATTERN.match(line) and lines and lines[-1].strip() and not lines[-1].startswith((" ", "\t")):
            sections.append(_Section(lines.pop().strip(), []))
        elif not OPEN_BOX_PATTERN.match(line):
            lines.append(TICKED_BOX_PATTERN.sub(r"\1", line))
    return sections


def _match_leading_bold(line: str, sections: list[_Section]) -> re.Match[str] | None:
    """Returns the match of a bold line in place of a first heading, such as `**Summary**`."""
    if any(section.heading or not section.is_empty for section in sections):
        return None
    match = BOLD_LINE_PATTERN.match(line)
    return match if match and _is_template_heading(match["text"]) else None


def _strip_comments(text: str) -> str:
    """Returns the text without HTML comments, in which templates give instructions."""
    parts = []
    end = 0
    while (start := text.find("<!--", end)) >= 0 and (close := text.find("-->", start)) >= 0:
        parts.append(text[end:start])
        end = close + len("-->")
    return "".join(parts) + text[end:]


def _strip_marks(title: str) -> str:
    line = title.strip()
    match = HEADING_PATTERN.match(line) or BOLD_LINE_PATTERN.match(line)
    return (match["text"] or "").strip() if match else line


def _is_template_heading(text: str) -> bool:
    return _normalize_line(text) in TEMPLATE_HEADINGS
