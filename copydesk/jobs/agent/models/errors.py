"""What went wrong with a model, as a sentence for a person: in the provider's words, without anybody's secrets."""

import re
from typing import TYPE_CHECKING

from copydesk.core.text.redaction import blotted
from copydesk.jobs.agent.conversation import ModelFailed
from copydesk.jobs.job import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

LONGEST_SENTENCE = 500
SHORTEST_LEAK = 8
DEEPEST_WORDS = 10
SECRET = re.compile(r"""\b(?:sk-|AIza)[^\s"',;)}\]]+|\bbearer\s+[^\s"',;)}\]]+""", re.IGNORECASE)
WORD = re.compile(r"""[^\s"',;:()\[\]{}<>`]+""")
MASKED = re.compile(r"\*{3,}|•{2,}|…\w|\w\.{3}\w")
CREDENTIALS = re.compile(r"(?<=//)[^/\s@]+@")
# How servers say it that have no code for it: llama.cpp, LM Studio, gateways.
TOO_LONG = re.compile(
    r"context[ _](size|length|window|limit)|(prompt|input|request) is too (long|large)|too many (input )?tokens", re.I
)


class Incomplete(Exception):
    """An answer that ended, but not as an answer ends."""


class Broken(Exception):
    """A try that came to nothing, and what it cost nevertheless."""

    def __init__(self, error: Exception, usage: Usage) -> None:
        super().__init__(str(error))
        self.error, self.usage = error, usage


class Trouble(ModelFailed):
    """A failure, and whether another try is worth it."""

    def __init__(self, message: str, usage: Usage, *, may_pass: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message, usage)
        self.may_pass, self.retry_after = may_pass, retry_after

    def out_of_time(self, wait: float, left: float) -> ModelFailed:
        words = str(self).removesuffix(".")
        return ModelFailed(
            f"{words}. The next try would have to wait {wait:.0f} s, and the job has {max(left, 0):.0f} s left.",
            self.usage,
        )


class TooLong(Trouble):
    """The conversation does not fit into the model's window."""


def whole(response: "ModelResponse") -> "ModelResponse":
    """The response; Incomplete when its stream ended too early, or the provider could make no sense of its model."""
    if response.state != "complete" or response.finish_reason is None:
        raise Incomplete("its answer broke off in the middle.")
    if response.finish_reason == "error":
        reason = (response.provider_details or {}).get("finish_reason", "an error")
        raise Incomplete(f"its answer ended with {reason}.")
    return response


def refused(response: "ModelResponse", name: str) -> str | None:
    """Why an answer that came to its end is none, or None when it is one."""
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        words = details.get("refusal") or details.get("block_reason") or details.get("finish_reason") or ""
        return short(f"{name} refused to answer, or its provider's content filter did: {words}".removesuffix(": "))
    if response.finish_reason == "length" and not response.tool_calls:
        return f"{name} broke off its answer: it had reached the most tokens that one answer may have (length)."
    return None


def judged(broken: Broken, name: str, key: str | None, spent: Usage) -> Trouble:
    from pydantic_ai import exceptions

    error = broken.error
    said = _words(getattr(error, "body", None)) or str(error) or type(error).__name__
    status = getattr(error, "status_code", None)
    provider, _, model = name.partition(":")
    answered = f"{name} answered {status}" if status else f"{name} gave no answer"

    def told(head: str) -> str:
        return short(without_secrets(f"{head}: {said}", key))

    if isinstance(error, exceptions.ModelContextWindowExceededError) or (
        status in (400, 413, 422, 500) and TOO_LONG.search(said)
    ):
        head = f"The conversation does not fit into the window of {name}, even with its older tool results left out"
        return TooLong(told(head), spent)
    if isinstance(error, exceptions.ModelAuthenticationError):
        return Trouble(told(f"{answered}, so its API key is not accepted"), spent)
    if isinstance(error, exceptions.ModelNotFoundError):
        suggested = getattr(error, "suggested_model_id", None)
        hint = f" (perhaps {suggested} is meant)" if suggested else ""
        return Trouble(
            told(f"{provider} knows no model {model}{hint}, or is not at this address; it answered {status}"), spent
        )
    if isinstance(error, Incomplete):
        return Trouble(told(name), spent, may_pass=True)
    return Trouble(told(answered), spent, may_pass=_may_pass(error), retry_after=getattr(error, "retry_after", None))


def _may_pass(error: Exception) -> bool:
    """Whatever is not known to stay so. That goes for an answer that the provider's own library cannot read, too."""
    from pydantic_ai import exceptions

    if getattr(error, "provider_retry_hint", None) is False or isinstance(error, exceptions.UserError):
        return False
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return False
    return getattr(error, "status_code", 500) in (408, 409, 425, 429, *range(500, 600))


def without_secrets(text: str, key: str | None) -> str:
    """Keys are taken out, whole or in part: providers like to repeat a wrong one with its middle blotted out."""
    if key is not None and len(key) < SHORTEST_LEAK:
        key = None  # a word such as EMPTY, for a server of one's own
    text = CREDENTIALS.sub("", SECRET.sub("[key]", blotted(text, key)))
    return WORD.sub(lambda word: "[key]" if MASKED.search(word[0]) or _leaks(word[0], key) else word[0], text)


def _leaks(word: str, key: str | None) -> bool:
    """Whether a good part of the key stands in the word."""
    if key is None or len(word) < SHORTEST_LEAK:
        return False
    return any(key[n : n + SHORTEST_LEAK] in word for n in range(len(key) - SHORTEST_LEAK + 1))


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SENTENCE else text[: LONGEST_SENTENCE - 1] + "…"


def _words(body: object, depth: int = 0) -> str:
    """The sentence in a provider's error, wherever that provider puts it."""
    if depth > DEEPEST_WORDS:
        return ""
    if isinstance(body, list):
        return next(filter(None, (_words(part, depth + 1) for part in body)), "")
    if isinstance(body, dict):
        return next(filter(None, (_words(body.get(key), depth + 1) for key in ("error", "message", "detail"))), "")
    return body if isinstance(body, str) else ""
