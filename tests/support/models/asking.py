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
from tests.support.model_server import ModelServer, Request, Turn

KEY = "a-very-private-key"
KEYS = dict.fromkeys(("openai", "anthropic", "google", "compatible"), KEY)
COMPATIBLE = "openai-compatible:scripted"
PROVIDERS = (COMPATIBLE, "openai:gpt-5", "anthropic:claude-opus-5", "google:gemini-2.5-pro")
ASKED: Conversation = [Prompt(text="Fix the typo.")]


def talking_to(server: ModelServer, name: str = COMPATIBLE, **changed: Any) -> LanguageModel:
    """Connects a model, with short retry pauses."""
    model = create_model(name, url=server.url, keys=KEYS, base_urls=server.addresses)
    assert isinstance(model, LanguageModel)
    return replace(model, **{"backoff_seconds": (0.01, 0.01, 0.01), **changed})


def models(server: ModelServer, **changed: Any) -> Callable[[str], LanguageModel]:
    """Returns a model factory for a worker."""
    return lambda name: talking_to(server, name, **changed)


def heard(
    script: Sequence[Turn], conversation: Conversation, workspace: Workspace, name: str = COMPATIBLE, **changed: Any
) -> tuple[Reply, list[Request]]:
    with ModelServer(script) as server:
        return asyncio.run(talking_to(server, name, **changed).reply(conversation, workspace)), server.requests


def failure(
    script: Sequence[Turn], workspace: Workspace, name: str = COMPATIBLE, **changed: Any
) -> tuple[ModelFailed, list[Request]]:
    with ModelServer(script) as server, pytest.raises(ModelFailed) as failed:
        asyncio.run(talking_to(server, name, **changed).reply(ASKED, workspace))
    return failed.value, server.requests
