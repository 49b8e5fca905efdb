"""Google's generateContent."""

import base64
import json
from collections.abc import Iterator

from google.genai import types
from pydantic import TypeAdapter

from tests.support.models.answers import Failed, Said
from tests.support.models.dialect import Body, Dialect, fits, pieces
from tests.support.models.spoken import GEMINI

CONTENTS = TypeAdapter(list[types.Content])
TOOLS = TypeAdapter(list[types.Tool])
KNOWN = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"}
ERRORS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
          429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip


class Gemini(Dialect):
    name = "gemini"

    def streams(self, path: str, body: Body) -> bool:
        return ":streamGenerateContent" in path

    def model(self, path: str, body: Body) -> str:
        match = GEMINI.fullmatch(path)
        assert match is not None
        return match["model"]

    def check(self, body: Body) -> None:
        if unknown := body.keys() - KNOWN:
            raise ValueError(f"Unknown name {sorted(unknown)}: Cannot find field.")
        fits(CONTENTS, body["contents"])
        fits(TOOLS, body.get("tools", []))
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))

    def turn(self, body: Body) -> int:
        return sum(content["role"] == "model" for content in body["contents"])

    def whole(self, said: Said, place: int, model: str) -> Body:
        return _chunk(said, place, model, _parts(said, place), last=True)

    def events(self, said: Said, place: int, model: str) -> Iterator[Body]:
        *parts, last = _parts(said, place) or [{"text": ""}]
        for part in parts:
            yield _chunk(said, place, model, [part])
        yield _chunk(said, place, model, [last])
        yield _chunk(said, place, model, [], last=True)

    def error(self, failed: Failed) -> Body:
        status = failed.code or ERRORS.get(failed.status, "UNKNOWN")
        return {"error": {"code": failed.status, "message": failed.message, "status": status}}


def _chunk(said: Said, place: int, model: str, parts: list[Body], *, last: bool = False) -> Body:
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": parts}}
    if last:
        candidate["finishReason"] = said.finish_reason or ("SAFETY" if said.refusal else "STOP")
    usage = {
        "promptTokenCount": said.input_tokens,
        "cachedContentTokenCount": said.cached,
        "candidatesTokenCount": said.output_tokens if last else 0,
        "totalTokenCount": said.input_tokens + (said.output_tokens if last else 0),
    }
    head = {"responseId": f"resp-{place}", "modelVersion": model}
    answer = {**head, "candidates": [candidate], "usageMetadata": usage}
    types.GenerateContentResponse.model_validate(answer)
    return answer


def _parts(said: Said, place: int) -> list[Body]:
    """Builds the parts. The signature of a thought comes with the part that follows it."""
    parts: list[Body] = [{"text": said.thinking, "thought": True}] if said.thinking else []
    parts += [{"text": piece} for piece in pieces(said.text)]
    for n, (name, arguments) in enumerate(said.calls):
        made = {"id": f"call-{place}-{n}", "name": name, "args": json.loads(arguments)}
        signed = said.thinking and n == 0
        signature = {"thoughtSignature": base64.b64encode(said.signature.encode()).decode()} if signed else {}
        parts.append({"functionCall": made, **signature})
    return parts
