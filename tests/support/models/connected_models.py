"""Models of every provider, connected to the scripted server."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from copydesk.jobs.agent.conversation import Conversation, ModelFailed, Prompt, Reply
from copydesk.jobs.agent.models.language_model import LanguageModel
from copydesk.jobs.agent.models.registry import create_model
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.model_server import ModelRequest, ModelServer, Turn

PROVIDER_KEY = "a-very-private-key"
PROVIDER_KEYS = dict.fromkeys(("openai", "anthropic", "google", "compatible"), PROVIDER_KEY)
COMPATIBLE_MODEL = "openai-compatible:scripted"
PROVIDER_MODELS = (COMPATIBLE_MODEL, "openai:gpt-5", "anthropic:claude-opus-5", "google:gemini-2.5-pro")
FIX_TYPO_CONVERSATION: Conversation = [Prompt(text="Fix the typo.")]


def connect_model(server: ModelServer, name: str = COMPATIBLE_MODEL, **options: Any) -> LanguageModel:
    """Connects a model, with short retry pauses."""
    model = create_model(name, url=server.url, keys=PROVIDER_KEYS, base_urls=server.addresses)
    assert isinstance(model, LanguageModel)
    return replace(model, **{"backoff_seconds": (0.01, 0.01, 0.01), **options})


def model_factory(server: ModelServer, **options: Any) -> Callable[[str], LanguageModel]:
    """Returns a model factory for a worker."""
    return lambda name: connect_model(server, name, **options)


def ask_model(
    script: Sequence[Turn],
    conversation: Conversation,
    workspace: Workspace,
    name: str = COMPATIBLE_MODEL,
    **options: Any,
) -> tuple[Reply, list[ModelRequest]]:
    with ModelServer(script) as server:
        return asyncio.run(connect_model(server, name, **options).reply(conversation, workspace)), server.requests


def ask_failing_model(
    script: Sequence[Turn], workspace: Workspace, name: str = COMPATIBLE_MODEL, **options: Any
) -> tuple[ModelFailed, list[ModelRequest]]:
    with ModelServer(script) as server, pytest.raises(ModelFailed) as failed:
        asyncio.run(connect_model(server, name, **options).reply(FIX_TYPO_CONVERSATION, workspace))
    return failed.value, server.requests
