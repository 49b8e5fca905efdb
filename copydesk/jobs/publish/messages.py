"""Commit messages and titles, and the neutralization of markup that a model or a page may have put into a text."""

import re
from collections.abc import Collection, Sequence

from copydesk.core.projects.policy import CO_AUTHOR_PATTERN, Policy
from copydesk.jobs.job import Job
from copydesk.jobs.publish.closing_keywords import KEYWORD, split_closings
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
    r"\b(clos|fix|resolv|implement|reopen)(?=(?:e|es|ed|s|d|ing)?\b[\s:]*(?:issues?\s+)?(?:https?:|(?-i:[A-Z][A-Z0-9_]+-\d)))",
    re.I,
)
"""Keywords that close an issue named by its URL, or by its key in an external tracker."""
MAX_TITLE_CHARS = 200
ZERO_WIDTH_SPACE = "\u200b"
FENCE_PATTERN = re.compile(r"^( {0,3})(`{3,}|~{3,})[^`~\n]*$", re.M)
CODE_SPAN_PATTERN = re.compile(r"`[^`\n]+`")
PLAIN_REPLACEMENTS = (
    (re.compile(r"&(?=#?\w+;)"), "& "),
    (re.compile(r"(?<![A-Za-z0-9])@+(?=\w)"), ""),
    (
        re.compile(r"(\b(?:bugs?|issues?|[mp]rs?|(?:merge|pull) requests?|no\.|numbers?|tickets?)\s+)[#!](?=\d)", re.I),
        r"\1",
    ),
    (re.compile(r"(?<=\w)#(?=\d)"), " issue "),
    (re.compile(r"(?<!/)#(?=\d)|\bGH-(?=\d)", re.I), "issue "),
    (re.compile(r"(?<=\w)!(?=\d)"), " merge request "),
    (re.compile(r"(?<!/)!(?=\d)"), "merge request "),
    (re.compile(r"!(?=\[)"), ""),
    (re.compile(r"\[[ \t]*((?:skip|no)[ \t-]+(?:ci|actions)|(?:ci|actions)[ \t-]+skip)[ \t]*\]", re.I), r"(\1)"),
    (re.compile(r"<(?=[A-Za-z!/?])([^<>\n]*)>"), "‹\\1›"),
    (re.compile(r"<(?=[A-Za-z!/?])"), "‹"),
    (re.compile(r"([`~])[`~]{2,}"), r"\1"),
    (re.compile(r"^([ \t]*)(/[a-z]\S*)", re.M | re.I), r"\1“\2”"),
    (re.compile(rf"\b({KEYWORD})[\s:]+(?:issues?\s+)?(?=https?:)", re.I), r"\1, see "),
    (
        re.compile(rf"(\b{KEYWORD}[\s:]+(?:issues?\s+)?(?-i:[A-Z][A-Z0-9_]+))-(?=\d)", re.I),
        "\\1\N{NON-BREAKING HYPHEN}",
    ),
)
"""What takes the place of active markup in texts that are not rendered, so that they have no hidden characters."""


def neutralize_markup(text: str, closed_issues: Collection[str] = ()) -> str:
    """Returns text that looks the same but cannot mention people, close issues, or load or hide anything on a forge.

    Code is left unchanged only where all Markdown parsers agree that it is code; ambiguous code is treated as prose.
    Keywords that close only `closed_issues`, which a person asked for, are left unchanged too.
    """
    text = strip_hidden_characters(text)
    parts = []
    end = 0
    for start, stop in _find_code_blocks(text):
        parts += [_neutralize_prose(text[end:start], closed_issues), text[start:stop]]
        end = stop
    return "".join(parts) + _neutralize_prose(text[end:], closed_issues)


def neutralize_plainly(text: str, closed_issues: Collection[str] = ()) -> str:
    """Returns text for titles and commits with words in place of what would act on a forge, and nothing hidden."""
    parts = split_closings(strip_hidden_characters(text).replace(ZERO_WIDTH_SPACE, ""), closed_issues)
    return "".join(part if is_kept else _replace_markup(part) for part, is_kept in parts)


def _replace_markup(text: str) -> str:
    """Replaces active markup, also what only appears by a replacement, as in `#@1`."""
    before = None
    while text != before:
        before = text
        for pattern, replacement in PLAIN_REPLACEMENTS:
            text = pattern.sub(replacement, text)
    return text


def _find_code_blocks(text: str) -> list[tuple[int, int]]:
    """Returns the spans of fenced code blocks.

    Returns none at all when any fence does not start its line, is not closed by an equal fence, or has lines that are
    indented less: in a list, they would end it.
    """
    fences = list(FENCE_PATTERN.finditer(text))
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    all_paired = len(fences) == len(re.findall(r"`{3,}|~{3,}", text)) == 2 * len(pairs)
    if not all_paired or any(one[1] + one[2] != other[0].rstrip() for one, other in pairs):
        return []
    spans = [(one.start(), other.end()) for one, other in pairs]
    lines = ((line, one[1]) for one, other in pairs for line in text[one.end() : other.start()].splitlines())
    return spans if all(line.startswith(indent) or not line.strip() for line, indent in lines) else []


def _neutralize_prose(text: str, closed_issues: Collection[str]) -> str:
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    return "".join(
        _neutralize(part, closed_issues) if _has_ambiguous_code(part) else _neutralize_around_code(part, closed_issues)
        for part in paragraphs
    )


def _has_ambiguous_code(paragraph: str) -> bool:
    """Returns whether Markdown parsers may disagree on which parts of the paragraph are code.

    They do when backticks are escaped, doubled or paired across lines, and in table cells, which end a code span.
    """
    has_unpaired_tick = any(line.count("`") % 2 for line in paragraph.splitlines())
    return has_unpaired_tick or re.search(r"``|\\`|\|", paragraph) is not None


def _neutralize_around_code(paragraph: str, closed_issues: Collection[str]) -> str:
    parts = []
    end = 0
    for span in CODE_SPAN_PATTERN.finditer(paragraph):
        parts += [_neutralize(paragraph[end : span.start()], closed_issues), span[0]]
        end = span.end()
    return "".join(parts) + _neutralize(paragraph[end:], closed_issues)


def _neutralize(text: str, closed_issues: Collection[str]) -> str:
    parts = split_closings(text, closed_issues)
    return "".join(part if is_kept else _break_markup(part) for part, is_kept in parts)


def _break_markup(text: str) -> str:
    return CLOSING_KEYWORD_PATTERN.sub(
        rf"\1{ZERO_WIDTH_SPACE}", ACTIVE_MARKUP_PATTERN.sub(lambda found: found[0] + ZERO_WIDTH_SPACE, text)
    )


def to_one_line(text: str, max_chars: int = MAX_TITLE_CHARS) -> str:
    """Returns the text as one line without control characters, for use as a title."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:max_chars].strip() or "Documentation"


def format_pull_title(text: str, closed_issues: Collection[str] = ()) -> str:
    """Returns the title of a pull request, neutralized because a forge may use it as the title of a commit."""
    title = to_one_line(neutralize_plainly(to_one_line(text), closed_issues), MAX_TITLE_CHARS + 1)
    return title if len(title) <= MAX_TITLE_CHARS else title.rpartition(" ")[0] or title[:MAX_TITLE_CHARS]


def build_commit_message(
    job: Job,
    policy: Policy,
    title: str,
    summary: str,
    *,
    template: str = "",
    closed_issues: Collection[str] = (),
    requesters: Sequence[str] = (),
) -> str:
    """Returns the commit message, with a plain subject and body.

    `template` is the repository's own for pull requests, `requesters` are people as `Name <address>`. Trailers come
    only from them and the policy; lines of the summary cannot act as trailers."""
    co_authors = _list_co_authors(policy, requesters)
    trailers = [f"Copydesk-Job: {job.id}", *(f"Co-authored-by: {person}" for person in co_authors)]
    if policy.sign_off:
        trailers.append(f"Signed-off-by: {policy.author_name} <{policy.author_email}>")
    body = re.sub(
        r"^(?=[A-Za-z-]+-by:|Copydesk-Job:)",
        " ",
        neutralize_plainly(to_plain_body(summary, title, template), closed_issues),
        flags=re.M | re.I,
    )
    subject = format_pull_title(choose_title(title, summary), closed_issues)
    return "\n\n".join(part for part in (subject, body.strip("\n"), "\n".join(trailers)) if part) + "\n"


def _list_co_authors(policy: Policy, requesters: Sequence[str]) -> Collection[str]:
    """Returns the co-authors, each address once and without that of the author."""
    named = (*policy.co_authors, *(requesters if policy.credit_requesters else ()))
    people = [person for person in named if CO_AUTHOR_PATTERN.fullmatch(person)]
    by_address = {person.rpartition("<")[2].rstrip(">").casefold(): person for person in reversed(people)}
    by_address.pop(policy.author_email.casefold(), None)
    return list(by_address.values())[::-1]
