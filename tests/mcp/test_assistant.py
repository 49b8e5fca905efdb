"""An assistant works with a whole Copydesk: a model over HTTP, git over HTTP, a worker, and analytics."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.workspace.workspace import short_hash
from tests.support.git_http import GitHttpServer
from tests.support.mcp_clients import Mode, Transport, call, open_mcp
from tests.support.model_server import ModelServer
from tests.support.model_server import call as call_tool
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

MODEL = "openai-compatible:scripted"
PAGE = b"# Lamplight\n\nPick a colour for each lamp.\n"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
SCRIPT = [
    call_tool(
        "edit",
        {
            "path": "docs/lamps.md",
            "hash": short_hash(PAGE),
            "replacements": [{"old": "colour", "new": "color"}],
        },
    ),
    call_tool("finish", {"title": "Use American spelling", "summary": "Changed one word."}),
]


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_assistant_creates_a_job_waits_reads_the_diff_and_asks_for_top_pages(
    tmp_path: Path, transport: Transport, mode: Mode
) -> None:
    local = make_repository(tmp_path / "git" / "docs.git", {"docs/lamps.md": PAGE})
    with (
        ModelServer(SCRIPT, by_turn=True) as model,
        GitHttpServer(tmp_path / "git") as git,
        serve(tmp_path / "data", repository=local, models=(MODEL,), model_url=model.url) as running,
    ):
        project = running.desk.projects.create("Lamps", repository=git.url("docs.git"), ref="main", actor="test")
        key = running.desk.keys.create(project.id, name="assistant", actor="test")[1]
        service = replace(running, project=project, key=key)
        service.client.send_events(
            [{"url": "https://docs.example.com/lamps", "userAgent": FIREFOX, "ip": f"192.0.2.{n}"} for n in range(3)]
        )
        progress: list[str] = []
        job, diff, top_pages = asyncio.run(assist(service, transport, mode, progress))
        assert (job["status"], job["model"], job["title"]) == ("completed", MODEL, "Use American spelling")
        assert job["createdBy"]["name"] == "assistant"
        assert job["prLink"].startswith(service.url)
        assert any("edit" in message for message in progress)
        assert progress[-1] == "completed"
        assert "-Pick a colour for each lamp.\n+Pick a color for each lamp.\n" in diff
        assert [(page["path"], page["human"]) for page in top_pages["pages"]] == [("/lamps", 3)]
        assert len(model.requests) == 2
        assert any("git-receive-pack" in request for request in git.requests)


async def assist(
    service: Service, transport: Transport, mode: Mode, messages: list[str]
) -> tuple[dict[str, Any], str, dict[str, Any]]:
    async def record(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    async with open_mcp(service, transport, mode) as client:
        models = await call(client, "list_models")
        assert MODEL in [model["id"] for model in models["models"]]
        job = await call(client, "create_job", prompt="Use American spelling in docs/lamps.md.", model=MODEL)
        result = await client.call_tool("wait_for_job", {"jobId": job["id"]}, progress_callback=record)
        waited: dict[str, Any] = result.structured_content
        assert waited["finished"]
        diff = await client.read_resource(f"copydesk://jobs/{job['id']}/diff")
        text: str = diff.contents[0].text  # type: ignore[union-attr]
        assert (await call(client, "get_job_diff", jobId=job["id"]))["diff"] == text
        return waited["job"], text, await call(client, "get_top_pages")
