"""Language models over real HTTP: transient errors are retried, and an incomplete answer is never used."""

import asyncio
import re
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from copydesk.jobs.agent.brief import Brief, hold_connection
from copydesk.jobs.agent.conversation import ModelFailed, Prompt, Reply, ToolCall, ToolResult, ToolResults
from copydesk.jobs.agent.models.language_model import LanguageModel
from copydesk.jobs.agent.tools import TOOLS, Toolbox
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace
from tests.support.drills import mark_drills
from tests.support.model_server import (
    Answer,
    ModelServer,
    call,
    cut,
    drop,
    fail,
    garble,
    hang,
    say,
    send,
    slow_down,
    stall,
)
from tests.support.models.connected_models import (
    COMPATIBLE_MODEL,
    FIX_TYPO_CONVERSATION,
    PROVIDER_KEY,
    PROVIDER_MODELS,
    ask_failing_model,
    ask_model,
    connect_model,
)

LONG = say("A rather long answer, in several pieces, that takes its time.")


@pytest.fixture
def docs(workspace: MakeWorkspace) -> Workspace:
    return workspace({"guide.md": b"# Hello\n", "index.md": b"# Index\n"})


every_provider = pytest.mark.parametrize("name", PROVIDER_MODELS)


@pytest.mark.deep
@every_provider
def test_streamed_answer_is_complete(name: str, docs: Workspace) -> None:
    script = [call("read", {"path": "guide.md", "start": 1}, text="I look.")]
    reply, (request,) = ask_model(script, FIX_TYPO_CONVERSATION, docs, name)
    assert reply.text == "I look."
    assert [(made.name, made.arguments) for made in reply.calls] == [("read", {"path": "guide.md", "start": 1})]
    assert name.startswith("google:") or request.body["stream"] is True


@pytest.mark.deep
@every_provider
@pytest.mark.parametrize("trouble", [fail(503), drop(), cut(LONG), garble(LONG)], ids=["503", "drop", "cut", "garbled"])
def test_transient_errors_are_retried(trouble: Answer, name: str, docs: Workspace) -> None:
    reply, requests = ask_model([trouble, say("Done.")], FIX_TYPO_CONVERSATION, docs, name)
    assert (reply.text, len(requests)) == ("Done.", 2)


@pytest.mark.deep
def test_every_transient_status_is_retried(docs: Workspace) -> None:
    troubles = [fail(status) for status in (429, 500, 502, 504, 529)]
    reply, requests = ask_model([*troubles, say("Done.")], FIX_TYPO_CONVERSATION, docs, backoff_seconds=(0.01,) * 5)
    assert (reply.text, len(requests)) == ("Done.", 6)


@pytest.mark.deep
@every_provider
def test_truncated_stream_that_closes_normally_is_retried(name: str, docs: Workspace) -> None:
    reply, requests = ask_model(
        [cut(call("delete", {"path": "guide.md"}), 0.4, politely=True), LONG], FIX_TYPO_CONVERSATION, docs, name
    )
    assert (reply.text, reply.calls, len(requests)) == (LONG.text, (), 2)


@pytest.mark.deep
@pytest.mark.parametrize("name", mark_drills(PROVIDER_MODELS, default=tuple(PROVIDER_MODELS)[:1]))
def test_a_stalled_stream_is_noticed(name: str, docs: Workspace) -> None:
    begun = time.monotonic()
    reply, requests = ask_model(
        [stall(LONG, 600), say("Done.")], FIX_TYPO_CONVERSATION, docs, name, idle_timeout_seconds=1.5
    )
    assert (reply.text, len(requests)) == ("Done.", 2)
    assert time.monotonic() - begun < 60


@pytest.mark.deep
def test_a_long_answer_that_keeps_coming_is_not_cut_off(docs: Workspace) -> None:
    reply, requests = ask_model([slow_down(LONG, 0.2)], FIX_TYPO_CONVERSATION, docs, idle_timeout_seconds=1.5)
    assert (reply.text, len(requests)) == (LONG.text, 1)


def test_one_attempt_has_a_timeout_even_while_streaming(docs: Workspace) -> None:
    reply, requests = ask_model(
        [slow_down(LONG, 0.3), say("Done.")], FIX_TYPO_CONVERSATION, docs, attempt_timeout_seconds=1.5
    )
    assert (reply.text, len(requests)) == ("Done.", 2)


@pytest.mark.deep
@every_provider
def test_cost_of_a_broken_stream_is_counted(name: str, docs: Workspace) -> None:
    reply, _ = ask_model(
        [cut(LONG, 0.7), fail(503), say("Done.", input_tokens=70, output_tokens=5)], FIX_TYPO_CONVERSATION, docs, name
    )
    assert reply.usage.requests == 2
    assert reply.usage.input_tokens >= 70


@pytest.mark.deep
def test_error_carries_the_cost_of_failed_attempts(docs: Workspace) -> None:
    told, requests = ask_failing_model([cut(LONG)] * 4, docs, "anthropic:claude-opus-5")
    assert len(requests) == 4
    assert (told.usage.requests, told.usage.input_tokens) == (4, 400)


@pytest.mark.parametrize("in_words", mark_drills((False, True), default=(False,)))
def test_retry_after_of_the_provider_is_honored(in_words: bool, docs: Workspace) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2.5), usegmt=True)
    _, (first, second) = ask_model(
        [fail(429, retry_after=date if in_words else 1), say("Done.")], FIX_TYPO_CONVERSATION, docs
    )
    assert 0.9 <= second.at - first.at < 60


def model_with_deadline(server: ModelServer, seconds: float, **changed: Any) -> LanguageModel:
    brief = Brief("", tuple(TOOLS.values()), time.monotonic() + seconds)
    return connect_model(server, **changed).with_brief(brief)


@pytest.mark.parametrize(
    ("trouble", "pauses"), [(fail(429, "Slow down.", retry_after=3600), (0.01,)), (fail(500, "Slow down."), (3600.0,))]
)
def test_wait_longer_than_the_job_fails_immediately(
    trouble: Answer, pauses: tuple[float, ...], docs: Workspace
) -> None:
    begun = time.monotonic()
    with ModelServer([trouble] * 9) as server, pytest.raises(ModelFailed) as told:
        asyncio.run(model_with_deadline(server, 600, backoff_seconds=pauses).reply(FIX_TYPO_CONVERSATION, docs))
    assert time.monotonic() - begun < 60
    assert len(server.requests) == 1
    assert "Slow down. The next attempt would have to wait" in str(told.value)
    assert re.search(r"the job has (5\d\d|600) s left", str(told.value))


def test_persistent_failure_is_retried_up_to_the_limit(docs: Workspace) -> None:
    told, requests = ask_failing_model([fail(500, "We are on fire.")] * 9, docs)
    assert str(told) == f"{COMPATIBLE_MODEL} answered 500: We are on fire."
    assert len(requests) == 4


@pytest.mark.deep
@every_provider
def test_a_refused_request_is_not_repeated(name: str, docs: Workspace) -> None:
    told, requests = ask_failing_model([fail(400, "That makes no sense."), say("Done.")], docs, name)
    assert str(told) == f"{name} answered 400: That makes no sense."
    assert len(requests) == 1


@every_provider
def test_rejected_key_is_reported(name: str, docs: Workspace) -> None:
    told, _ = ask_failing_model([fail(401, "Who are you?")], docs, name)
    assert str(told) == f"{name} answered 401 and rejected the API key: Who are you?"


@every_provider
def test_unknown_model_is_reported(name: str, docs: Workspace) -> None:
    told, requests = ask_failing_model([fail(404, "No such model.")], docs, name)
    provider, _, model = name.partition(":")
    assert str(told).startswith(f"{provider} has no model {model}")
    assert str(told).endswith("it answered 404: No such model.")
    assert len(requests) == 1


def test_exhausted_account_is_not_retried(docs: Workspace) -> None:
    told, requests = ask_failing_model(
        [fail(429, "You have no credit left.", code="insufficient_quota")] * 9, docs, "openai:gpt-5"
    )
    assert "You have no credit left." in str(told)
    assert len(requests) == 1


@every_provider
def test_refusal_by_the_model_is_reported(name: str, docs: Workspace) -> None:
    told, requests = ask_failing_model([say("", refusal="I will not help with that.")], docs, name)
    assert str(told).startswith(f"{name} or its provider's content filter refused to answer")
    assert ("I will not help with that." in str(told)) == (not name.startswith("google:"))
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [(COMPATIBLE_MODEL, "length"), ("openai:gpt-5", "max_output_tokens"), ("anthropic:claude-opus-5", "max_tokens"),
     ("google:gemini-2.5-pro", "MAX_TOKENS")],
)  # fmt: skip
def test_answer_truncated_at_max_tokens_is_not_final(name: str, reason: str, docs: Workspace) -> None:
    told, _ = ask_failing_model([say("I will now", finish_reason=reason)], docs, name)
    assert "stopped in the middle of its answer" in str(told)


@pytest.mark.parametrize(
    ("name", "reason"),
    [(COMPATIBLE_MODEL, "length"), ("openai:gpt-5", "max_output_tokens"), ("anthropic:claude-opus-5", "max_tokens"),
     ("google:gemini-2.5-pro", "MAX_TOKENS")],
)  # fmt: skip
def test_tool_call_truncated_at_max_tokens_is_not_carried_out(name: str, reason: str, docs: Workspace) -> None:
    """The arguments may be valid JSON although a part of the page is missing."""
    written = '{"path": "new.md", "content": "# N"}'
    told, _ = ask_failing_model([replace(call("write", written), finish_reason=reason)], docs, name)
    assert "stopped in the middle of its answer" in str(told)
    assert not docs.changes()


@pytest.mark.parametrize("name", [name for name in PROVIDER_MODELS if not name.startswith("google:")])
def test_truncated_arguments_are_refused_by_the_tool(name: str, docs: Workspace) -> None:
    reply, _ = ask_model([call("write", '{"path": "new.md", "content": "# N')], FIX_TYPO_CONVERSATION, docs, name)
    result = Toolbox(docs).call(reply.calls[0])
    assert not result.ok
    assert "arguments do not fit: they are not a JSON object, or were cut off" in result.text
    assert not docs.changes()


TOO_LONG = {
    COMPATIBLE_MODEL: fail(400, "request (40000 tokens) exceeds the available context size (8192 tokens)"),
    "openai:gpt-5": fail(400, "Your input is too long.", code="context_length_exceeded"),
    "anthropic:claude-opus-5": fail(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "google:gemini-2.5-pro": fail(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
}


@pytest.mark.deep
@every_provider
def test_conversation_over_the_context_limit_is_resent_compacted(name: str, docs: Workspace) -> None:
    conversation = [*FIX_TYPO_CONVERSATION]
    for n in range(6):
        made = ToolCall(id=f"c{n}", name="read", arguments={"path": f"{n}.md"})
        result = ToolResult(call_id=f"c{n}", name="read", ok=True, text=f"page {n} " * 500)
        conversation += [Reply(calls=(made,)), ToolResults(results=(result,))]
    reply, (first, second) = ask_model([TOO_LONG[name], say("Done.")], conversation, docs, name)
    assert "page 0 page 0" in str(first.body)
    assert "page 0 page 0" not in str(second.body)
    assert "page 5 page 5" in str(second.body)
    _, (third,) = ask_model([say("Done.")], [*conversation, reply, Prompt(text="More.")], docs, name)
    assert "page 0 page 0" not in str(third.body), "what did not fit once is not tried again"


@every_provider
def test_conversation_that_cannot_fit_is_reported(name: str, docs: Workspace) -> None:
    told, requests = ask_failing_model([TOO_LONG[name]] * 3, docs, name)
    assert str(told).startswith(f"The conversation does not fit into the context window of {name}")
    assert len(requests) == 1


def test_unreachable_provider_fails_with_a_message(docs: Workspace) -> None:
    with ModelServer([]) as server:
        model = connect_model(server)
    with pytest.raises(ModelFailed, match=rf"{COMPATIBLE_MODEL} did not answer: ."):
        asyncio.run(model.reply(FIX_TYPO_CONVERSATION, docs))


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}"])
def test_answer_in_another_format_fails_with_a_message(body: str, docs: Workspace) -> None:
    told, _ = ask_failing_model([send(body)] * 4, docs)
    assert str(told).startswith(f"{COMPATIBLE_MODEL} ")


@pytest.mark.parametrize(
    "secret",
    [
        *(PROVIDER_KEY, PROVIDER_KEY[:9], PROVIDER_KEY[-9:], "a-ve***********-key"),
        *("sk-proj-abc_123-def", "sk-ab***xy", "AIzaSyA-1234567890abcdefghijk", "Bearer abcdef.123"),
    ],
)
def test_no_secret_is_in_the_message(secret: str, docs: Workspace) -> None:
    told, _ = ask_failing_model([fail(401, f"Incorrect API key provided: {secret}, so\n look it up.")], docs)
    assert str(told).endswith("Incorrect API key provided: [key], so look it up.")


def test_placeholder_key_is_not_redacted(docs: Workspace) -> None:
    told, _ = ask_failing_model([fail(400, "EMPTY prompt.")], docs, api_key="EMPTY")
    assert str(told).endswith("EMPTY prompt.")


def test_error_message_is_truncated(docs: Workspace) -> None:
    told, _ = ask_failing_model([fail(400, "x" * 9000)], docs)
    assert len(str(told)) == 500


def test_a_hanging_call_can_be_cancelled(docs: Workspace) -> None:
    async def cancel() -> float:
        arrived = threading.Event()
        with ModelServer([hang(600)], on_request=lambda _: arrived.set()) as server:
            asked = asyncio.create_task(connect_model(server).reply(FIX_TYPO_CONVERSATION, docs))
            assert await asyncio.to_thread(arrived.wait, 60)
            begun = time.monotonic()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            return time.monotonic() - begun

    assert asyncio.run(cancel()) < 60


def test_one_model_serves_many_jobs_in_several_event_loops(docs: Workspace) -> None:
    async def three(model: LanguageModel) -> list[Reply]:
        return await asyncio.gather(*(model.reply(FIX_TYPO_CONVERSATION, docs) for _ in range(3)))

    with ModelServer(lambda _: say("Done.")) as server:
        model = connect_model(server)
        replies = [*asyncio.run(three(model)), *asyncio.run(three(model))]
    assert [reply.text for reply in replies] == ["Done."] * 6


@every_provider
def test_requests_of_a_run_share_a_connection_that_is_closed_at_its_end(name: str, docs: Workspace) -> None:
    with ModelServer([say("One."), fail(503), say("Two."), say("Three.")]) as server, asyncio.Runner() as runner:
        model = connect_model(server, name)
        with hold_connection(model, runner):
            assert runner.run(model.reply(FIX_TYPO_CONVERSATION, docs)).text == "One."
            assert runner.run(model.reply(FIX_TYPO_CONVERSATION, docs)).text == "Two."
        assert server.wait_until_disconnected()
        assert len({request.port for request in server.requests}) == 1
        assert runner.run(model.reply(FIX_TYPO_CONVERSATION, docs)).text == "Three."


def test_resumed_conversation_gets_the_same_scripted_turn(docs: Workspace) -> None:
    with ModelServer([call("diff", {}), [hang(600), say("Done.")]], by_turn=True) as server:
        model = replace(connect_model(server), idle_timeout_seconds=1.5)
        first = asyncio.run(model.reply(FIX_TYPO_CONVERSATION, docs))
        assert asyncio.run(model.reply(FIX_TYPO_CONVERSATION, docs)) == first
        seen = ToolResults(results=tuple(Toolbox(docs).call(made) for made in first.calls))
        assert asyncio.run(model.reply([*FIX_TYPO_CONVERSATION, first, seen], docs)).text == "Done."
    assert [request.turn for request in server.requests] == [0, 0, 1, 1]


def test_text_answer_is_a_reply_without_calls(docs: Workspace) -> None:
    reply, _ = ask_model([say("Nothing to do.", input_tokens=70, output_tokens=5)], FIX_TYPO_CONVERSATION, docs)
    assert reply == Reply(text="Nothing to do.", usage=Usage(requests=1, input_tokens=70, output_tokens=5))
