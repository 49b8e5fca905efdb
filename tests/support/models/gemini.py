"""Google's generateContent."""

import base64
import json
from collections.abc import Iterator

from google.genai import types
from pydantic import TypeAdapter

from tests.support.models.answers import ErrorAnswer, ModelAnswer
from tests.support.models.dialect import Dialect, JsonObject, split_text, validate_all
from tests.support.models.dialects import GEMINI_PATH_PATTERN

CONTENTS = TypeAdapter(list[types.Content])
TOOLS = TypeAdapter(list[types.Tool])
KNOWN_REQUEST_FIELDS = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"}
STATUS_NAMES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
          429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip


class Gemini(Dialect):
    name = "gemini"

    def streams(self, path: str, body: JsonObject) -> bool:
        return ":streamGenerateContent" in path

    def model(self, path: str, body: JsonObject) -> str:
        match = GEMINI_PATH_PATTERN.fullmatch(path)
        assert match is not None
        return match["model"]

    def check(self, body: JsonObject) -> None:
        if unknown := body.keys() - KNOWN_REQUEST_FIELDS:
            raise ValueError(f"Unknown name {sorted(unknown)}: Cannot find field.")
        validate_all(CONTENTS, body["contents"])
        validate_all(TOOLS, body.get("tools", []))
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))

    def count_turns(self, body: JsonObject) -> int:
        return sum(content["role"] == "model" for content in body["contents"])

    def full_response(self, reply: ModelAnswer, place: int, model: str) -> JsonObject:
        return _chunk(reply, place, model, _parts(reply, place), last=True)

    def stream_events(self, reply: ModelAnswer, place: int, model: str) -> Iterator[JsonObject]:
        *parts, last = _parts(reply, place) or [{"text": ""}]
        for part in parts:
            yield _chunk(reply, place, model, [part])
        yield _chunk(reply, place, model, [last])
        yield _chunk(reply, place, model, [], last=True)

    def error(self, failed: ErrorAnswer) -> JsonObject:
        status = failed.code or STATUS_NAMES.get(failed.status, "UNKNOWN")
        return {"error": {"code": failed.status, "message": failed.message, "status": status}}


def _chunk(reply: ModelAnswer, place: int, model: str, parts: list[JsonObject], *, last: bool = False) -> JsonObject:
    candidate: JsonObject = {"index": 0, "content": {"role": "model", "parts": parts}}
    if last:
        candidate["finishReason"] = reply.finish_reason or ("SAFETY" if reply.refusal else "STOP")
    usage = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached,
        "candidatesTokenCount": reply.output_tokens if last else 0,
        "totalTokenCount": reply.input_tokens + (reply.output_tokens if last else 0),
    }
    head = {"responseId": f"resp-{place}", "modelVersion": model}
    answer = {**head, "candidates": [candidate], "usageMetadata": usage}
    types.GenerateContentResponse.model_validate(answer)
    return answer


def _parts(reply: ModelAnswer, place: int) -> list[JsonObject]:
    """Builds the parts. The signature of a thought comes with the part that follows it."""
    parts: list[JsonObject] = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
    parts += [{"text": piece} for piece in split_text(reply.text)]
    for n, (name, arguments) in enumerate(reply.calls):
        function_call = {"id": f"call-{place}-{n}", "name": name, "args": json.loads(arguments)}
        signed = reply.thinking and n == 0
        signature = {"thoughtSignature": base64.b64encode(reply.signature.encode()).decode()} if signed else {}
        parts.append({"functionCall": function_call, **signature})
    return parts
