"""Language models over real HTTP, against a server that follows a script."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pygit2
import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from copydesk.jobs.agent.conversation import (
    Conversation,
    ModelFailed,
    Observed,
    Prompt,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
)
from copydesk.jobs.agent.models import (
    LanguageModel,
    ModelUnavailable,
    as_reply,
    known_model,
    model_for,
    repository_listing,
)
from copydesk.jobs.agent.tools.toolbox import TOOLS, Toolbox
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Workspace
from tests.support.model_server import (
    Answer,
    ModelServer,
    Request,
    call,
    drop,
    fail,
    hang,
    say,
    send,
    together,
)

KEY = "a-very-private-key"
ASKED: Conversation = [Prompt(text="Fix the typo.")]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COPYDESK_MODEL_KEY", KEY)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return workspace_of(tmp_path, ["guide.md", "index.md"])


def workspace_of(folder: Path, paths: list[str]) -> Workspace:
    repository = pygit2.init_repository(str(folder / "docs.git"), bare=True)
    tree = repository.TreeBuilder()
    for path in paths:
        tree.insert(path, repository.create_blob(b"# Hello\n"), pygit2.enums.FileMode.BLOB)
    author = pygit2.Signature("Ada", "ada@example.com", 0, 0)
    commit = repository.create_commit("refs/heads/main", author, author, "Begin", tree.write(), [])
    return Workspace(Tree(repository, str(commit)))


def talking_to(server: ModelServer, **changed: Any) -> LanguageModel:
    model = model_for("openai-compatible:scripted", url=server.url)
    assert isinstance(model, LanguageModel)
    return replace(model, **{"pauses": (0.01, 0.01, 0.01), **changed})


def heard(script: Sequence[Answer], conversation: Conversation, workspace: Workspace) -> tuple[Reply, list[Request]]:
    with ModelServer(script) as server:
        return asyncio.run(talking_to(server).reply(conversation, workspace)), server.requests


def failure(script: Sequence[Answer], workspace: Workspace) -> tuple[str, list[Request]]:
    with ModelServer(script) as server, pytest.raises(ModelFailed) as failed:
        asyncio.run(talking_to(server).reply(ASKED, workspace))
    return str(failed.value), server.requests


def test_a_text_is_a_reply_without_calls(workspace: Workspace) -> None:
    reply, _ = heard([say("Nothing to do.", input_tokens=70, output_tokens=5)], ASKED, workspace)
    assert reply == Reply(text="Nothing to do.", usage=Usage(requests=1, input_tokens=70, output_tokens=5))


def test_tool_calls_come_with_their_arguments(workspace: Workspace) -> None:
    script = [together(call("read", {"path": "guide.md"}, text="I look."), call("diff", {}))]
    reply, _ = heard(script, ASKED, workspace)
    assert reply.text == "I look."
    assert [(made.name, made.arguments) for made in reply.calls] == [("read", {"path": "guide.md"}), ("diff", {})]
    assert len({made.id for made in reply.calls}) == 2


def test_the_request_carries_instructions_tools_and_the_repository_as_data(workspace: Workspace) -> None:
    _, (request,) = heard([say("")], ASKED, workspace)
    system, user = request.body["messages"]
    assert system["role"] == "system"
    assert "pull request" in system["content"]
    assert user["content"].startswith("Fix the typo.")
    assert '"guide.md"' in user["content"]
    tools = {tool["function"]["name"]: tool["function"] for tool in request.body["tools"]}
    assert tools.keys() == TOOLS.keys()
    assert tools["read"]["description"] == TOOLS["read"].description
    assert "path" in tools["read"]["parameters"]["required"]
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_conversation_goes_back_as_it_was_held(workspace: Workspace) -> None:
    looked = ToolCall(id="a", name="read", arguments={"path": "guide.md"})
    missed = ToolCall(id="b", name="read", arguments={"path": "gone.md"})
    conversation: Conversation = [
        *ASKED,
        Reply(text="I look.", calls=(looked, missed)),
        Observed(
            results=(
                ToolResult(call_id="a", name="read", ok=True, text="1 Hello"),
                ToolResult(call_id="b", name="read", ok=False, text="There is no file gone.md."),
            )
        ),
        Prompt(text="And be brief."),
    ]
    _, (request,) = heard([say("Done.")], conversation, workspace)
    _, _, assistant, first, second, later = request.body["messages"]
    assert assistant["content"] == "I look."
    assert [made["id"] for made in assistant["tool_calls"]] == ["a", "b"]
    assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"guide.md"}'}
    assert first == {"role": "tool", "tool_call_id": "a", "content": "1 Hello"}
    assert second["tool_call_id"] == "b"
    assert "There is no file gone.md." in second["content"]
    assert later == {"role": "user", "content": "And be brief."}


def test_a_call_that_was_never_carried_out_is_answered_for(workspace: Workspace) -> None:
    asked = ToolCall(id="a", name="diff", arguments={})
    conversation: Conversation = [*ASKED, Reply(calls=(asked,)), Prompt(text="Go on."), Reply(), Prompt(text="Please.")]
    _, (request,) = heard([say("Done.")], conversation, workspace)
    assert [message["role"] for message in request.body["messages"][2:]] == ["assistant", "tool", "user", "user"]


def test_the_listing_names_only_the_first_paths(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, [f"page-{n:03}.md" for n in range(302)])
    before = repository_listing(workspace)
    assert '"page-299.md"' in before
    assert '"page-300.md"' not in before
    assert "302 files" in before
    workspace.delete("page-000.md")
    assert repository_listing(workspace) == before


@pytest.mark.parametrize("arguments", ["{not json", '["a", "list"]', '"a string"'])
def test_arguments_that_are_no_object_are_refused_by_the_tool(arguments: str, workspace: Workspace) -> None:
    reply, _ = heard([call("list", arguments)], ASKED, workspace)
    result = Toolbox(workspace).call(reply.calls[0])
    assert not result.ok
    assert "arguments do not fit" in result.text


def test_a_rate_limit_is_waited_out_as_long_as_the_provider_asks(workspace: Workspace) -> None:
    begun = time.monotonic()
    reply, requests = heard([fail(429, retry_after=1), say("Done.")], ASKED, workspace)
    assert reply.text == "Done."
    assert len(requests) == 2
    assert 1 <= time.monotonic() - begun < 3


@pytest.mark.parametrize("trouble", [fail(500), fail(503), drop()])
def test_trouble_that_may_pass_is_tried_again(trouble: Answer, workspace: Workspace) -> None:
    reply, requests = heard([trouble, say("Done.")], ASKED, workspace)
    assert (reply.text, len(requests)) == ("Done.", 2)


def test_a_provider_that_stays_broken_is_tried_four_times(workspace: Workspace) -> None:
    told, requests = failure([fail(500, "We are on fire.")] * 9, workspace)
    assert told == "openai-compatible:scripted answered 500: We are on fire."
    assert len(requests) == 4


def test_a_refused_request_is_not_repeated(workspace: Workspace) -> None:
    told, requests = failure([fail(401, "Who are you?"), say("Done.")], workspace)
    assert told == "openai-compatible:scripted answered 401: Who are you?"
    assert len(requests) == 1


def test_a_slow_answer_counts_as_trouble(workspace: Workspace) -> None:
    with ModelServer([hang(5), say("Done.")]) as server:
        reply = asyncio.run(talking_to(server, timeout=0.2).reply(ASKED, workspace))
    assert reply.text == "Done."


def test_an_unreachable_provider_fails_in_words(workspace: Workspace) -> None:
    with ModelServer([]) as server:
        model = talking_to(server)
    with pytest.raises(ModelFailed, match=r"openai-compatible:scripted gave no answer: ."):
        asyncio.run(model.reply(ASKED, workspace))


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}"])
def test_an_answer_in_another_format_fails_in_words(body: str, workspace: Workspace) -> None:
    told, _ = failure([send(body)] * 4, workspace)
    assert told.startswith("openai-compatible:scripted ")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_broken_off_is_not_taken_for_the_end(reason: str, workspace: Workspace) -> None:
    told, _ = failure([say("I will now", finish_reason=reason)], workspace)
    assert reason in told


def test_no_secret_is_in_the_message(workspace: Workspace) -> None:
    secrets = (KEY, "sk-proj-abc_123-def", "sk-ab***xy", "AIzaSyA-1234567890abcdefghijk", "Bearer abcdef.123")
    told, _ = failure(
        [fail(401, f"Incorrect API key provided: {', '.join(secrets)}, see\n below. {'x' * 900}")], workspace
    )
    assert "Incorrect API key provided: [key], [key], [key], [key], [key], see below." in told
    assert len(told) == 500


def test_a_hanging_call_can_be_cancelled(workspace: Workspace) -> None:
    async def cancel() -> float:
        arrived = threading.Event()
        with ModelServer([hang(60)], on_request=lambda _: arrived.set()) as server:
            asked = asyncio.create_task(talking_to(server).reply(ASKED, workspace))
            assert await asyncio.to_thread(arrived.wait, 5)
            begun = time.monotonic()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            return time.monotonic() - begun

    assert asyncio.run(cancel()) < 1


def test_one_model_serves_many_jobs_in_several_event_loops(workspace: Workspace) -> None:
    async def three(model: LanguageModel) -> list[Reply]:
        return await asyncio.gather(*(model.reply(ASKED, workspace) for _ in range(3)))

    with ModelServer(lambda _: say("Done.")) as server:
        model = talking_to(server)
        replies = [*asyncio.run(three(model)), *asyncio.run(three(model))]
    assert [reply.text for reply in replies] == ["Done."] * 6


def test_a_published_price_becomes_the_cost() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    priced = ModelResponse(parts=[], usage=usage, model_name="gpt-4o", provider_name="openai")
    assert as_reply(priced).usage.cost_usd == pytest.approx(2.5)
    assert as_reply(replace(priced, model_name="nobody-knows-it")).usage.cost_usd is None


@pytest.fixture
def twice_asked() -> Iterator[ModelServer]:
    with ModelServer([call("diff", {}), [hang(60), say("Done.")]], by_turn=True) as server:
        yield server


def test_by_turn_a_resumed_conversation_hears_the_same_script(twice_asked: ModelServer, workspace: Workspace) -> None:
    model = talking_to(twice_asked, timeout=0.3)
    first = asyncio.run(model.reply(ASKED, workspace))
    assert asyncio.run(model.reply(ASKED, workspace)) == first
    seen = Observed(results=tuple(Toolbox(workspace).call(made) for made in first.calls))
    assert asyncio.run(model.reply([*ASKED, first, seen], workspace)).text == "Done."
    assert [request.turn for request in twice_asked.requests] == [0, 0, 1, 1]


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
def test_a_model_is_known_by_its_form(name: str, known: bool) -> None:
    assert known_model(name) is known


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
def test_what_a_model_lacks_is_named(name: str, said: str) -> None:
    with pytest.raises(ModelUnavailable, match=said):
        model_for(name)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'copydesk\[models\]'"):
        model_for("openai:gpt-5")


def test_a_key_is_not_needed_by_a_server_of_ones_own(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COPYDESK_MODEL_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-meant-for-openai")
    _, (request,) = heard([say("Done.")], ASKED, workspace)
    assert "sk-meant-for-openai" not in str(request)
