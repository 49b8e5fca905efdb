"""The scripted server against the providers' own libraries, which are independent of Copydesk, and slow to load."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.model_server import ModelServer, call
from tests.support.models.connected_models import PROVIDER_KEY

pytestmark = pytest.mark.deep

SAID = call("read", {"path": "guide.md"}, text="I look, and then I see.", thinking="Hm")
Heard = tuple[str, list[tuple[str, Any]]]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([SAID]) as running:
        yield running


def test_openai_library_accepts_chat_completions(server: ModelServer) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=server.url, api_key=PROVIDER_KEY)
    message = (
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Go."}]).choices[0].message
    )
    made = [
        (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or [] if c.type == "function"
    ]
    assert (message.content, made) == (SAID.text, [("read", {"path": "guide.md"})])


def test_openai_library_accepts_streamed_chat_completions(server: ModelServer) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=server.url, api_key=PROVIDER_KEY)
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Go."}]) as stream:
        message = stream.get_final_completion().choices[0].message
    made = [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]
    assert (message.content, made) == (SAID.text, [("read", {"path": "guide.md"})])


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_library_accepts_responses(server: ModelServer, streamed: bool) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=server.url, api_key=PROVIDER_KEY)
    if streamed:
        with client.responses.stream(model="m", input=[{"role": "user", "content": "Go."}]) as stream:
            response: Any = stream.get_final_response()
    else:
        response = client.responses.create(model="m", input=[{"role": "user", "content": "Go."}])
    made = [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]
    assert (response.output_text, made) == (SAID.text, [("read", {"path": "guide.md"})])
    assert response.output[0].encrypted_content == SAID.signature


def test_anthropic_library_accepts_messages(server: ModelServer) -> None:
    from anthropic import Anthropic

    client = Anthropic(base_url=server.root, api_key=PROVIDER_KEY)
    with client.beta.messages.stream(
        model="claude-opus-5", max_tokens=9, messages=[{"role": "user", "content": "Go."}]
    ) as stream:
        thought, text, made = stream.get_final_message().content
    assert (thought.type, text.type, made.type) == ("thinking", "text", "tool_use")
    assert (getattr(text, "text", ""), getattr(made, "input", {})) == (SAID.text, {"path": "guide.md"})
    assert getattr(thought, "signature", "") == SAID.signature


@pytest.mark.parametrize("streamed", [False, True])
def test_google_library_accepts_content(server: ModelServer, streamed: bool) -> None:
    from google import genai
    from google.genai.types import HttpOptions

    client = genai.Client(api_key=PROVIDER_KEY, vertexai=False, http_options=HttpOptions(base_url=server.root))
    if streamed:
        answers = list(client.models.generate_content_stream(model="gemini-x", contents="Go."))
    else:
        answers = [client.models.generate_content(model="gemini-x", contents="Go.")]
    parts = [part for a in answers for c in a.candidates or [] if c.content for part in c.content.parts or []]
    text = "".join(part.text or "" for part in parts if not part.thought)
    made = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    assert (text, made) == (SAID.text, [("read", {"path": "guide.md"})])


def test_request_outside_the_providers_schema_is_refused(server: ModelServer) -> None:
    from openai import BadRequestError, OpenAI

    client = OpenAI(base_url=server.url, api_key=PROVIDER_KEY)
    with pytest.raises(BadRequestError, match="Unknown parameters: colour"):
        client.chat.completions.create(model="m", messages=[], extra_body={"colour": "red"})
    with pytest.raises(BadRequestError, match="does not fit"):
        client.chat.completions.create(model="m", messages=[{"role": "user"}])  # type: ignore[typeddict-item]
