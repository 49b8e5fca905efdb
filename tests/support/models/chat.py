"""OpenAI's chat completions, which Ollama, vLLM, llama.cpp and gateways also use."""

from collections.abc import Iterator
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tests.support.models.answers import Failed, Said
from tests.support.models.dialect import Body, Dialect, parameters, pieces

STREAMED, WHOLE = parameters(CompletionCreateParamsStreaming), parameters(CompletionCreateParamsNonStreaming)


class Chat(Dialect):
    name = "chat"

    def check(self, body: Body) -> None:
        (STREAMED if body.get("stream") else WHOLE)(body)

    def turn(self, body: Body) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def whole(self, said: Said, place: int, model: str) -> Body:
        calls = _calls(said, place)
        message = {
            "role": "assistant",
            "content": said.text or None,
            "refusal": said.refusal or None,
            **({"tool_calls": calls} if calls else {}),
            **({"reasoning_content": said.thinking} if said.thinking else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": _reason(said), "logprobs": None}
        answer = {**_head("chat.completion", place, model), "choices": [choice], "usage": _usage(said)}
        ChatCompletion.model_validate(answer)
        return answer

    def events(self, said: Said, place: int, model: str) -> Iterator[Body]:
        deltas: list[Body] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in pieces(said.thinking)]
        deltas += [{"content": piece} for piece in pieces(said.text)]
        deltas += [{"refusal": piece} for piece in pieces(said.refusal)]
        for n, made in enumerate(_calls(said, place)):
            function = made["function"]
            deltas.append({"tool_calls": [{**made, "index": n, "function": {**function, "arguments": ""}}]})
            parts = pieces(function["arguments"])
            deltas += [{"tool_calls": [{"index": n, "function": {"arguments": part}}]} for part in parts]
        head = _head("chat.completion.chunk", place, model)
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        for choice in (*choices, {"index": 0, "delta": {}, "finish_reason": _reason(said)}):
            yield _chunk({**head, "choices": [choice]})
        yield _chunk({**head, "choices": [], "usage": _usage(said)})

    def farewell(self) -> str:
        return "data: [DONE]\n\n"

    def error(self, failed: Failed) -> Body:
        return {"error": {"message": failed.message, "type": "error", "code": failed.code, "param": None}}


def _chunk(event: Body) -> Body:
    ChatCompletionChunk.model_validate(event)
    return event


def _head(kind: str, place: int, model: str) -> Body:
    return {"id": f"chatcmpl-{place}", "object": kind, "created": 1_700_000_000, "model": model}


def _calls(said: Said, place: int) -> list[Any]:
    return [
        {"id": f"call_{place}_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(said.calls)
    ]


def _reason(said: Said) -> str:
    return said.finish_reason or ("tool_calls" if said.calls else "stop")


def _usage(said: Said) -> Body:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached},
    }
