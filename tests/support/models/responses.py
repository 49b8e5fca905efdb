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

from tests.support.models.answers import Failed, Said
from tests.support.models.dialect import Body, Dialect, parameters, pieces

STREAMED, WHOLE = parameters(ResponseCreateParamsStreaming), parameters(ResponseCreateParamsNonStreaming)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
OF_THE_MODEL = ("reasoning", "function_call")


class Responses(Dialect):
    name = "responses"

    def check(self, body: Body) -> None:
        (STREAMED if body.get("stream") else WHOLE)(body)

    def turn(self, body: Body) -> int:
        """Counts the turns; consecutive items of the model are one turn."""
        made = [item.get("role") == "assistant" or item.get("type") in OF_THE_MODEL for item in body["input"]]
        return sum(now and not before for before, now in zip([False, *made], made, strict=False))

    def whole(self, said: Said, place: int, model: str) -> Body:
        answer = _response(said, place, model, _items(said, place), _status(said))
        Response.model_validate(answer)
        return answer

    def events(self, said: Said, place: int, model: str) -> Iterator[Body]:
        number = 0

        def event(kind: str, **more: Any) -> Body:
            nonlocal number
            made = {"type": kind, "sequence_number": number, **more}
            EVENT.validate_python(made)
            number += 1
            return made

        items = _items(said, place)
        yield event("response.created", response=_response(said, place, model, [], "in_progress"))
        for index, item in enumerate(items):
            at = {"item_id": item["id"], "output_index": index}
            yield event("response.output_item.added", output_index=index, item=_begun(item))
            if item["type"] == "function_call":
                for piece in pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", **at, delta=piece)
                whole = {"arguments": item["arguments"], "name": item["name"]}
                yield event("response.function_call_arguments.done", **at, **whole)
            elif item["type"] == "message":
                yield from self._text(event, item["content"][0], {**at, "content_index": 0})
            yield event("response.output_item.done", output_index=index, item=item)
        status = _status(said)
        yield event(f"response.{status}", response=_response(said, place, model, items, status))

    def _text(self, event: Any, content: Body, at: Body) -> Iterator[Body]:
        if content["type"] == "refusal":
            yield event("response.content_part.added", **at, part={"type": "refusal", "refusal": ""})
            yield event("response.refusal.delta", **at, delta=content["refusal"])
            yield event("response.refusal.done", **at, refusal=content["refusal"])
            return
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", **at, part=empty)
        for piece in pieces(content["text"]):
            yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
        yield event("response.output_text.done", **at, text=content["text"], logprobs=[])

    def framed(self, event: Body) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    def error(self, failed: Failed) -> Body:
        return {"error": {"message": failed.message, "type": "error", "code": failed.code, "param": None}}


def _status(said: Said) -> str:
    return "incomplete" if said.finish_reason else "completed"


def _items(said: Said, place: int) -> list[Body]:
    items: list[Body] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        kept = {"summary": summary, "encrypted_content": said.signature}
        items.append({"id": f"rs_{place}", "type": "reasoning", **kept})
    if said.text or said.refusal:
        content: Body = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        if said.refusal:
            content = {"type": "refusal", "refusal": said.refusal}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [content]}
        items.append({"id": f"msg_{place}", **message})
    for n, (name, arguments) in enumerate(said.calls):
        ids = {"id": f"fc_{place}_{n}", "call_id": f"call_{place}_{n}"}
        items.append({**ids, "type": "function_call", "name": name, "arguments": arguments, "status": "completed"})
    return items


def _begun(item: Body) -> Body:
    if item["type"] == "message":
        return {**item, "content": [], "status": "in_progress"}
    if item["type"] == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return {**item, "summary": [], "encrypted_content": None}


def _response(said: Said, place: int, model: str, items: list[Body], status: str) -> Body:
    done = status != "in_progress"
    usage = {
        "input_tokens": said.input_tokens,
        "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": said.written},
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.input_tokens + said.output_tokens,
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
        "incomplete_details": {"reason": said.finish_reason} if status == "incomplete" else None,
        "usage": usage if done else None,
    }
