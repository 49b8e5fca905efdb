"""The tools: their schemas, what they return over both transports, the size of results, and errors."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp.shared.exceptions import MCPError

from copydesk.mcp.bounds import MAX_RESULT_CHARS, bound_result, cut_text, to_json
from copydesk.mcp.content.resources import REPORTS, TEMPLATES
from copydesk.mcp.tools.catalog import TOOLS
from copydesk.mcp.tools.tool import Tool
from copydesk.web.middleware.key_cache import required_scope
from tests.support.mcp_clients import Transport, call, call_refused, client_environment, open_mcp
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROOT = Path(__file__).parent.parent.parent
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
CLAUDE = "Mozilla/5.0 (compatible; Claude-User/1.0; +Claude-User@anthropic.com)"
SITE = "https://docs.example.com"


def make_views() -> list[dict[str, Any]]:
    """Returns views: people read /guide most, AI reads /api most."""
    readers = (
        ("/guide", FIREFOX, 9),
        ("/guide", CLAUDE, 1),
        ("/api", FIREFOX, 2),
        ("/api", CLAUDE, 5),
        ("/faq", FIREFOX, 3),
    )
    views = [
        {"url": SITE + path, "userAgent": agent, "ip": f"192.0.2.{visitor}"}
        for path, agent, visitors in readers
        for visitor in range(visitors)
    ]
    missing = {"url": SITE + "/gone", "userAgent": FIREFOX, "ip": "192.0.2.1", "status": 404}
    search = {"type": "search", "query": "sign in", "results": 0}
    return [*views, missing, search]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves a Copydesk with views, feedback, a job that changed a page, and an automation."""
    folder = tmp_path_factory.mktemp("tools")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(folder / "data", repository=repository) as running:
        assert running.client.send_events(make_views())["dropped"] == []
        job = running.client.create_job("Replace colour with color in docs/index.md")
        running.client.wait(job["id"])
        values = {"name": "Links", "kind": "broken_links", "trigger": {"type": "api"}}
        running.desk.automations.create(running.project, values, actor="test")
        yield running


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_is_described_for_models_and_people(tool: Tool) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", tool.name)
    assert tool.title[0].isupper()
    assert 40 < len(tool.description) < 500
    assert tool.description.endswith(".")
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema_rs.Draft202012Validator(schema)
        assert schema["type"] == "object"
    for name, argument in tool.input_schema["properties"].items():
        assert argument["description"], name
        assert "anyOf" not in argument, f"{name}: not every client understands alternatives"


def test_documentation_lists_every_tool_and_resource() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (read|write) \| (.+) \|$", page, re.M)
    assert rows == [(tool.name, tool.scope, tool.title) for tool in TOOLS]
    assert [template.uri for template in TEMPLATES if f"| `{template.uri}` |" not in page] == []
    assert [name for name in REPORTS if f"`{name}`" not in page] == []


def test_arguments_are_spelled_as_in_the_api() -> None:
    names = {name for tool in TOOLS for name in tool.input_schema["properties"]}
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name) for name in names)


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_every_tool_returns_what_its_schema_says(filled: Service, transport: Transport) -> None:
    """Calls every tool. The client compares each result with the schema, and so does this test."""
    job = filled.client.list_jobs()["jobs"][-1]["id"]
    automation = filled.client.list_automations()[0]["id"]
    arguments: dict[str, dict[str, Any]] = {
        "create_job": {"prompt": "Replace gizmos with stuff in docs/index.md", "draft": True, "title": "Stuff"},
        "get_job": {"jobId": job},
        "wait_for_job": {"jobId": job},
        "send_job_message": {"jobId": job, "prompt": "Replace Hello with Hi in docs/index.md"},
        "retry_job": {"jobId": job},
        "get_job_diff": {"jobId": job},
        "run_automation": {"automationId": automation},
        "list_automation_runs": {"automationId": automation},
        "get_page": {"path": "/guide"},
    }

    async def check() -> dict[str, dict[str, Any]]:
        results = {}
        async with open_mcp(filled, transport) as client:
            for tool in TOOLS:
                if tool.name == "cancel_job":
                    continue
                results[tool.name] = await call(client, tool.name, **arguments.get(tool.name, {}))
                for active in (await call(client, "list_jobs", status="active"))["jobs"]:
                    await call(client, "wait_for_job", jobId=active["id"])
        return results

    results = asyncio.run(check())
    for tool in TOOLS:
        if tool.name in results:
            jsonschema_rs.validate(tool.output_schema, results[tool.name])
    assert results["get_visitors"]["totals"] == {"human": 9, "ai": 5, "total": 14}
    assert results["get_missing_pages"]["missing"][0]["path"] == "/gone"
    assert results["get_searches"]["searches"][0]["searchQuery"] == "sign in"
    assert results["get_page"]["path"] == "/guide"
    assert results["retry_job"]["prompt"] == filled.client.get_job(job)["prompt"]
    assert results["retry_job"]["id"] != job


@pytest.mark.deep
def test_scope_of_each_tool_is_that_of_its_calls(filled: Service) -> None:
    """The scope decides which tools a key sees. The gate decides what it can do: both must agree."""
    job, automation = filled.client.list_jobs()["jobs"][-1]["id"], filled.client.list_automations()[0]["id"]
    given = {"jobId": job, "automationId": automation, "prompt": "Fix it", "path": "/guide", "timeoutSeconds": 1}
    key = filled.new_key(scopes=["read"])

    async def check() -> dict[str, bool]:
        refused = {}
        async with open_mcp(filled, key=key) as client:
            for tool in TOOLS:
                required = {name: given[name] for name in tool.input_schema.get("required", ())}
                result = await client.call_tool(tool.name, required)
                refused[tool.name] = bool(result.is_error) and "scope_missing" in str(result.content)
        return refused

    assert asyncio.run(check()) == {tool.name: tool.scope == "write" for tool in TOOLS}
    assert required_scope("POST", "/mcp") == "read"


def test_top_pages_are_ranked_by_the_audience(filled: Service) -> None:
    async def check() -> list[list[str]]:
        rankings = []
        async with open_mcp(filled) as client:
            for audience in ("all", "human", "ai"):
                report = await call(client, "get_top_pages", audience=audience, limit=2)
                assert report["exact"]
                rankings.append([page["path"] for page in report["pages"]])
        return rankings

    assert asyncio.run(check()) == [["/guide", "/api"], ["/guide", "/faq"], ["/api", "/guide"]]


@pytest.mark.deep
def test_ranking_by_audience_reads_on_until_it_is_exact(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page that AI reads most is the last of 300 by its total."""
    folder = tmp_path_factory.mktemp("many")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    people = [
        {"url": f"{SITE}/p{page}", "userAgent": FIREFOX, "ip": f"192.0.2.{visitor}"}
        for page in range(300)
        for visitor in range(2)
    ]
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        service.client.send_events([*people, {"url": f"{SITE}/zz", "userAgent": CLAUDE, "ip": "198.51.100.1"}])

        async def check() -> dict[str, Any]:
            async with open_mcp(service) as client:
                return await call(client, "get_top_pages", audience="ai")

        report = asyncio.run(check())
    assert [page["path"] for page in report["pages"]] == ["/zz"]
    assert report["exact"]


def test_reports_cover_the_last_thirty_days_unless_days_are_named(filled: Service) -> None:
    today = datetime.now(UTC).date()

    async def check() -> list[Any]:
        async with open_mcp(filled) as client:
            return [
                (await call(client, "get_visitors"))["range"],
                (await call(client, "get_visitors", lastDays=1))["range"],
                (await call(client, "get_visitors", firstDay="2026-01-01", lastDay="2026-01-31"))["range"],
                (await call(client, "get_visitors", lastDay="9999-12-31"))["totals"]["total"],
                (await call(client, "get_visitors", lastDay=str(today - timedelta(days=1))))["totals"]["total"],
            ]

    default, one_day, january, all_days, until_yesterday = asyncio.run(check())
    assert default == {"firstDay": str(today - timedelta(days=29)), "lastDay": str(today)}
    assert one_day == {"firstDay": str(today), "lastDay": str(today)}
    assert january == {"firstDay": str(date(2026, 1, 1)), "lastDay": str(date(2026, 1, 31))}
    assert (all_days, until_yesterday) == (14, 0)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("get_job", {}, "jobId: Field required"),
        ("get_job", {"jobId": "../../secrets"}, "jobId"),
        ("get_job", {"jobId": "job_" + "0" * 26}, "job_not_found"),
        ("get_job", {"jobId": "job_" + "0" * 26, "projectId": "proj_x"}, "projectId: Extra inputs are not permitted"),
        ("create_job", {"prompt": ""}, "prompt"),
        ("create_job", {"prompt": " "}, "must not be empty"),
        ("create_job", {"prompt": "x" * 32_001}, "prompt"),
        ("create_job", {"prompt": "Fix it", "model": "openai:none"}, "model"),
        ("list_jobs", {"limit": 0}, "limit"),
        ("get_visitors", {"firstDay": "yesterday"}, "firstDay"),
        ("get_visitors", {"firstDay": "2026-02-01", "lastDay": "2026-01-01"}, "swap them"),
        ("get_visitors", {"firstDay": "2026-02-01", "lastDays": 3}, "either"),
        ("get_timeseries", {"interval": "hour", "lastDays": 60}, "31 days"),
        ("get_feedback", {"cursor": "nonsense"}, "cursor"),
    ],
)
def test_wrong_call_is_an_error_that_says_what_is_wrong(
    filled: Service, tool: str, arguments: dict[str, Any], message: str
) -> None:
    async def check() -> str:
        async with open_mcp(filled) as client:
            return await call_refused(client, tool, **arguments)

    refused = asyncio.run(check())
    assert message in refused
    assert "Traceback" not in refused


def test_unknown_tool_and_unknown_resource_are_errors_of_the_protocol(filled: Service) -> None:
    async def check() -> None:
        async with open_mcp(filled) as client:
            with pytest.raises(MCPError, match="Unknown tool: drop_tables"):
                await client.call_tool("drop_tables", {})
            for uri in (
                "copydesk://jobs/../keys", "copydesk://reports/secrets", "file:///etc/passwd", "copydesk://jobs/x/diff",
                "copydesk://reports/visitors?projectId=proj_x", "copydesk://[", "",
            ):  # fmt: skip
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    asyncio.run(check())


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_lists_have_one_page_and_refuse_cursors(filled: Service, transport: Transport) -> None:
    async def check() -> None:
        async with open_mcp(filled, transport) as client:
            lists = client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts
            for list_page in lists:
                assert (await list_page()).next_cursor is None
                with pytest.raises(MCPError, match="This cursor is not valid"):
                    await list_page(cursor="made-up")

    asyncio.run(check())


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_diffs_and_reports_are_resources(filled: Service, transport: Transport) -> None:
    job = filled.client.list_jobs()["jobs"][-1]["id"]

    async def check() -> None:
        async with open_mcp(filled, transport) as client:
            uris = [resource.uri for resource in (await client.list_resources()).resources]
            assert f"copydesk://jobs/{job}/diff" in uris
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert "copydesk://jobs/{id}/diff" in templates
            for uri in uris:
                [content] = (await client.read_resource(uri)).contents
                text = content.text  # type: ignore[union-attr]
                assert text.startswith("diff --git") if content.mime_type == "text/x-diff" else json.loads(text)
            [content] = (await client.read_resource("copydesk://reports/visitors?lastDay=2026-01-01")).contents
            assert json.loads(content.text)["totals"]["total"] == 0  # type: ignore[union-attr]

    asyncio.run(check())


@pytest.mark.deep
def test_long_diff_comes_in_parts_that_end_with_whole_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("long")
    page = "".join(f"The colour of thing {number}.\n" for number in range(1500))
    repository = make_repository(folder / "docs.git", {"index.md": f"# Hello\n\n{page}".encode()})
    with serve(folder / "data", repository=repository) as service:
        job = service.client.create_job("Replace colour with color in index.md")["id"]
        service.client.wait(job)

        async def check() -> list[str]:
            parts, offset = [], 0
            async with open_mcp(service) as client:
                while offset is not None:
                    part = await call(client, "get_job_diff", jobId=job, offset=offset)
                    parts.append(part["diff"])
                    offset = part["nextOffset"]
            return parts

        parts = asyncio.run(check())
        assert len(parts) > 2
        assert all(part.endswith("\n") for part in parts)
        assert "".join(parts).encode() == service.client.diff(job)


def test_text_without_line_ends_is_cut_anywhere() -> None:
    assert cut_text("x" * 25, 0, 10) == ("x" * 10, 10)
    assert cut_text("x" * 25, 20, 10) == ("x" * 5, None)
    assert cut_text("x" * 25, 99, 10) == ("", None)


@pytest.mark.deep
@pytest.mark.parametrize(
    "result",
    [
        {"comment": "x" * 1_000_000},
        {"rows": [{"path": "/" + "x" * 2000} for _ in range(250)]},
        {"checks": [{"findings": [{"message": "x" * 500} for _ in range(300)]} for _ in range(30)]},
        {"deep": {"rows": [["y" * 10_000] * 300] * 300}},
    ],
)
def test_result_is_bounded_and_says_what_was_cut(result: dict[str, Any]) -> None:
    bounded = bound_result(result)
    assert len(to_json(bounded)) <= MAX_RESULT_CHARS
    assert bounded["truncated"]
    assert re.search(r"the first \d+ of \d+ (characters|entries)", bounded["truncated"][0])


def test_small_result_is_unchanged() -> None:
    result = {"rows": [{"path": "/a", "total": 1}] * 100, "hasMore": False}
    assert bound_result(result) == result


@pytest.mark.deep
def test_documented_python_example_prints_a_report(filled: Service) -> None:
    [code] = re.findall(r"^```python no-run\n(.*?)^```$", (ROOT / "docs/mcp.md").read_text("utf-8"), re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=client_environment(filled, filled.key),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "'/guide'" in done.stdout
