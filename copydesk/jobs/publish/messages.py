"""Commit messages and titles, and the neutralization of markup that a model or a page may have put into a text."""

import re

from copydesk.core.projects.policy import Policy
from copydesk.jobs.job import Job
from copydesk.jobs.publish.guard.hidden_characters import strip_hidden_characters
from copydesk.jobs.publish.plain_text import choose_title, to_plain_body

# Markup that mentions people, refers to issues, loads images, hides text or runs quick actions on a forge. Escaping it
# with a backslash is not safe, because the text may already have a backslash there.
ACTIVE_MARKUP_PATTERN = re.compile(
    r"(?<![A-Za-z0-9])@(?=\w)"
    r"|[#!](?=\d)(?<!/[#!])"
    r"|\bGH-(?=\d)"
    r"|<(?=[A-Za-z!/?])"
    r"|&(?=#?\w+;)"
    r"|!(?=\[)"
    r"|[`~](?=[`~]{2})"
    r"|^[ \t]*/(?=[a-z])",
    re.M | re.I,
)
CLOSING_KEYWORD_PATTERN = re.compile(
    r"\b(clos|fix|resolv|implement|reopen)(?=(?:e|es|ed|s|d|ing)?\b[\s:]*(?:issues?\s+)?(?:https?:|[A-Z][A-Z0-9_]+-\d))",
    re.I,
)
"""Keywords that close an issue named by its URL, or by its key in an external tracker."""
ZERO_WIDTH_SPACE = "\u200b"
FENCE_PATTERN = re.compile(r"^(`{3,}|~{3,})[^`~\n]*$", re.M)
CODE_SPAN_PATTERN = re.compile(r"`[^`\n]+`")


def neutralize_markup(text: str) -> str:
    """Returns text that looks the same but cannot mention people, close issues, or load or hide anything on a forge.

    Code is left unchanged only where all Markdown parsers agree that it is code; ambiguous code is treated as prose.
    """
    text = strip_hidden_characters(text)
    parts = []
    end = 0
    for start, stop in _find_code_blocks(text):
        parts += [_neutralize_prose(text[end:start]), text[start:stop]]
        end = stop
    return "".join(parts) + _neutralize_prose(text[end:])


def _find_code_blocks(text: str) -> list[tuple[int, int]]:
    """Returns the spans of fenced code blocks.

    Returns none at all when any fence does not start its line or is not closed by an equal fence.
    """
    fences = list(FENCE_PATTERN.finditer(text))
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    all_paired = len(fences) == len(re.findall(r"`{3,}|~{3,}", text)) == 2 * len(pairs)
    if not all_paired or any(one[1] != other[0].rstrip() for one, other in pairs):
        return []
    return [(one.start(), other.end()) for one, other in pairs]


def _neutralize_prose(text: str) -> str:
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    return "".join(
        _neutralize(part) if _has_ambiguous_code(part) else _neutralize_around_code(part) for part in paragraphs
    )


def _has_ambiguous_code(paragraph: str) -> bool:
    """Returns whether Markdown parsers may disagree on which parts of the paragraph are code.

    They do when backticks are escaped, doubled or paired across lines, and in table cells, which end a code span.
    """
    has_unpaired_tick = any(line.count("`") % 2 for line in paragraph.splitlines())
    return has_unpaired_tick or re.search(r"``|\\`|\|", paragraph) is not None


def _neutralize_around_code(paragraph: str) -> str:
    parts = []
    end = 0
    for span in CODE_SPAN_PATTERN.finditer(paragraph):
        parts += [_neutralize(paragraph[end : span.start()]), span[0]]
        end = span.end()
    return "".join(parts) + _neutralize(paragraph[end:])


def _neutralize(text: str) -> str:
    return CLOSING_KEYWORD_PATTERN.sub(
        rf"\1{ZERO_WIDTH_SPACE}", ACTIVE_MARKUP_PATTERN.sub(lambda found: found[0] + ZERO_WIDTH_SPACE, text)
    )


def to_one_line(text: str, max_chars: int = 200) -> str:
    """Returns the text as one line without control characters, for use as a title."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:max_chars].strip() or "Documentation"


def format_pull_title(text: str) -> str:
    """Returns the title of a pull request, neutralized because a forge may use it as the title of a commit."""
    return _neutralize(to_one_line(text))


def build_commit_message(job: Job, policy: Policy, title: str, summary: str) -> str:
    """Returns the commit message, with a plain subject and body.

    Trailers come only from the policy; lines of the summary cannot act as trailers."""
    trailers = [f"Copydesk-Job: {job.id}", *(f"Co-authored-by: {person}" for person in policy.co_authors)]
    if policy.sign_off:
        trailers.append(f"Signed-off-by: {policy.author_name} <{policy.author_email}>")
    body = re.sub(
        r"^(?=[A-Za-z-]+-by:|Copydesk-Job:)",
        " ",
        _neutralize(strip_hidden_characters(to_plain_body(summary, title))),
        flags=re.M | re.I,
    )
    return (
        "\n\n".join(
            part for part in (format_pull_title(choose_title(title, summary)), body, "\n".join(trailers)) if part
        )
        + "\n"
    )
