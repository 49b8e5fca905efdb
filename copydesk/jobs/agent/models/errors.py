"""Errors of models, as sentences for a person: in the provider's words, with secrets redacted."""

import re
from typing import TYPE_CHECKING

from copydesk.core.runtime.retry import DeadlineTooNear
from copydesk.core.text.redaction import redact
from copydesk.core.text.truncation import to_single_line, truncate
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
# Messages of servers that have no error code for a request that is too long: llama.cpp, LM Studio, gateways.
TOO_LONG_PATTERN = re.compile(
    r"context[ _](size|length|window|limit)|(prompt|input|request) is too (long|large)|too many (input )?tokens", re.I
)


class IncompleteResponse(Exception):
    """The response ended too early, or the provider could not parse the output of its model."""


class FailedAttempt(Exception):
    """A failed attempt, with the usage that is charged anyway."""

    def __init__(self, error: Exception, usage: Usage) -> None:
        super().__init__(str(error))
        self.error = error
        self.usage = usage


class ProviderError(ModelFailed):
    """A failure of a model, with whether a retry may help and after how many seconds the provider wants it."""

    def __init__(
        self, message: str, usage: Usage, *, is_transient: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, usage)
        self.is_transient = is_transient
        self.retry_after = retry_after


class ConversationTooLong(ProviderError):
    """The conversation does not fit into the model's context window."""


def out_of_time_error(exceeded: DeadlineTooNear, spent: Usage) -> ModelFailed:
    """Returns the error of a model that cannot be asked again before the job's deadline."""
    message = str(exceeded).removesuffix(".")
    return ModelFailed(
        f"{message}. The next attempt would have to wait {exceeded.wait_seconds:.0f} s,"
        f" and the job has {max(exceeded.seconds_left, 0):.0f} s left.",
        spent,
    )


def require_complete(response: "ModelResponse") -> "ModelResponse":
    """Returns the response. Raises IncompleteResponse when its stream ended too early or with an error."""
    if response.state != "complete" or response.finish_reason is None:
        raise IncompleteResponse("the response ended too early.")
    if response.finish_reason == "error":
        reason = (response.provider_details or {}).get("finish_reason", "an error")
        raise IncompleteResponse(f"the response ended with {reason}.")
    return response


def refusal_reason(response: "ModelResponse", name: str) -> str | None:
    """Returns why a finished response cannot be used (content filter, output limit reached), or None when it can."""
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        explanation = details.get("refusal") or details.get("block_reason") or details.get("finish_reason") or ""
        return shorten(f"{name} or its provider's content filter refused to answer: {explanation}".removesuffix(": "))
    if response.finish_reason == "length":
        return f"{name} stopped in the middle of its answer, because it reached the limit of output tokens (length)."
    return None


def classify_failure(attempt: FailedAttempt, name: str, api_key: str | None, spent: Usage) -> ProviderError:
    from pydantic_ai import exceptions

    error = attempt.error
    error_text = _find_error_text(getattr(error, "body", None)) or str(error) or type(error).__name__
    status = getattr(error, "status_code", None)
    provider, _, model = name.partition(":")
    outcome = f"{name} answered {status}" if status else f"{name} did not answer"

    def build_message(summary: str) -> str:
        return shorten(redact_secrets(f"{summary}: {error_text}", api_key))

    if isinstance(error, exceptions.ModelContextWindowExceededError) or (
        status in (400, 413, 422, 500) and TOO_LONG_PATTERN.search(error_text)
    ):
        summary = f"The conversation does not fit into the context window of {name}, even without older tool results"
        return ConversationTooLong(build_message(summary), spent)
    if isinstance(error, exceptions.ModelAuthenticationError):
        return ProviderError(build_message(f"{outcome} and rejected the API key"), spent)
    if isinstance(error, exceptions.ModelNotFoundError):
        suggested = getattr(error, "suggested_model_id", None)
        hint = f" (did you mean {suggested}?)" if suggested else ""
        return ProviderError(
            build_message(f"{provider} has no model {model}{hint}, or its URL is wrong; it answered {status}"),
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
    """Returns whether a retry may help: true for every error that is not known to be permanent.

    This includes responses that the provider's SDK cannot parse.
    """
    from pydantic_ai import exceptions

    if getattr(error, "provider_retry_hint", None) is False or isinstance(error, exceptions.UserError):
        return False
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return False
    return getattr(error, "status_code", 500) in (408, 409, 425, 429, *range(500, 600))


def redact_secrets(text: str, api_key: str | None) -> str:
    """Redacts keys, whole or in part: providers often repeat a wrong key with its middle masked."""
    if api_key is not None and len(api_key) < MIN_LEAK_CHARS:
        api_key = None  # a placeholder such as EMPTY, for a self-hosted server
    text = URL_CREDENTIALS_PATTERN.sub("", SECRET_PATTERN.sub("[key]", redact(text, api_key)))
    return WORD_PATTERN.sub(
        lambda word: "[key]" if MASKED_KEY_PATTERN.search(word[0]) or _contains_key_part(word[0], api_key) else word[0],
        text,
    )


def _contains_key_part(word: str, api_key: str | None) -> bool:
    """Returns whether the word contains MIN_LEAK_CHARS consecutive characters of the key."""
    if api_key is None or len(word) < MIN_LEAK_CHARS:
        return False
    return any(api_key[n : n + MIN_LEAK_CHARS] in word for n in range(len(api_key) - MIN_LEAK_CHARS + 1))


def shorten(text: str) -> str:
    return truncate(to_single_line(text), MAX_MESSAGE_CHARS)


def _find_error_text(body: object, depth: int = 0) -> str:
    """Returns the message in the body of an error. Each provider puts it in a different place."""
    if depth > MAX_ERROR_DEPTH:
        return ""
    if isinstance(body, list):
        return next(filter(None, (_find_error_text(part, depth + 1) for part in body)), "")
    if isinstance(body, dict):
        return next(
            filter(None, (_find_error_text(body.get(key), depth + 1) for key in ("error", "message", "detail"))), ""
        )
    return body if isinstance(body, str) else ""
