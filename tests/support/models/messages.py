"""Anthropic's Messages API."""

import json
from collections.abc import Iterator
from typing import Any

from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic import TypeAdapter

from tests.support.models.answers import Failed, Said
from tests.support.models.dialect import Body, Dialect, parameters, pieces

STREAMED, WHOLE = parameters(MessageCreateParamsStreaming), parameters(MessageCreateParamsNonStreaming)
EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 413: "request_too_large",
          429: "rate_limit_error", 529: "overloaded_error"}  # fmt: skip


class Messages(Dialect):
    name = "messages"

    def check(self, body: Body) -> None:
        (STREAMED if body.get("stream") else WHOLE)(body)

    def turn(self, body: Body) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def whole(self, said: Said, place: int, model: str) -> Body:
        message = {
            **_message(said, place, model),
            "content": _blocks(said, place),
            **_ending(said),
            "usage": _usage(said),
        }
        BetaMessage.model_validate(message)
        return message

    def events(self, said: Said, place: int, model: str) -> Iterator[Body]:
        for event in self._events(said, place, model):
            EVENT.validate_python(event)
            yield event

    def _events(self, said: Said, place: int, model: str) -> Iterator[Body]:
        yield {"type": "message_start", "message": _message(said, place, model)}
        for index, block in enumerate(_blocks(said, place)):
            yield {"type": "content_block_start", "index": index, "content_block": _begun(block)}
            for delta in _deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": _ending(said), "usage": {"output_tokens": said.output_tokens}}
        yield {"type": "message_stop"}

    def framed(self, event: Body) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    def error(self, failed: Failed) -> Body:
        kind = failed.code or ERRORS.get(failed.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failed.message}, "request_id": "req_1"}


def _message(said: Said, place: int, model: str) -> Body:
    head = {"id": f"msg_{place}", "type": "message", "role": "assistant", "model": model, "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": {**_usage(said), "output_tokens": 1}}


def _usage(said: Said) -> Body:
    return {
        "input_tokens": said.input_tokens - said.cached - said.written,
        "cache_read_input_tokens": said.cached,
        "cache_creation_input_tokens": said.written,
        "output_tokens": said.output_tokens,
    }


def _ending(said: Said) -> Body:
    reason = said.finish_reason or ("refusal" if said.refusal else "tool_use" if said.calls else "end_turn")
    details = {"type": "refusal", "explanation": said.refusal, "category": None} if said.refusal else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _blocks(said: Said, place: int) -> list[Body]:
    blocks: list[Body] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": said.signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text, "citations": None})
    for n, (name, arguments) in enumerate(said.calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{place}_{n}", "name": name, "input": arguments})
    return blocks


def _begun(block: Body) -> Body:
    empty: dict[str, Body] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty[block["type"]]}


def _deltas(block: Body) -> Iterator[Body]:
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
    else:
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(block["input"]))
