"""Secrets that a change would publish: what looks like one in its added lines, and values that are known to be one."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from copydesk.core.ids import is_wellformed_key
from copydesk.core.text.redaction import BLOT, blotted, forms
from copydesk.jobs.publish.guard.added_lines import Addition

if TYPE_CHECKING:
    from detect_secrets.plugins.base import RegexBasedDetector

PRIVATE_KEY = "Private Key"
OPENAI, OPENAI_MARK = "OpenAI Token", "T3BlbkFJ"
# One prefix each, of providers whose keys a documentation team has at hand and the detector does not know.
MORE = {
    "Anthropic API key": re.compile(r"sk-ant-[a-z]+\d\d-[\w-]{80,}"),
    "GitHub fine-grained token": re.compile(r"github_pat_\w{22}_\w{59}"),
    "Google API key": re.compile(r"AIza[\w-]{35}(?![\w-])"),
    "Hugging Face token": re.compile(r"hf_[A-Za-z]{34}(?!\w)"),
    "Slack app token": re.compile(r"xapp-\d-[A-Z0-9]+-\d+-[a-f0-9]{64}"),
    "npm token": re.compile(r"npm_[A-Za-z0-9]{36}(?!\w)"),
}
OUR_KEY = re.compile(r"desk_[0-9A-Za-z]{38}(?![0-9A-Za-z])")
KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}.*")
PLACEHOLDER = re.compile(r"example|placeholder|your|dummy|sample|redacted|x{4}|0{6}|12345|abcdef|\.\.\.|\*{3}", re.I)
LEAST_VARIETY = 10
MAX_UNCLEAR = 100
INVISIBLE = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")


def find_secret(addition: Addition) -> tuple[int, str] | None:
    """The first added line with a secret in it, and the kind of secret; never the secret."""
    lines = list(addition.lines())
    text = "\n".join(line for _, line in lines)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    before: set[str] | None = None
    unclear = 0
    for position, kind, value in sorted(_found(text)):
        if kind == PRIVATE_KEY:
            is_real = any(not PLACEHOLDER.search(line) for line in KEY_MATERIAL.findall(text, position, position + 400))
        else:
            is_real = not PLACEHOLDER.search(value) and len(set(value)) >= LEAST_VARIETY
        if not is_real:
            continue
        before = {known for _, _, known in _found(addition.before.body)} if before is None else before
        if value in before:
            continue
        unclear += 1  # it may still be there as a part of something else, which takes longer to tell
        if unclear > MAX_UNCLEAR or value not in addition.before.body:
            return lines[bisect_right(starts, position) - 1][0], kind
    return None


def without_secrets(text: str, known: Sequence[str]) -> str:
    """For what a person asked, which is quoted: a secret in it is blotted out, and no reason to refuse."""
    for _, _, value in list(_found(text)):
        if not PLACEHOLDER.search(value):
            text = text.replace(value, BLOT)
    return blotted(text, *known)


def find_known(data: bytes, known: Sequence[str], before: bytes = b"") -> int | None:
    """The line (0 where that cannot be told) in which one of the values appears, also encoded or broken up."""
    if not known:
        return None
    joined, joined_before = _joined(data), _joined(before)
    for value in known:
        for form in forms(value):
            if form in data and form not in before:
                return data.count(b"\n", 0, data.index(form)) + 1
            broken = _joined(form)
            if broken in joined and broken not in joined_before:
                return 0
    return None


def _found(text: str) -> Iterator[tuple[int, str, str]]:
    for kind, pattern in _patterns():
        if kind == OPENAI and OPENAI_MARK not in text:
            continue  # its pattern takes ever longer over many beginnings without this
        for match in pattern.finditer(text):
            yield match.start(), kind, match.group()
    for match in OUR_KEY.finditer(text):
        if is_wellformed_key(match.group()):
            yield match.start(), "Copydesk API key", match.group()


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """The maintained detector's, of those plugins that know a secret by its form, and ours.

    Not those that guess by entropy or by a name such as `password`, and not JSON web tokens or addresses with a
    password in them: documentation is full of examples of these. Taken from the plugins and not asked of them, for
    some answer with the prefix alone.
    """
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        github_token,
        gitlab_token,
        openai,
        private_key,
        pypi_token,
        sendgrid,
        slack,
        square_oauth,
        stripe,
        telegram_token,
        twilio,
    )

    detectors: list[type[RegexBasedDetector]] = [
        aws.AWSKeyDetector,
        azure_storage_key.AzureStorageKeyDetector,
        github_token.GitHubTokenDetector,
        gitlab_token.GitLabTokenDetector,
        openai.OpenAIDetector,
        private_key.PrivateKeyDetector,
        pypi_token.PypiTokenDetector,
        sendgrid.SendGridDetector,
        slack.SlackDetector,
        square_oauth.SquareOAuthDetector,
        stripe.StripeDetector,
        telegram_token.TelegramBotTokenDetector,
        twilio.TwilioKeyDetector,
    ]
    known = [
        (str(one.secret_type), pattern) for one in detectors for pattern in cast(list[re.Pattern[str]], one.denylist)
    ]
    return [*known, *MORE.items()]


def _joined(data: bytes) -> str:
    return INVISIBLE.sub("", data.decode("utf-8", "replace"))
