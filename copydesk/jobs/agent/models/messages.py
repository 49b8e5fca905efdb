"""Converts between Copydesk's conversation and the messages of pydantic-ai."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from copydesk.jobs.agent.conversation import (
    Conversation,
    ModelFailed,
    Prompt,
    ProviderPart,
    ProviderState,
    Reply,
    ToolCall,
    ToolResult,
    ToolResults,
)
from copydesk.jobs.agent.models.errors import refusal_reason
from copydesk.jobs.agent.tools.tool import Tool
from copydesk.jobs.job import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.tools import ToolDefinition

NOT_EXECUTED = "This call was not carried out."
MAX_PROVIDER_STATE_CHARS = 512 * 1024


@cache
def load_system_prompt() -> str:
    return files("copydesk.jobs.agent").joinpath("prompts/system.md").read_text("utf-8")


def to_tool_definitions(tools: Sequence[Tool]) -> "list[ToolDefinition]":
    from pydantic_ai.tools import ToolDefinition

    return [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in tools
    ]


def to_model_messages(
    conversation: Conversation, overview: str, model: str, instructions: str | None = None
) -> "list[ModelMessage]":
    """Converts prompts and results to requests, and replies to responses. The two alternate, as providers require.

    `instructions` replace the agent's system prompt."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

    messages: list[ModelMessage] = []
    pending_text = overview

    def add_request_parts(*parts: "ModelRequestPart") -> None:
        if messages and isinstance(messages[-1], ModelRequest):
            messages[-1].parts = [*messages[-1].parts, *parts]
        else:
            messages.append(ModelRequest(parts=list(parts), instructions=instructions or load_system_prompt()))

    def flush_pending_text() -> None:
        nonlocal pending_text
        if pending_text:
            add_request_parts(UserPromptPart(pending_text))
        pending_text = ""

    for entry, next_entry in zip(conversation, [*conversation[1:], None], strict=True):
        if isinstance(entry, Prompt):
            pending_text = f"{pending_text}\n\n{entry.full_text}" if pending_text else entry.full_text
        elif isinstance(entry, ToolResults):
            add_request_parts(*map(_to_tool_return, entry.results))
        elif entry.text or entry.calls:
            flush_pending_text()
            provider_state = entry.keepsake if entry.keepsake and entry.keepsake.model == model else None
            messages.append(
                ModelResponse(
                    parts=list(_to_response_parts(entry, provider_state)),
                    provider_name=provider_state.provider if provider_state else None,
                    canonical_system=provider_state.system if provider_state else None,
                )
            )
            answered_ids = (
                {result.call_id for result in next_entry.results} if isinstance(next_entry, ToolResults) else set()
            )
            unanswered = [call for call in entry.calls if call.id not in answered_ids]
            add_request_parts(
                *(
                    _to_tool_return(ToolResult(call_id=c.id, name=c.name, ok=False, text=NOT_EXECUTED))
                    for c in unanswered
                )
            )
    flush_pending_text()
    return messages


def _to_tool_return(result: ToolResult) -> "ModelRequestPart":
    from pydantic_ai.messages import ToolReturnPart

    return ToolReturnPart(result.name, result.text, result.call_id, outcome="success" if result.ok else "failed")


def _to_response_parts(reply: Reply, provider_state: ProviderState | None) -> "Iterator[ModelResponsePart]":
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    calls = {call.id: call for call in reply.calls}
    for part in provider_state.parts if provider_state else _plain_parts(reply):
        provider_fields: dict[str, Any] = {
            "id": part.id,
            "provider_name": part.provider,
            "provider_details": part.details,
        }
        if part.kind == "thinking":
            yield ThinkingPart(part.text, signature=part.signature, **provider_fields)
        elif part.kind == "text":
            yield TextPart(part.text, **provider_fields)
        elif call := calls.get(part.call_id or ""):
            yield ToolCallPart(call.name, call.arguments, call.id, **provider_fields)


def _plain_parts(reply: Reply) -> Iterator[ProviderPart]:
    if reply.text:
        yield ProviderPart(kind="text", text=reply.text)
    yield from (ProviderPart(kind="call", call_id=call.id) for call in reply.calls)


def reply_from_response(response: "ModelResponse", model: str) -> Reply:
    """Converts a response. Raises ModelFailed when it is a refusal, or was cut off at the output limit."""
    usage = usage_from_response(response)
    if refusal := refusal_reason(response, model):
        raise ModelFailed(refusal, usage)
    # Arguments that are not a JSON object arrive as one unknown argument, which the toolbox refuses.
    calls = tuple(
        ToolCall(id=c.tool_call_id, name=c.tool_name, arguments=c.args_as_dict()) for c in response.tool_calls
    )
    return Reply(
        text=response.text or "", calls=calls, usage=usage, keepsake=_provider_state_from_response(response, model)
    )


def _provider_state_from_response(response: "ModelResponse", model: str) -> ProviderState | None:
    """Returns the provider's state; None when there is none, or more than the journal should store."""
    parts = tuple(_read_provider_parts(response))
    if not any(part.kind == "thinking" or part.id or part.details for part in parts):
        return None
    provider_state = ProviderState(
        model=model, provider=response.provider_name, system=response.canonical_system, parts=parts
    )
    return provider_state if len(provider_state.model_dump_json()) <= MAX_PROVIDER_STATE_CHARS else None


def _read_provider_parts(response: "ModelResponse") -> Iterator[ProviderPart]:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    for part in response.parts:
        if not isinstance(part, ThinkingPart | TextPart | ToolCallPart):
            continue
        provider_part = ProviderPart(
            kind="call", id=part.id, provider=part.provider_name, details=part.provider_details
        )
        if isinstance(part, ThinkingPart):
            yield provider_part.model_copy(
                update={"kind": "thinking", "text": part.content, "signature": part.signature}
            )
        elif isinstance(part, TextPart):
            yield provider_part.model_copy(update={"kind": "text", "text": part.content})
        else:
            yield provider_part.model_copy(update={"call_id": part.tool_call_id})


def usage_from_response(response: "ModelResponse") -> Usage:
    """Returns the usage of one request. Input tokens include those read from or written to a cache."""
    usage = response.usage
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=_calculate_cost(response),
    )


def _calculate_cost(response: "ModelResponse") -> float | None:
    """Returns the cost in US dollars; None when no price of this model is published."""
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
