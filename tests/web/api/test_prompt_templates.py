"""The API of prompt templates, and the client's methods for it, over real HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest

from copydesk_client import ApiError
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIELDS = {"version": "1.4", "changes": "Themes."}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("templates")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


def read_error(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.status, error.value.code


def test_template_is_created_changed_and_deleted(service: Service) -> None:
    client = service.client
    created = client.create_template("notes", "Notes", "Write the notes of {{version}}.")
    assert created["fields"] == [
        {"name": "version", "label": "Version", "required": True, "default": "", "choices": [], "multiline": False}
    ]
    assert (created["builtIn"], created["description"]) == (False, "")
    assert client.get_template("notes") == created
    changed = client.change_template("notes", title="Release notes", description="For releases.")
    assert (changed["title"], changed["prompt"]) == ("Release notes", created["prompt"])
    assert [each["name"] for each in client.list_templates()][:2] == ["notes", "update-for-release"]
    client.delete_template("notes")
    with pytest.raises(ApiError) as error:
        client.get_template("notes")
    assert read_error(error) == (404, "template_not_found")


def test_job_gets_the_prompt_with_its_values(service: Service) -> None:
    client = service.client
    preview = client.preview_template("changelog-entry", FIELDS)
    assert "Add an entry to the changelog for 1.4." in preview
    job = client.create_job_from_template("changelog-entry", FIELDS, title="Changelog", idempotency_key="once")
    assert (job["prompt"], job["title"], job["status"]) == (preview, "Changelog", "active")
    again = client.create_job_from_template("changelog-entry", FIELDS, title="Changelog", idempotency_key="once")
    assert again["id"] == job["id"]
    with pytest.raises(ApiError) as error:
        client.create_job_from_template("changelog-entry", {**FIELDS, "version": "2"}, idempotency_key="once")
    assert error.value.status == 409


def test_value_with_a_placeholder_stays_text(service: Service) -> None:
    prompt = service.client.preview_template("changelog-entry", {"version": "{{changes}}", "changes": "{{x}}"})
    assert "for {{changes}}." in prompt
    assert "What changed:\n{{x}}\n" in prompt


def test_missing_and_unknown_fields_are_named(service: Service) -> None:
    path = service.at("/templates/changelog-entry/job")
    answer = service.http.post(path, json={"fields": {"version": "1", "colour": "red"}})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert {detail["field"] for detail in answer.json()["details"]} == {"changes", "colour"}


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/templates", {"name": "glossary", "title": "G", "prompt": "x"}, (409, "template_exists")),
        ("POST", "/templates", {"name": "Bad Name", "title": "G", "prompt": "x"}, (400, "invalid_request")),
        ("POST", "/templates", {"name": "a", "title": "G", "prompt": "x", "color": 1}, (400, "invalid_request")),
        ("POST", "/templates", {"name": "a", "title": "G", "prompt": "x" * 20_001}, (400, "invalid_request")),
        ("POST", "/templates", {"name": "a", "title": "G", "prompt": "{{a}}", "fields": []}, (400, "invalid_request")),
        ("PATCH", "/templates/glossary", {"title": "G"}, (409, "template_builtin")),
        ("DELETE", "/templates/glossary", None, (409, "template_builtin")),
        ("PATCH", "/templates/unknown", {"title": "G"}, (404, "template_not_found")),
        ("DELETE", "/templates/unknown", None, (404, "template_not_found")),
        ("POST", "/templates/unknown/preview", {"fields": {}}, (404, "template_not_found")),
        ("POST", "/templates/unknown/job", {"fields": {}}, (404, "template_not_found")),
        ("POST", "/templates/glossary/job", {"fields": {"page": 1}}, (400, "invalid_request")),
        ("POST", "/templates/glossary/job", {"prompt": "x"}, (400, "invalid_request")),
    ],
)
def test_refused_requests_say_why(
    service: Service, method: str, path: str, body: Any, expected: tuple[int, str]
) -> None:
    answer = service.http.request(method, service.at(path), json=body)
    assert (answer.status_code, answer.json()["code"]) == expected


def test_reading_key_cannot_create_templates(service: Service) -> None:
    _, secret = service.desk.keys.create(service.project.id, scopes=["read"], actor="test")
    headers = {"Authorization": f"Bearer {secret}"}
    assert service.http.get(service.at("/templates"), headers=headers).status_code == 200
    body = {"name": "a", "title": "A", "prompt": "x"}
    assert service.http.post(service.at("/templates"), json=body, headers=headers).status_code == 403
