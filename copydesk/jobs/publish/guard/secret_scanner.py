"""Finds secrets in a change: added text that looks like a secret, and known secret values."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from copydesk.core.ids import is_wellformed_key
from copydesk.core.text.redaction import MASK, list_encodings, redact
from copydesk.jobs.publish.guard.added_lines import ProposedFile
from copydesk.jobs.publish.guard.secret_rules import PRIVATE_KEY_KIND, SECRET_RULES

COPYDESK_KEY_PATTERN = re.compile(r"desk_[0-9A-Za-z]{38}(?![0-9A-Za-z])")
KEY_MATERIAL_PATTERN = re.compile(r"[A-Za-z0-9+/]{40}.*")
KEY_LINES_PATTERN = re.compile(
    r"[A-Za-z0-9+/=]{40,}(?:(?:\s|\\[rn])+[A-Za-z0-9+/=]{40,})*(?:(?:\s|\\[rn])+[A-Za-z0-9+/=]+(?=(?:\s|\\[rn])+-))?"
)
"""Matches the lines of a private key, also where `\\n` stands for their ends; the last one may be short."""
PLACEHOLDER_PATTERN = re.compile(
    r"example|placeholder|your|dummy|sample|redacted|x{4}|0{6}|12345|abcdef|\.\.\.|\*{3}", re.I
)
MIN_DISTINCT_CHARS = 10
MAX_UNCLEAR_VALUES = 100
INVISIBLE_PATTERN = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")


class Candidate(NamedTuple):
    """A value that looks like a secret."""

    position: int
    kind: str
    value: str


def find_secret(file: ProposedFile) -> tuple[int, str] | None:
    """Returns the first added line with a secret and the kind of the secret, never the secret itself; None if clean."""
    lines = list(file.added_lines())
    text = "\n".join(line for _, line in lines)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    values_before: set[str] | None = None
    unclear_count = 0
    for position, kind, value in sorted(_find_candidates(text)):
        if kind == PRIVATE_KEY_KIND:
            is_real = any(
                not PLACEHOLDER_PATTERN.search(line)
                for line in KEY_MATERIAL_PATTERN.findall(text, position, position + 400)
            )
        else:
            is_real = not PLACEHOLDER_PATTERN.search(value) and len(set(value)) >= MIN_DISTINCT_CHARS
        if not is_real:
            continue
        values_before = (
            {candidate.value for candidate in _find_candidates(file.before.body)}
            if values_before is None
            else values_before
        )
        if value in values_before:
            continue
        unclear_count += 1  # the old text may contain the value in a longer word; searching it is slow
        if unclear_count > MAX_UNCLEAR_VALUES or value not in file.before.body:
            return lines[bisect_right(starts, position) - 1][0], kind
    return None


def redact_secrets(text: str, known_secrets: Sequence[str]) -> str:
    """Redacts secrets in a quoted prompt. A secret in the prompt is no reason to refuse the change."""
    candidates = list(_find_candidates(text))
    for candidate in candidates:
        if not PLACEHOLDER_PATTERN.search(candidate.value):
            text = text.replace(candidate.value, MASK)
    if any(candidate.kind == PRIVATE_KEY_KIND for candidate in candidates):
        text = KEY_LINES_PATTERN.sub(MASK, text)
    return redact(text, *known_secrets)


def find_known_secret(data: bytes, secrets: Sequence[str], before: bytes = b"") -> int | None:
    """Returns the first line with one of the secrets, plain, encoded or broken by white space; None if there is none.

    0 means that the line is unknown.
    """
    if not secrets:
        return None
    joined = _join_text(data)
    joined_before = _join_text(before)
    for secret in secrets:
        for form in list_encodings(secret):
            if form in data and form not in before:
                return data.count(b"\n", 0, data.index(form)) + 1
            joined_form = _join_text(form)
            if joined_form in joined and joined_form not in joined_before:
                return 0
    return None


def _find_candidates(text: str) -> Iterator[Candidate]:
    for kind, pattern in _compile_rules():
        for match in pattern.finditer(text):
            yield Candidate(match.start(), kind, match.group())
    for match in COPYDESK_KEY_PATTERN.finditer(text):
        if is_wellformed_key(match.group()):
            yield Candidate(match.start(), "Copydesk API key", match.group())


@cache
def _compile_rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((rule.kind, re.compile(rule.pattern)) for rule in SECRET_RULES)


def _join_text(data: bytes) -> str:
    return INVISIBLE_PATTERN.sub("", data.decode("utf-8", "replace"))
