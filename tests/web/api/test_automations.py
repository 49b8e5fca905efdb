"""The automations API over HTTP: fields, errors, runs, scopes, and the trigger of version 1."""

import re
from pathlib import Path
from typing import Any

import pygit2
import pytest

from copydesk.jobs.projects.context_repositories import NewContext
from copydesk_client import Client
from tests.support.repositories import commit, make_repository
from tests.support.service import Service

FIELDS = {
    "id", "name", "enabled", "kind", "prompt", "trigger", "mode", "grouping", "context", "model", "draft", "reviewers",
    "dailyLimit", "monthlyCostUsd", "paths", "maxLines", "createdAt", "updatedAt", "lastRun", "nextRun", "notice",
    "source",
}  # fmt: skip
CUSTOM = {"name": "Spelling", "prompt": "Replace colour with color.", "trigger": {"type": "api"}}
NOT_THERE = "auto_00000000000000000000000000"


def create(service: Service, **fields: Any) -> dict[str, Any]:
    response = service.http.post(service.at("/automations"), json={**CUSTOM, **fields})
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    assert response.headers["location"] == service.at(f"/automations/{body['id']}")
    return body


def test_automation_has_exactly_the_fields_of_the_contract(service: Service) -> None:
    made = create(service, kind="broken_links", prompt="", trigger={"type": "schedule", "cron": "0 6 * * *"})
    assert set(made) == FIELDS
    assert re.fullmatch(r"auto_[0-9a-z]{26}", made["id"])
    assert (made["mode"], made["grouping"], made["dailyLimit"]) == ("pull_request", "append", 20)
    assert made["trigger"] == {"type": "schedule", "cron": "0 6 * * *", "timezone": "UTC"}
    assert re.search(r"T06:00:00\.000Z$", made["nextRun"])
    assert service.http.get(service.at(f"/automations/{made['id']}")).json() == made
    assert service.http.get(service.at("/automations")).json() == {"automations": [made]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({**CUSTOM, "colour": "red"}, "colour"),
        ({**CUSTOM, "trigger": {"type": "schedule", "cron": "0 25 * * *"}}, "trigger"),
        ({**CUSTOM, "trigger": {"type": "api", "x": 1}}, "trigger"),
        ({**CUSTOM, "enabled": "yes"}, "enabled"),
        ({**CUSTOM, "dailyLimit": 0}, "dailyLimit"),
        ({**CUSTOM, "name": None}, "name"),
        ({**CUSTOM, "context": ["sdk"]}, "context"),
    ],
)
def test_invalid_body_returns_400_and_names_the_field(service: Service, body: dict[str, Any], field: str) -> None:
    response = service.http.post(service.at("/automations"), json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert any(field in detail["field"] for detail in response.json()["details"]), response.text
    assert service.http.get(service.at("/automations")).json() == {"automations": []}


def test_patch_changes_only_what_it_names(service: Service) -> None:
    made = create(service, monthlyCostUsd=5)
    path = service.at(f"/automations/{made['id']}")
    changed = service.http.patch(path, json={"enabled": False, "monthlyCostUsd": None}).json()
    assert changed == {**made, "enabled": False, "monthlyCostUsd": None, "updatedAt": changed["updatedAt"]}
    assert service.http.patch(path, json={"bogus": 1}).status_code == 400
    assert service.http.patch(path, json={}).json()["enabled"] is False


@pytest.mark.deep
def test_run_is_a_job_that_ends_with_an_outcome(service: Service) -> None:
    made = create(service)
    response = service.http.post(service.at(f"/automations/{made['id']}/run"))
    assert response.status_code == 201
    run = response.json()
    assert response.headers["location"] == service.at(f"/job/{run['jobId']}")
    assert "ratelimit" in response.headers
    job = service.client.wait(run["jobId"])
    assert (job["status"], job["createdBy"], job["automation"]) == (
        "completed",
        {"kind": "automation", "name": "Spelling", "id": made["id"]},
        made["id"],
    )
    assert job["pullRequest"] == {"number": 1, "state": "open"}
    [listed] = service.http.get(service.at(f"/automations/{made['id']}/runs")).json()["runs"]
    assert (listed["id"], listed["outcome"], listed["appended"]) == (run["id"], "review_needed", False)
    assert service.http.get(service.at(f"/automations/{made['id']}")).json()["lastRun"] == listed
    pull = service.desk.pulls.get_pull(service.project.id, 1)
    service.desk.pulls.close(pull, "Ada")
    assert service.client.get_job(job["id"])["pullRequest"] == {"number": 1, "state": "closed"}
    [listed] = service.http.get(service.at(f"/automations/{made['id']}/runs")).json()["runs"]
    assert listed["outcome"] == "closed"


@pytest.mark.deep
def test_run_continues_the_open_pull_request(service: Service) -> None:
    made = create(service, grouping="append")
    first = service.http.post(service.at(f"/automations/{made['id']}/run")).json()
    service.client.wait(first["jobId"])
    second = service.http.post(service.at(f"/automations/{made['id']}/run")).json()
    assert (second["jobId"], second["appended"]) == (first["jobId"], True)
    service.client.wait(first["jobId"])
    outcomes = [run["outcome"] for run in service.client.list_automation_runs(made["id"])["runs"]]
    assert outcomes == ["nothing_to_do", "review_needed"]
    assert len(service.desk.pulls.list_for_project(service.project.id)) == 1


@pytest.mark.deep
def test_trigger_of_version_1(service: Service) -> None:
    made = create(service)
    path = f"/v1/workflow/{service.project.id}"
    response = service.http.post(f"{path}/{made['id']}/trigger", json={"anything": 1})
    assert response.status_code == 202
    body = response.json()
    assert body["schemaId"] == made["id"]
    assert service.client.wait(body["jobId"])["automation"] == made["id"]
    assert service.http.post(f"{path}/{NOT_THERE}/trigger").json()["code"] == "automation_not_found"
    assert service.http.post(f"{path}/nonsense/trigger").status_code == 404
    service.client.change_automation(made["id"], enabled=False)
    refused = service.http.post(f"{path}/{made['id']}/trigger")
    assert (refused.status_code, refused.json()["code"]) == (400, "automation_disabled")


@pytest.mark.parametrize("path", ["/v2/agent/{project}/automations/{id}/run", "/v1/workflow/{project}/{id}/trigger"])
def test_reached_limit_returns_429_with_the_limit_and_when_to_try_again(service: Service, path: str) -> None:
    made = create(service, dailyLimit=1)
    service.client.run_automation(made["id"])
    refused = service.http.post(path.format(project=service.project.id, id=made["id"]))
    assert (refused.status_code, refused.json()["code"]) == (429, "automation_limit")
    assert "1 run per day" in refused.json()["error"]
    assert 0 < int(refused.headers["retry-after"]) <= 86400
    assert refused.headers["ratelimit-policy"] == '"automation-runs";q=1;w=86400'


@pytest.mark.parametrize("trigger_type", ["code_change", "release"])
def test_trigger_on_an_unknown_repository_returns_400_with_the_known_ones(
    service: Service, tmp_path: Path, trigger_type: str
) -> None:
    make_repository(tmp_path / "code.git", {"cli.py": b"x = 1\n"})
    trigger = {"type": trigger_type, "repositories": ["api"]}
    none = service.http.post(service.at("/automations"), json={**CUSTOM, "trigger": trigger})
    assert "It has none: add it first" in none.json()["error"]
    service.desk.contexts.add(service.project, NewContext("code", str(tmp_path / "code.git")), actor="test")
    made = create(service, trigger={**trigger, "repositories": ["code"]})
    for refused in (
        service.http.post(service.at("/automations"), json={**CUSTOM, "trigger": trigger}),
        service.http.patch(service.at(f"/automations/{made['id']}"), json={"trigger": trigger}),
    ):
        message = "This project has no context repository 'api'. It has code."
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
        assert refused.json()["details"] == [{"field": "trigger.repositories", "message": message}]
    assert service.http.get(service.at("/automations")).json() == {"automations": [made]}


def test_context_repository_that_an_automation_watches_cannot_be_removed(service: Service, tmp_path: Path) -> None:
    make_repository(tmp_path / "code.git", {"cli.py": b"x = 1\n"})
    service.desk.contexts.add(service.project, NewContext("code", str(tmp_path / "code.git")), actor="test")
    made = create(service, name="Follow", trigger={"type": "release", "repositories": ["code"]}, enabled=False)
    refused = service.http.delete(service.at("/context/code"))
    assert (refused.status_code, refused.json()["code"]) == (409, "context_in_use")
    assert refused.json()["error"].startswith("The automation “Follow” watches code. Change its trigger or delete it")
    create(service, name="Notes", trigger={"type": "code_change", "repositories": ["code"]})
    refused = service.http.delete(service.at("/context/code"))
    assert refused.json()["error"].startswith("The automations “Follow”, “Notes” watch code.")
    for automation in service.client.list_automations():
        service.client.change_automation(automation["id"], trigger={"type": made["trigger"]["type"]})
    assert service.http.delete(service.at("/context/code")).status_code == 204


def test_deleted_automation_is_gone(service: Service) -> None:
    made = create(service)
    path = service.at(f"/automations/{made['id']}")
    assert service.http.delete(path).status_code == 204
    for response in (service.http.delete(path), service.http.get(path), service.http.get(f"{path}/runs")):
        assert (response.status_code, response.json()["code"]) == (404, "automation_not_found")


def test_key_without_write_scope_can_only_read(service: Service) -> None:
    made = create(service)
    reader = Client(service.url, service.new_key(name="reader", scopes=["read"]), service.project.id)
    assert [each["id"] for each in reader.list_automations()] == [made["id"]]
    headers = {"Authorization": f"Bearer {service.new_key(name='reader 2', scopes=['read'])}"}
    path = service.at(f"/automations/{made['id']}")
    for response in (
        service.http.patch(path, json={"enabled": False}, headers=headers),
        service.http.delete(path, headers=headers),
        service.http.post(f"{path}/run", headers=headers),
        service.http.post(service.at("/automations"), json=CUSTOM, headers=headers),
        service.http.post(f"/v1/workflow/{service.project.id}/{made['id']}/trigger", headers=headers),
    ):
        assert response.status_code == 403
    assert reader.get_automation(made["id"])["enabled"] is True


def test_automation_of_another_project_is_not_found(service: Service) -> None:
    made = create(service)
    other = service.another_project()
    path = other.at(f"/automations/{made['id']}")
    for response in (
        other.http.get(path),
        other.http.patch(path, json={"enabled": False}),
        other.http.delete(path),
        other.http.post(f"{path}/run"),
        other.http.get(f"{path}/runs"),
        other.http.post(f"/v1/workflow/{other.project.id}/{made['id']}/trigger"),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "automation_not_found")
    assert other.http.get(other.at("/automations")).json() == {"automations": []}
    assert service.http.get(service.at(f"/automations/{made['id']}")).json() == made


@pytest.mark.deep
def test_job_and_message_name_the_key_that_created_them(service: Service) -> None:
    job = service.client.create_job("Replace colour with color.")
    [key] = service.desk.keys.list_for_project(service.project.id)
    assert job["createdBy"] == {"kind": "key", "name": "test", "id": key.id}
    assert (job["automation"], job["pullRequest"]) == (None, None)
    service.client.wait(job["id"])
    service.client.message_job(job["id"], "Replace things with stuff.")
    [message] = [event for event in service.client.events(job["id"]) if event["kind"] == "message"]
    assert message["data"]["createdBy"] == job["createdBy"]


@pytest.mark.deep
def test_mechanic_fixes_broken_links_as_an_automation(service: Service) -> None:
    repository = pygit2.Repository(str(service.repository))
    commit(repository, {"docs/index.md": b"# Hello\n\nSee [setup](guides/setup.md).\n", "docs/setup.md": b"# Setup\n"})
    made = service.client.create_automation(kind="broken_links")
    job = service.client.wait(service.client.run_automation(made["id"])["jobId"])
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    assert [file["path"] for file in job["filesChanged"]] == ["docs/index.md"]
    assert b"+See [setup](setup.md)." in service.client.diff(job["id"])


def test_idempotency_key_returns_the_first_run_on_both_routes(service: Service) -> None:
    made = create(service, grouping="new")
    trigger = f"/v1/workflow/{service.project.id}/{made['id']}/trigger"
    key = {"Idempotency-Key": "release-1"}
    first, again = (service.http.post(trigger, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    run = service.http.post(service.at(f"/automations/{made['id']}/run"), headers=key)
    assert (run.status_code, run.json()["jobId"]) == (201, first.json()["jobId"])
    assert run.headers["idempotent-replayed"] == "true"
    assert len(service.http.get(service.at(f"/automations/{made['id']}/runs")).json()["runs"]) == 1
    other = create(service)
    conflict = service.http.post(service.at(f"/automations/{other['id']}/run"), headers=key)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "idempotency_key_reused")
    for bad in ("", "x" * 129, "a b"):
        assert service.http.post(trigger, headers={"Idempotency-Key": bad}).status_code == 400
