"""OpenAI's Responses API."""

import json
from collections.abc import Iterator
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import TypeAdapter

from tests.support.models.answers import ErrorAnswer, ModelAnswer
from tests.support.models.dialect import Dialect, JsonObject, request_checker, split_text

check_streamed_request, check_request = (
    request_checker(ResponseCreateParamsStreaming),
    request_checker(ResponseCreateParamsNonStreaming),
)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
MODEL_ITEM_TYPES = ("reasoning", "function_call")


class Responses(Dialect):
    name = "responses"

    def check(self, body: JsonObject) -> None:
        (check_streamed_request if body.get("stream") else check_request)(body)

    def count_turns(self, body: JsonObject) -> int:
        """Counts the turns; consecutive items of the model are one turn."""
        is_from_model = [
            item.get("role") == "assistant" or item.get("type") in MODEL_ITEM_TYPES for item in body["input"]
        ]
        return sum(now and not before for before, now in zip([False, *is_from_model], is_from_model, strict=False))

    def full_response(self, reply: ModelAnswer, place: int, model: str) -> JsonObject:
        answer = _response(reply, place, model, _items(reply, place), _status(reply))
        Response.model_validate(answer)
        return answer

    def stream_events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]:
        number = 0

        def event(kind: str, **more: Any) -> JsonObject:
            nonlocal number
            data = {"type": kind, "sequence_number": number, **more}
            EVENT.validate_python(data)
            number += 1
            return data

        items = _items(reply, place)
        yield event("response.created", response=_response(reply, place, model, [], "in_progress"))
        for index, item in enumerate(items):
            at = {"item_id": item["id"], "output_index": index}
            yield event("response.output_item.added", output_index=index, item=_start_item(item))
            if item["type"] == "function_call":
                for piece in split_text(item["arguments"]):
                    yield event("response.function_call_arguments.delta", **at, delta=piece)
                call_data = {"arguments": item["arguments"], "name": item["name"]}
                yield event("response.function_call_arguments.done", **at, **call_data)
            elif item["type"] == "message":
                yield from self._text(event, item["content"][0], {**at, "content_index": 0})
            yield event("response.output_item.done", output_index=index, item=item)
        status = _status(reply)
        yield event(f"response.{status}", response=_response(reply, place, model, items, status))

    def _text(self, event: Any, content: JsonObject, at: JsonObject) -> Iterator[JsonObject]:
        if content["type"] == "refusal":
            yield event("response.content_part.added", **at, part={"type": "refusal", "refusal": ""})
            yield event("response.refusal.delta", **at, delta=content["refusal"])
            yield event("response.refusal.done", **at, refusal=content["refusal"])
            return
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", **at, part=empty)
        for piece in split_text(content["text"]):
            yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
        yield event("response.output_text.done", **at, text=content["text"], logprobs=[])

    def frame_event(self, event: JsonObject) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    def error(self, failed: ErrorAnswer) -> JsonObject:
        return {"error": {"message": failed.message, "type": "error", "code": failed.code, "param": None}}


def _status(reply: ModelAnswer) -> str:
    return "incomplete" if reply.finish_reason else "completed"


def _items(reply: ModelAnswer, place: int) -> list[JsonObject]:
    items: list[JsonObject] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        reasoning = {"summary": summary, "encrypted_content": reply.signature}
        items.append({"id": f"rs_{place}", "type": "reasoning", **reasoning})
    if reply.text or reply.refusal:
        content: JsonObject = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        if reply.refusal:
            content = {"type": "refusal", "refusal": reply.refusal}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [content]}
        items.append({"id": f"msg_{place}", **message})
    for n, (name, arguments) in enumerate(reply.calls):
        ids = {"id": f"fc_{place}_{n}", "call_id": f"call_{place}_{n}"}
        items.append({**ids, "type": "function_call", "name": name, "arguments": arguments, "status": "completed"})
    return items


def _start_item(item: JsonObject) -> JsonObject:
    if item["type"] == "message":
        return {**item, "content": [], "status": "in_progress"}
    if item["type"] == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return {**item, "summary": [], "encrypted_content": None}


def _response(reply: ModelAnswer, place: int, model: str, items: list[JsonObject], status: str) -> JsonObject:
    is_done = status != "in_progress"
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached, "cache_write_tokens": reply.written},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    return {
        "id": f"resp_{place}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": status,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": {"reason": reply.finish_reason} if status == "incomplete" else None,
        "usage": usage if is_done else None,
    }
