"""Anthropic's Messages API."""

import json
from collections.abc import Iterator
from typing import Any

from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic import TypeAdapter

from tests.support.models.answers import ErrorAnswer, ModelAnswer
from tests.support.models.dialect import Dialect, JsonObject, request_checker, split_text

check_streamed_request, check_request = (
    request_checker(MessageCreateParamsStreaming),
    request_checker(MessageCreateParamsNonStreaming),
)
EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 413: "request_too_large",
          429: "rate_limit_error", 529: "overloaded_error"}  # fmt: skip


class Messages(Dialect):
    name = "messages"

    def check(self, body: JsonObject) -> None:
        (check_streamed_request if body.get("stream") else check_request)(body)

    def count_turns(self, body: JsonObject) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def full_response(self, reply: ModelAnswer, place: int, model: str) -> JsonObject:
        message = {
            **_message(reply, place, model),
            "content": _blocks(reply, place),
            **_stop_fields(reply),
            "usage": _usage(reply),
        }
        BetaMessage.model_validate(message)
        return message

    def stream_events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]:
        for event in self._events(reply, place, model):
            EVENT.validate_python(event)
            yield event

    def _events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]:
        yield {"type": "message_start", "message": _message(reply, place, model)}
        for index, block in enumerate(_blocks(reply, place)):
            yield {"type": "content_block_start", "index": index, "content_block": _start_block(block)}
            for delta in _block_deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": _stop_fields(reply), "usage": {"output_tokens": reply.output_tokens}}
        yield {"type": "message_stop"}

    def frame_event(self, event: JsonObject) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    def error(self, failed: ErrorAnswer) -> JsonObject:
        kind = failed.code or ERRORS.get(failed.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failed.message}, "request_id": "req_1"}


def _message(reply: ModelAnswer, place: int, model: str) -> JsonObject:
    head = {"id": f"msg_{place}", "type": "message", "role": "assistant", "model": model, "content": []}
    return {**head, "stop_reason": None, "stop_sequence": None, "usage": {**_usage(reply), "output_tokens": 1}}


def _usage(reply: ModelAnswer) -> JsonObject:
    return {
        "input_tokens": reply.input_tokens - reply.cached - reply.written,
        "cache_read_input_tokens": reply.cached,
        "cache_creation_input_tokens": reply.written,
        "output_tokens": reply.output_tokens,
    }


def _stop_fields(reply: ModelAnswer) -> JsonObject:
    reason = reply.finish_reason or ("refusal" if reply.refusal else "tool_use" if reply.calls else "end_turn")
    details = {"type": "refusal", "explanation": reply.refusal, "category": None} if reply.refusal else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _blocks(reply: ModelAnswer, place: int) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": reply.signature})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text, "citations": None})
    for n, (name, arguments) in enumerate(reply.calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{place}_{n}", "name": name, "input": arguments})
    return blocks


def _start_block(block: JsonObject) -> JsonObject:
    empty: dict[str, JsonObject] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **empty[block["type"]]}


def _block_deltas(block: JsonObject) -> Iterator[JsonObject]:
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in split_text(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in split_text(block["text"]))
    else:
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in split_text(block["input"]))
