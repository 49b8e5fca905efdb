"""Between our conversation and pydantic-ai's messages, there and back."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from copydesk.jobs.agent.conversation import (
    Conversation,
    Keepsake,
    ModelFailed,
    Observed,
    Prompt,
    Reply,
    Sealed,
    ToolCall,
    ToolResult,
)
from copydesk.jobs.agent.models.errors import refused
from copydesk.jobs.agent.tools.tool import Tool
from copydesk.jobs.job import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.tools import ToolDefinition

UNANSWERED = "This call was not carried out."
LARGEST_KEEPSAKE = 512 * 1024


@cache
def system_prompt() -> str:
    return files("copydesk.jobs.agent").joinpath("prompts/system.md").read_text("utf-8")


def as_definitions(tools: Sequence[Tool]) -> "list[ToolDefinition]":
    from pydantic_ai.tools import ToolDefinition

    return [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in tools
    ]


def as_messages(conversation: Conversation, opening: str, model: str) -> "list[ModelMessage]":
    """Prompts and results become requests, replies become responses; the two alternate, as providers insist."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

    messages: list[ModelMessage] = []
    said = opening

    def ask(*parts: "ModelRequestPart") -> None:
        if messages and isinstance(messages[-1], ModelRequest):
            messages[-1].parts = [*messages[-1].parts, *parts]
        else:
            messages.append(ModelRequest(parts=list(parts), instructions=system_prompt()))

    def speak() -> None:
        nonlocal said
        if said:
            ask(UserPromptPart(said))
        said = ""

    for entry, following in zip(conversation, [*conversation[1:], None], strict=True):
        if isinstance(entry, Prompt):
            said = f"{said}\n\n{entry.text}" if said else entry.text
        elif isinstance(entry, Observed):
            ask(*map(_returned, entry.results))
        elif entry.text or entry.calls:
            speak()
            keepsake = entry.keepsake if entry.keepsake and entry.keepsake.model == model else None
            messages.append(
                ModelResponse(
                    parts=list(_parts(entry, keepsake)),
                    provider_name=keepsake.provider if keepsake else None,
                    canonical_system=keepsake.system if keepsake else None,
                )
            )
            answered = {result.call_id for result in following.results} if isinstance(following, Observed) else set()
            missing = [call for call in entry.calls if call.id not in answered]
            ask(*(_returned(ToolResult(call_id=c.id, name=c.name, ok=False, text=UNANSWERED)) for c in missing))
    speak()
    return messages


def _returned(result: ToolResult) -> "ModelRequestPart":
    from pydantic_ai.messages import ToolReturnPart

    return ToolReturnPart(result.name, result.text, result.call_id, outcome="success" if result.ok else "failed")


def _parts(reply: Reply, keepsake: Keepsake | None) -> "Iterator[ModelResponsePart]":
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    calls = {call.id: call for call in reply.calls}
    for sealed in keepsake.parts if keepsake else _plain(reply):
        kept: dict[str, Any] = {"id": sealed.id, "provider_name": sealed.provider, "provider_details": sealed.details}
        if sealed.kind == "thinking":
            yield ThinkingPart(sealed.text, signature=sealed.signature, **kept)
        elif sealed.kind == "text":
            yield TextPart(sealed.text, **kept)
        elif call := calls.get(sealed.call_id or ""):
            yield ToolCallPart(call.name, call.arguments, call.id, **kept)


def _plain(reply: Reply) -> Iterator[Sealed]:
    if reply.text:
        yield Sealed(kind="text", text=reply.text)
    yield from (Sealed(kind="call", call_id=call.id) for call in reply.calls)


def as_reply(response: "ModelResponse", model: str) -> Reply:
    """ModelFailed when the answer is a refusal, or was cut off at its longest."""
    usage = usage_of(response)
    if why := refused(response, model):
        raise ModelFailed(why, usage)
    # Arguments that are no JSON object come as one unknown argument, which the toolbox refuses.
    calls = tuple(
        ToolCall(id=c.tool_call_id, name=c.tool_name, arguments=c.args_as_dict()) for c in response.tool_calls
    )
    return Reply(text=response.text or "", calls=calls, usage=usage, keepsake=_keepsake(response, model))


def _keepsake(response: "ModelResponse", model: str) -> Keepsake | None:
    """None where the provider sealed nothing, or more than a journal should hold."""
    parts = tuple(_sealed(response))
    if not any(part.kind == "thinking" or part.id or part.details for part in parts):
        return None
    kept = Keepsake(model=model, provider=response.provider_name, system=response.canonical_system, parts=parts)
    return kept if len(kept.model_dump_json()) <= LARGEST_KEEPSAKE else None


def _sealed(response: "ModelResponse") -> Iterator[Sealed]:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    for part in response.parts:
        if not isinstance(part, ThinkingPart | TextPart | ToolCallPart):
            continue
        sealed = Sealed(kind="call", id=part.id, provider=part.provider_name, details=part.provider_details)
        if isinstance(part, ThinkingPart):
            yield sealed.model_copy(update={"kind": "thinking", "text": part.content, "signature": part.signature})
        elif isinstance(part, TextPart):
            yield sealed.model_copy(update={"kind": "text", "text": part.content})
        else:
            yield sealed.model_copy(update={"call_id": part.tool_call_id})


def usage_of(response: "ModelResponse") -> Usage:
    """One request. Input counts what was read from a cache or written to it as well."""
    used = response.usage
    return Usage(requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=_cost(response))


def _cost(response: "ModelResponse") -> float | None:
    """None where nobody publishes a price for this model."""
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
