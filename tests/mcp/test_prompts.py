"""Prompts and completions: the project's templates as commands of an assistant, and values while a person types."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from copydesk.core.ids import new_id
from copydesk.mcp.content.completions import ARGUMENTS_BY_URI, MAX_VALUES
from copydesk.mcp.content.resources import DIFF_URI, JOB_URI, PAGE_URI, REPORT_URI, REPORTS, TEMPLATES
from copydesk.prompts.library import load_builtin
from tests.support.mcp_clients import Transport, open_mcp
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
PATHS = ("/guides/setup", "/guides/themes", "/api", *(f"/many/{number}" for number in range(120)))
OWN_TEMPLATE = "Replace {{old}} with {{new}} in the {{part}}.\nLeave these alone: {{except}}"
TRANSPORTS = pytest.mark.parametrize("transport", ["http", "stdio"])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves a project with a template of its own, a job that changed a page, one that changed none, and views."""
    folder = tmp_path_factory.mktemp("prompts")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(folder / "data", repository=repository) as running:
        fields = [
            {"name": "old", "label": "Old term"},
            {"name": "new", "default": "color"},
            {"name": "part", "choices": ["Guides", "guidelines", "reference"]},
            {"name": "except", "required": False},
        ]
        running.client.create_template("rename", "Rename a term", OWN_TEMPLATE, fields=fields)
        running.client.wait(running.client.create_job("Replace colour with color in docs/index.md")["id"])
        running.client.wait(running.client.create_job("Replace gizmos with stuff in docs/index.md")["id"])
        views = [{"url": f"https://docs.example.com{path}", "userAgent": FIREFOX, "ip": "192.0.2.1"} for path in PATHS]
        assert running.client.send_events(views)["dropped"] == []
        yield running


def run(
    service: Service, check: Callable[[Client], Awaitable[Any]], transport: Transport = "http", **options: Any
) -> Any:
    """Returns what the check returns. Raises its error of the protocol after the connection is closed."""

    async def connect() -> Any:
        async with open_mcp(service, transport, **options) as client:
            try:
                return await check(client)
            except MCPError as error:
                return error

    result = asyncio.run(connect())
    if isinstance(result, MCPError):
        raise result
    return result


def get_prompt(service: Service, name: str, values: dict[str, str], transport: Transport = "http") -> str:
    async def get(client: Client) -> str:
        [message] = (await client.get_prompt(name, values)).messages
        assert message.role == "user"
        return str(message.content.text)  # type: ignore[union-attr]

    text: str = run(service, get, transport)
    return text


def complete(
    service: Service, ref: PromptReference | ResourceTemplateReference, argument: str, typed: str = ""
) -> list[str]:
    async def ask(client: Client) -> list[str]:
        result = await client.complete(ref, {"name": argument, "value": typed})
        return result.completion.values

    values: list[str] = run(service, ask)
    return values


@pytest.mark.deep
@TRANSPORTS
def test_prompts_are_the_templates_of_the_project_and_the_built_in_ones(service: Service, transport: Transport) -> None:
    async def check(client: Client) -> None:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["rename", *load_builtin()]
        assert all(prompt.description and prompt.title for prompt in prompts)
        arguments = {each.name: each for each in prompts[0].arguments or ()}
        assert {name: each.required for name, each in arguments.items()} == {
            "old": True,
            "new": False,
            "part": True,
            "except": False,
        }
        assert arguments["old"].title == "Old term"
        assert arguments["new"].description == "New; default: color"
        assert arguments["part"].description == "Part; one of: Guides, guidelines, reference"

    run(service, check, transport)


@pytest.mark.deep
@TRANSPORTS
def test_prompt_asks_the_assistant_to_start_a_job_with_the_values(service: Service, transport: Transport) -> None:
    text = get_prompt(service, "rename", {"old": "{{new}}", "part": "reference"}, transport)
    request, _, prompt = text.partition("\n\n")
    assert "create_job" in request
    assert "wait_for_job" in request
    assert prompt == "Replace {{new}} with color in the reference."


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("rename", {"part": "reference"}, "Enter a value for 'Old term'"),
        ("rename", {"old": "a", "part": "everything"}, "must be one of: Guides, guidelines, reference"),
        ("rename", {"old": "a", "part": "reference", "other": "b"}, "has no field 'other'"),
        ("rename", {"old": "x" * 8_001, "part": "reference"}, "fields.old"),
        ("no-such", {}, "template_not_found"),
        ("../keys", {}, "Unknown prompt: ../keys"),
        ("", {}, "Unknown prompt"),
        ("Rename", {}, "Unknown prompt: Rename"),
    ],
)
def test_wrong_prompt_is_an_error_that_says_what_is_wrong(
    service: Service, name: str, values: dict[str, str], message: str
) -> None:
    with pytest.raises(MCPError) as error:
        get_prompt(service, name, values)
    assert message in error.value.message
    assert error.value.code == INVALID_PARAMS


@pytest.mark.deep
@TRANSPORTS
def test_read_only_key_sees_no_prompts_and_cannot_get_one(service: Service, transport: Transport) -> None:
    async def attack(client: Client) -> None:
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="scope_missing"):
            await client.get_prompt("glossary", {})

    run(service, attack, transport, key=service.new_key(scopes=["read"]))


def test_template_of_another_project_looks_like_one_that_does_not_exist(service: Service) -> None:
    other = service.another_project()
    other.client.create_template("secret-plan", "Secret plan", "Reveal {{what}}.")

    async def attack(client: Client) -> None:
        assert "secret-plan" not in str(await client.list_prompts())
        with pytest.raises(MCPError, match="template_not_found"):
            await client.get_prompt("secret-plan", {"what": "it"})
        with pytest.raises(MCPError, match="template_not_found"):
            await client.complete(PromptReference(name="secret-plan"), {"name": "what", "value": ""})

    run(service, attack)


@pytest.mark.parametrize(
    ("argument", "typed", "values"),
    [
        ("part", "", ["Guides", "guidelines", "reference"]),
        ("part", "GUIDE", ["Guides", "guidelines"]),
        ("part", "x", []),
        ("new", "co", ["color"]),
        ("old", "", []),
    ],
)
def test_arguments_of_prompts_are_completed_with_choices_and_defaults(
    service: Service, argument: str, typed: str, values: list[str]
) -> None:
    assert complete(service, PromptReference(name="rename"), argument, typed) == values


def test_variables_of_resource_templates_are_completed(service: Service) -> None:
    changed, unchanged = (job["id"] for job in reversed(service.client.list_jobs()["jobs"]))

    def complete_uri(uri: str, argument: str, typed: str = "") -> list[str]:
        return complete(service, ResourceTemplateReference(uri=uri), argument, typed)

    assert complete_uri(JOB_URI, "id") == [unchanged, changed]
    assert complete_uri(JOB_URI, "id", changed) == [changed]
    assert complete_uri(DIFF_URI, "id") == [changed]
    assert complete_uri(REPORT_URI, "report") == list(REPORTS)
    assert complete_uri(REPORT_URI, "report", "se") == ["sections", "searches"]
    assert complete_uri(REPORT_URI, "firstDay", "2026") == []
    assert sorted(complete_uri(PAGE_URI, "path", "/guides")) == ["/guides/setup", "/guides/themes"]


def test_every_variable_of_every_resource_template_can_be_completed() -> None:
    for template in TEMPLATES:
        arguments = ARGUMENTS_BY_URI[template.uri]
        assert all(name in template.uri for name in arguments)
        assert template.uri.count("{") + template.uri.count(",") == len(arguments)


def test_completions_are_cut_and_say_so(service: Service) -> None:
    async def check(client: Client) -> None:
        ref = ResourceTemplateReference(uri=PAGE_URI)
        completion = (await client.complete(ref, {"name": "path", "value": "/"})).completion
        assert (len(completion.values), completion.total, completion.has_more) == (MAX_VALUES, len(PATHS), True)

    run(service, check)


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        (PromptReference(name="rename"), "other"),
        (PromptReference(name="../keys"), "old"),
        (ResourceTemplateReference(uri=JOB_URI), "jobId"),
        (ResourceTemplateReference(uri="file:///{path}"), "path"),
    ],
)
def test_completion_of_an_unknown_argument_is_an_error(
    service: Service, ref: PromptReference | ResourceTemplateReference, argument: str
) -> None:
    with pytest.raises(MCPError) as error:
        complete(service, ref, argument)
    assert error.value.code == INVALID_PARAMS


@pytest.mark.deep
def test_completions_show_nothing_of_another_project(service: Service) -> None:
    other = service.another_project()
    other.client.create_job("A secret prompt of theirs")
    their_view = {"url": "https://docs.example.com/guides/secret", "userAgent": FIREFOX, "ip": "192.0.2.1"}
    assert other.client.send_events([their_view])["accepted"] == 1
    own_jobs = [job["id"] for job in service.client.list_jobs()["jobs"]]
    assert own_jobs
    assert sorted(complete(service, ResourceTemplateReference(uri=JOB_URI), "id")) == sorted(own_jobs)
    own_pages = complete(service, ResourceTemplateReference(uri=PAGE_URI), "path", "/guides")
    assert sorted(own_pages) == ["/guides/setup", "/guides/themes"]


def test_page_is_a_resource_by_its_path(service: Service) -> None:
    async def check(client: Client) -> None:
        [content] = (await client.read_resource("copydesk://pages/guides/setup")).contents
        assert '"path":"/guides/setup"' in content.text  # type: ignore[union-attr]
        for uri in ("copydesk://pages/none", "copydesk://pages/../v2", "copydesk://pages/%2e%2e/x", "copydesk://pages"):
            with pytest.raises(MCPError) as error:
                await client.read_resource(uri)
            assert error.value.code == INVALID_PARAMS

    run(service, check)


@pytest.mark.deep
@TRANSPORTS
def test_error_of_a_resource_names_its_uri(service: Service, transport: Transport) -> None:
    async def check(client: Client) -> None:
        for uri in ("copydesk://nothing", f"copydesk://jobs/{new_id('job')}", "copydesk://reports/views?lastDay=x"):
            with pytest.raises(MCPError) as error:
                await client.read_resource(uri)
            assert (error.value.code, error.value.data) == (INVALID_PARAMS, {"uri": uri})

    run(service, check, transport)
