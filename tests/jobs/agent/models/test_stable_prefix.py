"""Providers cache the prefix of a request: each request of a job must begin with the whole request before it."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.workspace.workspace import short_hash
from tests.support.model_server import ModelRequest, ModelServer, call, call_several, say
from tests.support.models.connected_models import model_factory
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
