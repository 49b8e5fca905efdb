"""The models a job can use. Language models come through pydantic-ai, an optional extra loaded when first needed."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

from copydesk.jobs.agent.conversation import (
    Conversation,
    Model,
    ModelFailed,
    Observed,
    Prompt,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
)
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model as Client

KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openai-compatible": "COPYDESK_MODEL_KEY",
}
FORMS = ("mechanic", *(f"{provider}:…" for provider in KEYS))

MOST_PATHS = 300
LONGEST_PAUSE = 60.0
LONGEST_SENTENCE = 500
UNANSWERED = "This call was not carried out."

NAME = rf"^(?:mechanic|(?:{'|'.join(KEYS)}):[!-~]{{1,180}})$"
"""What a model's name looks like, as a regular expression that the API's description can carry."""
SECRET = re.compile(r"""\b(?:sk-|AIza)[^\s"',;)}\]]+|\bbearer\s+[^\s"',;)}\]]+""", re.IGNORECASE)


class ModelUnavailable(Exception):
    """This model cannot be used here; the message says what is missing."""


def known_model(name: str) -> bool:
    """Whether the name has a form that model_for takes; whether such a model exists only its provider knows."""
    return re.fullmatch(NAME, name) is not None


def model_for(name: str, *, url: str | None = None) -> Model:
    """ModelUnavailable when the name, its address, its key or the extra is missing."""
    if not known_model(name):
        raise ModelUnavailable(f"There is no model {name!r}; write one of {', '.join(FORMS)}.")
    if name == "mechanic":
        from copydesk.jobs.agent.mechanic import Mechanic

        return Mechanic()
    provider = name.partition(":")[0]
    key = os.environ.get(KEYS[provider])
    if provider != "openai-compatible" and not key:
        raise ModelUnavailable(f"{name} needs an API key in {KEYS[provider]}.")
    if provider == "openai-compatible" and not (url or "").startswith(("http://", "https://")):
        raise ModelUnavailable(f"{name} needs COPYDESK_MODEL_URL, an address such as http://127.0.0.1:11434/v1.")
    connect = partial(_client, name, url, key)
    try:
        connect()
    except ImportError:
        raise ModelUnavailable(f"{name} needs an extra: pip install 'copydesk[models]'.") from None
    return LanguageModel(name, connect, key)


def _client(name: str, url: str | None, key: str | None) -> "Client":
    from pydantic_ai.models import infer_model

    provider, _, model = name.partition(":")
    if provider != "openai-compatible":
        return infer_model(name)

    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    assert url is not None
    return OpenAIChatModel(model, provider=OpenAICompatibleProvider(provider, base_url=url, api_key=key))


@dataclass(frozen=True)
class LanguageModel:
    """A provider's model. What may pass is tried again; what does not ends in the provider's words."""

    name: str
    connect: Callable[[], "Client"]
    key: str | None = None
    pauses: tuple[float, ...] = (2.0, 8.0, 30.0)
    """Seconds before each further try, where the provider does not name its own."""
    timeout: float = 600.0
    """Seconds that one try may take."""

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        from pydantic_ai import exceptions

        passing = (
            exceptions.ModelRateLimitError,
            exceptions.ModelUnavailableError,
            exceptions.ModelServerError,
            exceptions.ModelConnectionError,
            exceptions.ModelRequestTimeout,
        )
        messages = as_messages(conversation, workspace)
        pauses = iter(self.pauses)
        while True:
            try:
                return as_reply(await self._ask(messages))
            except (exceptions.AgentRunError, exceptions.UserError) as error:
                pause = next(pauses, None)
                if pause is None or not isinstance(error, passing):
                    raise ModelFailed(self._told(error)) from None
                asked_for = error.retry_after
            await asyncio.sleep(pause if asked_for is None else min(asked_for, LONGEST_PAUSE))

    async def _ask(self, messages: "list[ModelMessage]") -> "ModelResponse":
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.settings import ModelSettings
        from pydantic_ai.tools import ToolDefinition

        tools = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.arguments.model_json_schema()
            )
            for tool in TOOLS.values()
        ]
        # A client belongs to one event loop, and jobs may run in several: each request opens its own.
        async with self.connect() as client:
            return await model_request(
                client,
                messages,
                model_settings=ModelSettings(max_retries=0, request_timeout=self.timeout, cache=True),
                model_request_parameters=ModelRequestParameters(function_tools=tools),
            )

    def _told(self, error: Exception) -> str:
        status = getattr(error, "status_code", None)
        head = f"{self.name} answered {status}" if status else f"{self.name} gave no answer"
        words = _words(getattr(error, "body", None)) or str(error)
        text = f"{head}: {words}".replace(self.key, "[key]") if self.key else f"{head}: {words}"
        text = " ".join(SECRET.sub("[key]", text).split())
        return text if len(text) <= LONGEST_SENTENCE else text[: LONGEST_SENTENCE - 1] + "…"


def _words(body: object) -> str:
    """The sentence in a provider's error, wherever that provider puts it."""
    if isinstance(body, dict):
        return _words(body.get("error")) or _words(body.get("message"))
    return body if isinstance(body, str) else ""


def as_messages(conversation: Conversation, workspace: Workspace) -> "list[ModelMessage]":
    """Prompts and results become requests, replies become responses; the two alternate, as providers insist."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    instructions = system_prompt()
    messages: list[ModelMessage] = []

    def ask(*parts: "ModelRequestPart") -> None:
        if messages and isinstance(messages[-1], ModelRequest):
            messages[-1].parts = [*messages[-1].parts, *parts]
        else:
            messages.append(ModelRequest(parts=list(parts), instructions=instructions))

    def returned(result: ToolResult) -> ToolReturnPart:
        return ToolReturnPart(result.name, result.text, result.call_id, outcome="success" if result.ok else "failed")

    for entry, following in zip(conversation, [*conversation[1:], None], strict=True):
        if isinstance(entry, Prompt):
            ask(UserPromptPart(entry.text if messages else f"{entry.text}\n\n{repository_listing(workspace)}"))
        elif isinstance(entry, Observed):
            ask(*map(returned, entry.results))
        elif entry.text or entry.calls:
            said = [TextPart(entry.text)] if entry.text else []
            calls = [ToolCallPart(call.name, call.arguments, call.id) for call in entry.calls]
            messages.append(ModelResponse(parts=[*said, *calls]))
            answered = {result.call_id for result in following.results} if isinstance(following, Observed) else set()
            if missing := [call for call in entry.calls if call.id not in answered]:
                ask(*(returned(ToolResult(call_id=c.id, name=c.name, ok=False, text=UNANSWERED)) for c in missing))
    return messages


def as_reply(response: "ModelResponse") -> Reply:
    # Arguments that are no JSON object come as one unknown argument, which the toolbox refuses.
    calls = tuple(
        ToolCall(id=c.tool_call_id, name=c.tool_name, arguments=c.args_as_dict()) for c in response.tool_calls
    )
    if not calls and response.finish_reason in ("length", "content_filter"):
        raise ModelFailed(f"{response.model_name} broke off its answer: {response.finish_reason}.")
    usage = Usage(
        requests=1,
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost_usd=_cost(response),
    )
    return Reply(text=response.text or "", calls=calls, usage=usage)


def _cost(response: "ModelResponse") -> float | None:
    """None where nobody publishes a price for this model."""
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None


def system_prompt() -> str:
    return files("copydesk.jobs.agent").joinpath("prompts/system.md").read_text("utf-8")


def repository_listing(workspace: Workspace) -> str:
    """The files of the commit, whatever was edited since: an opening that stays the same can be cached."""
    paths = [path for path, _ in workspace.tree.files()]
    shown = json.dumps(paths[:MOST_PATHS], ensure_ascii=False, indent=0)
    more = f" The first {MOST_PATHS}; use list for the others." if len(paths) > MOST_PATHS else ""
    return f"The repository's {len(paths)} files, as data.{more}\n{shown}"
