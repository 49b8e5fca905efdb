"""Webhooks are managed over the API, with the client, in the dashboard and on the command line."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core import audit_log
from copydesk.core.db.tables import secrets
from copydesk.webhooks.endpoints import MAX_ENDPOINTS
from copydesk_client import ApiError
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.webhook_receiver import OK, Received, Receiver, answer, receive_webhooks

NOT_A_WEBHOOK = "hook_00000000000000000000000000"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, webhook_allow_private=True) as running:
        yield running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive_webhooks() as running:
        yield running


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


@pytest.mark.deep
def test_client_adds_tests_changes_and_removes_a_webhook(service: Service, receiver: Receiver) -> None:
    client = service.client
    created = client.add_webhook(f"{receiver.url}?key=very-secret", events=["job.failed", "feedback.created"])
    assert created["secret"].startswith("whsec_")
    assert created["url"] == f"{receiver.url}?…"
    [listed] = client.list_webhooks()
    assert "secret" not in listed
    assert "very-secret" not in str(listed)
    assert listed == client.get_webhook(created["id"])
    queued = client.test_webhook(created["id"])
    wait_for(lambda: receiver.requests)
    [request] = receiver.requests
    assert Webhook(created["secret"]).verify(request.body, request.headers)["type"] == "webhook.test"
    assert request.path == "/hook?key=very-secret"
    wait_for(lambda: client.get_webhook_delivery(created["id"], queued["id"])["state"] == "delivered")
    details = client.get_webhook_delivery(created["id"], queued["id"])
    assert [attempt["status"] for attempt in details["attemptLog"]] == [204]
    again = client.redeliver_webhook(created["id"], queued["id"])
    assert again["eventId"] == queued["eventId"] == request.id
    wait_for(lambda: len(receiver.requests) == 2)
    assert receiver.ids()[0] == receiver.ids()[1]
    page = client.list_webhook_deliveries(created["id"], limit=1)
    assert [each["id"] for each in page["deliveries"]] == [again["id"]]
    older = client.list_webhook_deliveries(created["id"], cursor=page["nextCursor"])
    assert [each["id"] for each in older["deliveries"]] == [queued["id"]]
    rotated = client.rotate_webhook_secret(created["id"])
    assert rotated["secret"] != created["secret"]
    assert rotated["previousSecretUntil"] is not None
    changed = client.change_webhook(created["id"], enabled=False, events=["summary.weekly"])
    assert (changed["enabled"], changed["events"], changed["state"]) == (False, ["summary.weekly"], "disabled")
    with pytest.raises(ApiError, match="disabled"):
        client.test_webhook(created["id"])
    client.remove_webhook(created["id"])
    assert client.list_webhooks() == []
    actions = {entry["action"] for entry in audit_log.list_entries(service.desk.database, service.project.id)}
    assert actions >= {"webhook.added", "webhook.changed", "webhook.secret_rotated", "webhook.removed"}


def test_secrets_and_urls_are_stored_encrypted_and_deleted_with_the_webhook(
    service: Service, receiver: Receiver
) -> None:
    created = service.client.add_webhook(f"{receiver.url}/T0/B0/slack-token", format="slack")
    assert created["url"].endswith("/…")
    database = service.desk.database
    with database.read() as tx:
        sealed = b"".join(row.sealed for row in tx.execute(secrets.select()))
        rows = str(tx.exec_driver_sql("select * from webhook_endpoints").all())
        audit = str(tx.exec_driver_sql("select * from audit").all())
    assert sealed
    for stored in (sealed.decode("latin-1"), rows, audit):
        assert "slack-token" not in stored
        assert created["secret"] not in stored
    service.client.rotate_webhook_secret(created["id"])
    service.client.remove_webhook(created["id"])
    with database.read() as tx:
        assert not [row.name for row in tx.execute(secrets.select()) if row.name.startswith("hook_")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "http://user:pass@127.0.0.1/"}, "user name or password"),
        ({"url": "ftp://example.org/"}, "https://"),
        ({"url": "https://nowhere.invalid/"}, "was not found"),
    ],
)
def test_unusable_webhook_is_refused_with_a_reason(service: Service, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message) as refusal:
        service.client.add_webhook(**fields)
    assert refusal.value.status == 400
    assert service.client.list_webhooks() == []


@pytest.mark.deep
def test_project_has_a_bounded_number_of_webhooks(service: Service) -> None:
    for _ in range(MAX_ENDPOINTS):
        service.client.add_webhook("http://127.0.0.1:1/")
    with pytest.raises(ApiError) as refusal:
        service.client.add_webhook("http://127.0.0.1:1/")
    assert (refusal.value.status, refusal.value.code) == (409, "too_many_webhooks")


def test_unknown_webhooks_and_deliveries_return_404(service: Service) -> None:
    client = service.client
    created = client.add_webhook("http://127.0.0.1:1/")
    for call in (
        lambda: client.get_webhook(NOT_A_WEBHOOK),
        lambda: client.get_webhook("x"),
        lambda: client.list_webhook_deliveries(NOT_A_WEBHOOK),
        lambda: client.rotate_webhook_secret(NOT_A_WEBHOOK),
        lambda: client.change_webhook(NOT_A_WEBHOOK, enabled=True),
        lambda: client.redeliver_webhook(created["id"], "dlv_00000000000000000000000000"),
    ):
        with pytest.raises(ApiError) as refusal:
            call()
        assert refusal.value.status == 404


def test_delivery_of_another_webhook_returns_404(service: Service) -> None:
    client, log = service.client, service.desk.webhooks.log
    first, second = (client.add_webhook("http://127.0.0.1:1/")["id"] for _ in range(2))
    delivery = log.send_test(service.project.id, first, actor="test")
    assert log.get(service.project.id, first, delivery.id).delivery.id == delivery.id
    with pytest.raises(ApiError) as refusal:
        client.redeliver_webhook(second, delivery.id)
    assert refusal.value.status == 404


@pytest.mark.deep
def test_dashboard_adds_tests_and_shows_a_webhook(service: Service, receiver: Receiver) -> None:
    admin = signed_in_client(service, "admin")
    path, headers = f"/projects/{service.project.id}/webhooks", {"Origin": service.url}
    page = admin.get(path).text
    fields = {"token": csrf_token_from_html(page), "id": page.split('name="id" value="')[1].split('"')[0]}
    empty = admin.post(path, data={**fields, "url": receiver.url, "format": "json"}, headers=headers)
    assert (empty.status_code, receiver.url in empty.text) == (400, True), "what was typed is kept"
    form = {**fields, "url": receiver.url, "format": "json", "event": ["job.failed", "feedback.created"]}
    created = admin.post(path, data=form, headers=headers)
    assert created.status_code == 201
    secret = re.search(r'value="(whsec_[^"]+)"', created.text)
    assert secret
    assert admin.post(path, data=form, headers=headers).status_code == 409, "a reload adds no second webhook"
    [endpoint] = service.desk.webhooks.endpoints.list_for_project(service.project.id)
    own = f"{path}/{endpoint.id}"
    tested = admin.post(f"{own}/test", data=fields, headers=headers, follow_redirects=True)
    assert "The test was delivered: 204" in tested.text
    Webhook(secret[1]).verify(receiver.requests[0].body, receiver.requests[0].headers)
    receiver.choose = lambda _: answer(500, body=b"<script>alert(1)</script>")
    assert (
        "The receiver answered 500"
        in admin.post(f"{own}/test", data=fields, headers=headers, follow_redirects=True).text
    )
    delivery = service.desk.webhooks.log.list_page(service.project.id, endpoint.id)[0][0]
    details = admin.get(f"{own}/deliveries/{delivery.id}").text
    assert "&lt;script&gt;" in details
    assert "<script>alert" not in details
    assert admin.post(f"{own}/deliveries/{delivery.id}/redeliver", data=fields, headers=headers).status_code == 303
    assert "whsec_" in admin.post(f"{own}/rotate", data=fields, headers=headers).text
    changed = {**fields, "format": "slack", "event": "summary.weekly"}
    assert admin.post(f"{own}/change", data=changed, headers=headers).status_code == 303
    endpoint = service.desk.webhooks.endpoints.get(service.project.id, endpoint.id)
    assert (endpoint.enabled, endpoint.format, endpoint.events) == (False, "slack", ("summary.weekly",))
    assert admin.post(f"{own}/change", data={**changed, "event": []}, headers=headers).status_code == 400
    viewer = signed_in_client(service, "viewer")
    assert "Rotate secret" not in viewer.get(own).text
    assert admin.post(f"{own}/remove", data=fields, headers=headers).status_code == 303
    assert admin.get(own).status_code == 404


@pytest.mark.deep
def test_command_line_manages_webhooks(service: Service, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(service.desk.settings.data))
    monkeypatch.setenv("COPYDESK_WEBHOOK_ALLOW_PRIVATE", "true")
    monkeypatch.setenv("COPYDESK_PROJECT", service.project.id)

    def run(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ("webhook", *arguments, "--json"))
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if result.stdout.startswith(("{", "[")) else result.output

    created = run("add", receiver.url, "--event", "job.failed")
    assert (created["events"], created["secret"][:6]) == (["job.failed"], "whsec_")
    tested = run("test", created["id"])
    assert (tested["state"], tested["attemptLog"][0]["status"]) == ("delivered", 204)
    receiver.choose = lambda _: answer(404)
    assert run("test", created["id"], code=1)["state"] == "given_up"
    receiver.choose = lambda _: answer(200)
    assert [each["state"] for each in run("deliveries", created["id"])] == ["given_up", "delivered"]
    assert run("redeliver", created["id"], tested["id"])["eventId"] == tested["eventId"]
    assert run("deliveries", created["id"], "--delivery", tested["id"])["data"]["webhook"] == {"id": created["id"]}
    assert run("rotate", created["id"])["secret"] != created["secret"]
    assert run("change", created["id"], "--disable", "--format", "slack")["state"] == "disabled"
    assert [each["id"] for each in run("list")] == [created["id"]]
    refused = CliRunner().invoke(app, ("webhook", "add", receiver.url, "--event", "nonsense"))
    assert "Unknown event 'nonsense'. Use job.completed" in str(refused.exception)
    changed = CliRunner().invoke(app, ("webhook", "change", created["id"], "--enable", "--event", "job.failed"))
    assert re.search(r"^events +job\.failed$", changed.stdout, re.M)
    assert re.search(r"^state +enabled$", changed.stdout, re.M)
    assert not re.search(r"^enabled ", changed.stdout, re.M)
    run("remove", created["id"])
    assert run("list") == []
    plain = CliRunner().invoke(app, ("webhook", "list"))
    assert "This project has no webhooks." in plain.output


@pytest.mark.deep
def test_receivers_that_hang_do_not_delay_other_pages(service: Service) -> None:
    """Sends more tests than the threads of the event loop, which has up to 32, and opens a page that needs one."""
    is_over = threading.Event()

    def wait(connection: socket.socket, _: Received) -> None:
        is_over.wait(60)
        connection.sendall(OK)

    with receive_webhooks(lambda _: wait) as receiver, signed_in_client(service) as client:
        created = service.client.add_webhook(receiver.url)
        page = f"/projects/{service.project.id}/webhooks/{created['id']}"
        form = {"token": csrf_token_from_html(client.get(page).text)}
        with ThreadPoolExecutor(40) as threads:
            tests = [threads.submit(client.post, f"{page}/test", data=form, timeout=120) for _ in range(40)]
            try:
                wait_for(lambda: receiver.open_count >= 6)
                checked = client.post(f"/projects/{service.project.id}/check", data=form, timeout=10)
            finally:
                is_over.set()
        assert "Access works." in checked.text
        assert {test.result().status_code for test in tests} == {303}
