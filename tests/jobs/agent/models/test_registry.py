"""The models of jobs: their names, their keys, and errors for missing keys."""

import asyncio
import sys

import pytest

from copydesk.jobs.agent.models.model_names import is_model_name
from copydesk.jobs.agent.models.registry import ModelUnavailable, check_configuration, create_model
from tests.jobs.conftest import MakeWorkspace
from tests.support.model_server import ModelServer, say
from tests.support.models.connected_models import (
    COMPATIBLE_MODEL,
    FIX_TYPO_CONVERSATION,
    PROVIDER_KEY,
    PROVIDER_KEYS,
    PROVIDER_MODELS,
)

VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "COPYDESK_MODEL_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("mechanic", True),
        ("openai:gpt-5", True),
        ("anthropic:claude-sonnet-4-5", True),
        ("google:gemini-3-pro", True),
        ("openai-compatible:qwen/qwen3:8b", True),
        ("openai:", False),
        ("openai", False),
        ("openai:a b", False),
        ("azure:gpt-5", False),
        ("", False),
    ],
)
def test_model_name_is_recognized_by_its_format(name: str, known: bool) -> None:
    assert is_model_name(name) is known


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("parrot", "openai-compatible:…"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-3-pro", "GOOGLE_API_KEY"),
        ("openai-compatible:qwen3", "COPYDESK_MODEL_URL"),
    ],
)
def test_missing_requirement_of_a_model_is_named(name: str, said: str) -> None:
    with pytest.raises(ModelUnavailable, match=said):
        create_model(name)
    available, why_not = check_configuration(name)
    assert (available, said in (why_not or "")) == (False, True)


@pytest.mark.parametrize("name", ["mechanic", *PROVIDER_MODELS])
def test_fully_configured_model_is_available(name: str) -> None:
    assert check_configuration(name, "http://127.0.0.1:1/v1", PROVIDER_KEYS) == (True, None)


def test_a_key_in_the_environment_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", PROVIDER_KEY)
    assert check_configuration("anthropic:claude-sonnet-4-5") == (True, None)


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in PROVIDER_MODELS if name != COMPATIBLE_MODEL])
def test_the_projects_own_key_wins_over_the_environment(
    name: str, workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "of-the-environment")
    with ModelServer([say("Done.")]) as server:
        model = create_model(name, keys=PROVIDER_KEYS, base_urls=server.addresses)
        asyncio.run(model.reply(FIX_TYPO_CONVERSATION, workspace({})))
    assert PROVIDER_KEY in str(server.requests[0].headers)
    assert "of-the-environment" not in str(server.requests[0].headers)


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ModelUnavailable, match="install Copydesk with its extra 'models'"):
        create_model("openai:gpt-5", keys=PROVIDER_KEYS)


@pytest.mark.deep
def test_self_hosted_server_needs_no_key(workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-meant-for-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-meant-for-openai")
    with ModelServer([say("Done.")]) as server:
        asyncio.run(create_model(COMPATIBLE_MODEL, url=server.url).reply(FIX_TYPO_CONVERSATION, workspace({})))
    assert "meant-for-openai" not in str(server.requests)


def test_self_hosted_address_is_not_used_for_other_providers(workspace: MakeWorkspace) -> None:
    with ModelServer([]) as mine, ModelServer([say("Done.")]) as openai:
        model = create_model("openai:gpt-5", url=mine.url, keys=PROVIDER_KEYS, base_urls=openai.addresses)
        asyncio.run(model.reply(FIX_TYPO_CONVERSATION, workspace({})))
    assert (len(mine.requests), len(openai.requests)) == (0, 1)


def test_repr_of_a_model_does_not_contain_its_key() -> None:
    assert PROVIDER_KEY not in repr(create_model("openai:gpt-5", keys=PROVIDER_KEYS))
