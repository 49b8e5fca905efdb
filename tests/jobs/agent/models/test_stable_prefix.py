"""Providers cache the prefix of a request: each request of a job must begin with the whole request before it."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.agent.brief import Brief, hold_connection
from copydesk.jobs.agent.conversation import Conversation, Prompt, ToolResults
from copydesk.jobs.agent.overview.repository_overview import render_overview
from copydesk.jobs.agent.tools import TOOLS, Toolbox
from copydesk.jobs.workspace.workspace import short_hash
from tests.jobs.conftest import MakeWorkspace
from tests.support.model_server import ModelRequest, ModelServer, call, call_several, say
from tests.support.models.connected_models import PROVIDER_MODELS, connect_model, model_factory
from tests.support.repositories import make_repository
from tests.support.service import serve

PAGE = b"# Hello\n\nThe colour of things.\n"
BROKEN = b"# Hello\n\nThe [color](gone.md) of things.\n"


def edit(old: bytes, new: bytes) -> dict[str, Any]:
    return {"path": "a.md", "hash": short_hash(old), "replacements": [{"old": old.decode(), "new": new.decode()}]}


def encode_prefix(request: ModelRequest) -> bytes:
    """Returns the parts of a request in the order in which providers read them, without the closing bracket."""
    body = request.body
    return json.dumps([body["tools"], body["messages"]]).encode().removesuffix(b"]]")


@pytest.mark.deep
def test_every_request_of_a_job_begins_with_the_one_before(tmp_path: Path) -> None:
    script = [
        call_several(call("read", {"path": "a.md"}), call("search", {"pattern": "colour"})),
        say("I think."),  # advice: only tools change anything
        call("read", {"path": "a.md", "extra": 1}),  # invalid arguments
        call("edit", edit(PAGE, BROKEN)),
        call("finish", {"title": "T", "summary": "S"}),  # sent back with a finding
        call("edit", edit(BROKEN, PAGE.replace(b"colour", b"color"))),
        call("finish", {"title": "T", "summary": "S"}),
        call("read", {"path": "a.md"}),  # the follow-up
        call("finish", {"title": "T", "summary": "S"}),
    ]
    repository = make_repository(tmp_path / "docs.git", {"a.md": PAGE, "AGENTS.md": b"Be brief.\n"})
    with (
        ModelServer(script) as server,
        serve(tmp_path / "data", repository=repository, model=model_factory(server)) as service,
    ):
        desk = service.desk
        project = desk.projects.create(
            "Prefix", repository=str(repository), ref="main", model="openai-compatible:scripted", actor="test"
        )
        key = desk.keys.create(project.id, actor="test")[1]
        client = replace(service, project=project, key=key).client
        job = client.wait(client.create_job("Spell color so.")["id"])
        assert job["status"] == "completed", job["message"]
        client.message_job(job["id"], "Are you sure?")
        client.wait(job["id"])
        prefixes = [encode_prefix(request) for request in server.requests]
    assert len(prefixes) == len(script)
    for earlier, later in pairwise(prefixes):
        assert later.startswith(earlier)


PREFIX_FIELDS = {
    "openai-compatible": ("tools", "messages"),
    "openai": ("tools", "instructions", "input"),
    "anthropic": ("tools", "system", "messages"),
    "google": ("tools", "systemInstruction", "contents"),
}
"""The fields of a request in the order in which each provider reads them; the last one grows with the conversation."""


def encode_fields(name: str, body: dict[str, Any]) -> bytes:
    """Returns the fields of a request without the marks of where Anthropic caches, which are no part of the text."""
    fields = [body[field] for field in PREFIX_FIELDS[name.partition(":")[0]] if field in body]
    return json.dumps(remove_cache_marks(fields)).encode().removesuffix(b"]]")


def remove_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: remove_cache_marks(each) for key, each in value.items() if key != "cache_control"}
    return [remove_cache_marks(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", PROVIDER_MODELS)
def test_instructions_tools_overview_and_conversation_stay_the_same_from_turn_to_turn(
    name: str, workspace: MakeWorkspace
) -> None:
    docs = workspace({"a.md": PAGE, "AGENTS.md": b"Be brief.\n"})
    conversation: Conversation = [Prompt(text="Spell color so.")]
    script = [
        call_several(call("search", {"pattern": "colour"}), call("read", {"path": "a.md"})),
        call("edit", edit(PAGE, BROKEN)),
        call("delete", {"path": "a.md"}),
        say("Done."),
    ]
    with ModelServer(script) as server, asyncio.Runner() as runner:
        brief = Brief(render_overview(docs.tree), tuple(TOOLS.values()))
        model = connect_model(server, name).with_brief(brief)
        with hold_connection(model, runner):
            for _ in script:
                reply = runner.run(model.reply(conversation, docs))
                results = tuple(map(Toolbox(docs).call, reply.calls))
                conversation += [reply, ToolResults(results=results)]
    prefixes = [encode_fields(name, request.body) for request in server.requests]
    assert all(part in prefixes[0] for part in (b"You edit the documentation", b"Replaces exact pieces", b"Be brief."))
    assert all(later.startswith(earlier) for earlier, later in pairwise(prefixes))
