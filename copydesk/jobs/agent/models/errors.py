"""What went wrong with a model, as a sentence for a person: in the provider's words, without anybody's secrets."""

import re
from typing import TYPE_CHECKING

from copydesk.core.text.redaction import redact
from copydesk.jobs.agent.conversation import ModelFailed
from copydesk.jobs.job import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

MAX_MESSAGE_CHARS = 500
MIN_LEAK_CHARS = 8
MAX_ERROR_DEPTH = 10
SECRET_PATTERN = re.compile(r"""\b(?:sk-|AIza)[^\s"',;)}\]]+|\bbearer\s+[^\s"',;)}\]]+""", re.IGNORECASE)
WORD_PATTERN = re.compile(r"""[^\s"',;:()\[\]{}<>`]+""")
MASKED_KEY_PATTERN = re.compile(r"\*{3,}|•{2,}|…\w|\w\.{3}\w")
URL_CREDENTIALS_PATTERN = re.compile(r"(?<=//)[^/\s@]+@")
# How servers say it that have no code for it: llama.cpp, LM Studio, gateways.
TOO_LONG_PATTERN = re.compile(
    r"context[ _](size|length|window|limit)|(prompt|input|request) is too (long|large)|too many (input )?tokens", re.I
)


class IncompleteResponse(Exception):
    """An answer that ended, but not as an answer ends."""


class FailedAttempt(Exception):
    """A try that came to nothing, and what it cost nevertheless."""

    def __init__(self, error: Exception, usage: Usage) -> None:
        super().__init__(str(error))
        self.error, self.usage = error, usage


class ProviderError(ModelFailed):
    """A failure, and whether another try is worth it."""

    def __init__(
        self, message: str, usage: Usage, *, is_transient: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, usage)
        self.is_transient, self.retry_after = is_transient, retry_after

    def out_of_time_error(self, wait_seconds: float, seconds_left: float) -> ModelFailed:
        message = str(self).removesuffix(".")
        return ModelFailed(
            f"{message}. The next try would have to wait {wait_seconds:.0f} s,"
            f" and the job has {max(seconds_left, 0):.0f} s left.",
            self.usage,
        )


class ConversationTooLong(ProviderError):
    """The conversation does not fit into the model's window."""


def require_complete(response: "ModelResponse") -> "ModelResponse":
    """The response; Incomplete when its stream ended too early, or the provider could make no sense of its model."""
    if response.state != "complete" or response.finish_reason is None:
        raise IncompleteResponse("its answer broke off in the middle.")
    if response.finish_reason == "error":
        reason = (response.provider_details or {}).get("finish_reason", "an error")
        raise IncompleteResponse(f"its answer ended with {reason}.")
    return response


def refusal_reason(response: "ModelResponse", name: str) -> str | None:
    """Why an answer that came to its end is none, or None when it is one."""
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        explanation = details.get("refusal") or details.get("block_reason") or details.get("finish_reason") or ""
        return shorten(
            f"{name} refused to answer, or its provider's content filter did: {explanation}".removesuffix(": ")
        )
    if response.finish_reason == "length" and not response.tool_calls:
        return f"{name} broke off its answer: it had reached the most tokens that one answer may have (length)."
    return None


def classify_failure(attempt: FailedAttempt, name: str, api_key: str | None, spent: Usage) -> ProviderError:
    from pydantic_ai import exceptions

    error = attempt.error
    error_text = _find_error_text(getattr(error, "body", None)) or str(error) or type(error).__name__
    status = getattr(error, "status_code", None)
    provider, _, model = name.partition(":")
    outcome = f"{name} answered {status}" if status else f"{name} gave no answer"

    def build_message(summary: str) -> str:
        return shorten(redact_secrets(f"{summary}: {error_text}", api_key))

    if isinstance(error, exceptions.ModelContextWindowExceededError) or (
        status in (400, 413, 422, 500) and TOO_LONG_PATTERN.search(error_text)
    ):
        summary = f"The conversation does not fit into the window of {name}, even with its older tool results left out"
        return ConversationTooLong(build_message(summary), spent)
    if isinstance(error, exceptions.ModelAuthenticationError):
        return ProviderError(build_message(f"{outcome}, so its API key is not accepted"), spent)
    if isinstance(error, exceptions.ModelNotFoundError):
        suggested = getattr(error, "suggested_model_id", None)
        hint = f" (perhaps {suggested} is meant)" if suggested else ""
        return ProviderError(
            build_message(f"{provider} knows no model {model}{hint}, or is not at this address; it answered {status}"),
            spent,
        )
    if isinstance(error, IncompleteResponse):
        return ProviderError(build_message(name), spent, is_transient=True)
    return ProviderError(
        build_message(outcome),
        spent,
        is_transient=_is_transient(error),
        retry_after=getattr(error, "retry_after", None),
    )


def _is_transient(error: Exception) -> bool:
    """Whatever is not known to stay so. That goes for an answer that the provider's own library cannot read, too."""
    from pydantic_ai import exceptions

    if getattr(error, "provider_retry_hint", None) is False or isinstance(error, exceptions.UserError):
        return False
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return False
    return getattr(error, "status_code", 500) in (408, 409, 425, 429, *range(500, 600))


def redact_secrets(text: str, api_key: str | None) -> str:
    """Keys are taken out, whole or in part: providers like to repeat a wrong one with its middle blotted out."""
    if api_key is not None and len(api_key) < MIN_LEAK_CHARS:
        api_key = None  # a word such as EMPTY, for a server of one's own
    text = URL_CREDENTIALS_PATTERN.sub("", SECRET_PATTERN.sub("[key]", redact(text, api_key)))
    return WORD_PATTERN.sub(
        lambda word: "[key]" if MASKED_KEY_PATTERN.search(word[0]) or _contains_key_part(word[0], api_key) else word[0],
        text,
    )


def _contains_key_part(word: str, api_key: str | None) -> bool:
    """Whether a good part of the key stands in the word."""
    if api_key is None or len(word) < MIN_LEAK_CHARS:
        return False
    return any(api_key[n : n + MIN_LEAK_CHARS] in word for n in range(len(api_key) - MIN_LEAK_CHARS + 1))


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def _find_error_text(body: object, depth: int = 0) -> str:
    """The sentence in a provider's error, wherever that provider puts it."""
    if depth > MAX_ERROR_DEPTH:
        return ""
    if isinstance(body, list):
        return next(filter(None, (_find_error_text(part, depth + 1) for part in body)), "")
    if isinstance(body, dict):
        return next(
            filter(None, (_find_error_text(body.get(key), depth + 1) for key in ("error", "message", "detail"))), ""
        )
    return body if isinstance(body, str) else ""
