"""OpenAI's chat completions, which Ollama, vLLM, llama.cpp and gateways also use."""

from collections.abc import Iterator
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tests.support.models.answers import ErrorAnswer, ModelAnswer
from tests.support.models.dialect import Dialect, JsonObject, request_checker, split_text

check_streamed_request, check_request = (
    request_checker(CompletionCreateParamsStreaming),
    request_checker(CompletionCreateParamsNonStreaming),
)


class Chat(Dialect):
    name = "chat"

    def check(self, body: JsonObject) -> None:
        (check_streamed_request if body.get("stream") else check_request)(body)

    def count_turns(self, body: JsonObject) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def full_response(self, reply: ModelAnswer, place: int, model: str) -> JsonObject:
        calls = _calls(reply, place)
        message = {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": reply.refusal or None,
            **({"tool_calls": calls} if calls else {}),
            **({"reasoning_content": reply.thinking} if reply.thinking else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply), "logprobs": None}
        answer = {**_response_head("chat.completion", place, model), "choices": [choice], "usage": _usage(reply)}
        ChatCompletion.model_validate(answer)
        return answer

    def stream_events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]:
        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in split_text(reply.thinking)]
        deltas += [{"content": piece} for piece in split_text(reply.text)]
        deltas += [{"refusal": piece} for piece in split_text(reply.refusal)]
        for n, tool_call in enumerate(_calls(reply, place)):
            function = tool_call["function"]
            deltas.append({"tool_calls": [{**tool_call, "index": n, "function": {**function, "arguments": ""}}]})
            parts = split_text(function["arguments"])
            deltas += [{"tool_calls": [{"index": n, "function": {"arguments": part}}]} for part in parts]
        head = _response_head("chat.completion.chunk", place, model)
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        for choice in (*choices, {"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}):
            yield _chunk({**head, "choices": [choice]})
        yield _chunk({**head, "choices": [], "usage": _usage(reply)})

    def end_of_stream(self) -> str:
        return "data: [DONE]\n\n"

    def error(self, failed: ErrorAnswer) -> JsonObject:
        return {"error": {"message": failed.message, "type": "error", "code": failed.code, "param": None}}


def _chunk(event: JsonObject) -> JsonObject:
    ChatCompletionChunk.model_validate(event)
    return event


def _response_head(kind: str, place: int, model: str) -> JsonObject:
    return {"id": f"chatcmpl-{place}", "object": kind, "created": 1_700_000_000, "model": model}


def _calls(reply: ModelAnswer, place: int) -> list[Any]:
    return [
        {"id": f"call_{place}_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(reply.calls)
    ]


def _finish_reason(reply: ModelAnswer) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _usage(reply: ModelAnswer) -> JsonObject:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
    }
