"""Keywords that close an issue when a pull request is merged, such as `Fixes #12`. Only those of a person may act."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile

from copydesk.core.text.quoted_text import remove_quotes_and_code

KEYWORD = r"(?:clos|fix|resolv|implement|reopen)(?:es|ed|ing|e|s|d)?"
REFERENCE = (
    r"(?:https?://[^\s<>()]+/\d+|(?:[\w.-]+/)*[\w.-]*(?<![/.])[#!]\d+|GH-\d+|(?-i:[A-Z][A-Z0-9_]+-\d+))"
    r"(?![\w/#@-]|\.\w)"
)
CONJUNCTION = r"(?:[ \t]*,[ \t]*and|[ \t]*,|[ \t]+and)[ \t]+"
CLOSING_PATTERN = re.compile(
    rf"\b{KEYWORD}\b[ \t]*:?[ \t]+(?:issues?[ \t]+)?{REFERENCE}(?:{CONJUNCTION}{REFERENCE})*", re.I
)
REFERENCE_PATTERN = re.compile(REFERENCE, re.I)


def find_closed_issues(prompts: Iterable[str]) -> set[str]:
    """Returns the issues that people want to close with these prompts. What they quote is not theirs."""
    texts = map(remove_quotes_and_code, prompts)
    return {issue for text in texts for phrase in CLOSING_PATTERN.findall(text) for issue in _list_issues(phrase)}


def split_closings(text: str, closed_issues: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a text in order, each with whether it closes issues, and nothing but these."""
    end = 0
    for phrase in CLOSING_PATTERN.finditer(text) if closed_issues else ():
        issues = REFERENCE_PATTERN.finditer(text, phrase.start(), phrase.end())
        wanted = list(takewhile(lambda issue: issue[0].casefold() in closed_issues, issues))
        if wanted:
            yield text[end : phrase.start()], False
            end = wanted[-1].end()
            yield text[phrase.start() : end], True
    yield text[end:], False


def _list_issues(phrase: str) -> set[str]:
    return {issue.casefold() for issue in REFERENCE_PATTERN.findall(phrase)}
