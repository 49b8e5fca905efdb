"""Webhooks reach public addresses only: when they are added, and at every connection."""

import socket
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.errors import InvalidRequest
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.webhooks.dispatcher import Dispatcher
from copydesk.webhooks.endpoints import Endpoints
from copydesk.webhooks.targets import Target, TargetRefused, find_addresses, mask_url, parse_target
from tests.support import migrated_databases
from tests.support.webhook_receiver import answer, receive_webhooks
from tests.webhooks.conftest import Deliveries

PRIVATE_URLS = [
    "https://127.0.0.1/",
    "https://localhost/",
    "https://2130706433/",  # 127.0.0.1 as one number
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://0/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.5.4/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://2852039166/",  # 169.254.169.254 as one number
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::127.0.0.1]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",  # a metadata service
    "https://[fec0::1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[ff02::1]/",
]
INVALID_URLS = [
    "http://example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://example.org/",
    "https://",
    "https:///path",
    "https://user:password@example.org/",
    "https://example.org@127.0.0.1/",
    "https://example.org/#part",
    "https://example.org\\@127.0.0.1/",
    "https://example.org/ HTTP/1.1\r\nX-Injected: 1",
    "https://example.org/\nx",
    "https://example.org:99999/",
    "https://example.org:x/",
    "https://exämple.org/",
    "https://" + "a" * 2000,
    "javascript:alert(1)",
]


@pytest.fixture
def strict_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("data")
    url = migrated_databases.new_database("sqlite", folder)
    opened = open_desk_lazily(Settings(data=folder, database_url=url))
    yield opened
    opened.close()


@pytest.fixture
def strict_project(strict_desk: Desk) -> str:
    return strict_desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test").id


@pytest.mark.parametrize("url", PRIVATE_URLS)
def test_private_addresses_are_refused_in_every_notation(strict_desk: Desk, strict_project: str, url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"private address|not found"):
        strict_desk.webhooks.endpoints.add(strict_project, url, actor="test")
    assert strict_desk.webhooks.endpoints.list_for_project(strict_project) == []


@pytest.mark.parametrize("url", INVALID_URLS)
def test_unusable_urls_are_refused(strict_desk: Desk, strict_project: str, url: str) -> None:
    with pytest.raises(InvalidRequest):
        strict_desk.webhooks.endpoints.add(strict_project, url, actor="test")


def test_one_private_address_among_public_ones_is_refused() -> None:
    target = Target("https", "example.org", 443, "/")
    with pytest.raises(TargetRefused, match="private address"):
        find_addresses(target, allow_private=False, resolve=lambda host, port: ["8.8.8.8", "127.0.0.1"])


def test_public_addresses_are_allowed() -> None:
    target = parse_target("https://example.org:8443/a?b=c", allow_private=False)
    addresses = ["8.8.8.8", "2606:4700::1111"]
    assert find_addresses(target, allow_private=False, resolve=lambda host, port: addresses) == addresses
    assert (target.host, target.port, target.path, target.authority) == (
        "example.org",
        8443,
        "/a?b=c",
        "example.org:8443",
    )


def test_host_that_becomes_private_later_gets_no_connection(strict_desk: Desk, strict_project: str) -> None:
    """DNS rebinding: the host had a public address when it was checked, and has a private one when events are sent."""
    with receive_webhooks() as receiver:
        lenient = Endpoints(strict_desk.database, strict_desk.secrets, allow_private=True)
        url = f"https://localhost:{receiver.port}/hook"
        lenient.add(strict_project, url, actor="test")
        deliveries = Deliveries(strict_desk, strict_project)
        deliveries.record()
        deliveries.send_due()
        assert "private address" in deliveries.list_rows()[0].error
        answers = [["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
        for addresses in answers:
            deliveries.make_due()
            deliveries.send_due(resolve=lambda host, port, found=addresses: found)
            assert "private address" in deliveries.list_rows()[0].error
    assert receiver.requests == []


def test_refusal_says_which_setting_allows_the_address(strict_desk: Desk, strict_project: str) -> None:
    for url in ("http://example.org/", "https://127.0.0.1/"):
        with pytest.raises(InvalidRequest, match="COPYDESK_WEBHOOK_ALLOW_PRIVATE=true for the service and for the"):
            strict_desk.webhooks.endpoints.add(strict_project, url, actor="test")


@pytest.mark.deep
def test_doctor_warns_about_enabled_webhooks_whose_address_is_not_allowed(
    strict_desk: Desk, strict_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(strict_desk.settings.data))
    monkeypatch.setenv("COPYDESK_DATABASE_URL", strict_desk.settings.database_url)
    lenient = Endpoints(strict_desk.database, strict_desk.secrets, allow_private=True)
    endpoint = lenient.add(strict_project, "http://127.0.0.1:9/hook", actor="test").endpoint

    def run_doctor() -> str:
        lines = CliRunner().invoke(app, ("doctor",)).stdout.splitlines()
        return next(line for line in lines if " webhooks: " in line)

    assert (
        f"! webhooks: The address of 1 webhook is not allowed. {endpoint.id} to http://127.0.0.1:9/hook" in run_doctor()
    )
    monkeypatch.setenv("COPYDESK_WEBHOOK_ALLOW_PRIVATE", "true")
    assert "✓ webhooks: 1 configured" in run_doctor()
    deliveries = Deliveries(strict_desk, strict_project)
    deliveries.record()
    deliveries.send_due()  # the service has other settings than the command
    assert "! webhooks: The address of 1 webhook is not allowed." in run_doctor()
    lenient.change(strict_project, endpoint.id, enabled=False, actor="test")
    assert "✓ webhooks: 1 configured" in run_doctor()


def test_connection_goes_to_the_checked_address_without_resolving_again(deliveries: Deliveries) -> None:
    """A resolver that answers differently at every call cannot move the connection."""
    answers = iter([["127.0.0.1"], ["203.0.113.9"], ["203.0.113.9"]])
    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url.replace("127.0.0.1", "localhost"))
        deliveries.record()
        deliveries.send_due(resolve=lambda host, port: next(answers))
    assert len(receiver.requests) == 1
    assert receiver.requests[0].headers["host"] == f"localhost:{receiver.port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(deliveries: Deliveries, status: int) -> None:
    with receive_webhooks() as inner:
        locations = [f"Location: http://127.0.0.1:{inner.port}/latest/meta-data/"]
        with receive_webhooks(lambda _: answer(status, *locations)) as receiver:
            deliveries.add_endpoint(receiver.url)
            deliveries.record()
            deliveries.send_due()
    assert len(receiver.requests) == 1
    assert inner.requests == []
    assert "Redirects are not followed" in deliveries.list_rows()[0].error


def test_next_address_is_tried_if_the_first_is_unreachable(deliveries: Deliveries) -> None:
    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due(resolve=lambda host, port: ["127.0.0.2", "127.0.0.1"])
    assert len(receiver.requests) == 1


def test_host_that_cannot_be_resolved_is_an_error_of_its_delivery_alone(deliveries: Deliveries) -> None:
    def fail(host: str, port: int) -> list[str]:
        raise socket.gaierror

    with receive_webhooks() as receiver:
        deliveries.add_endpoint(receiver.url)
        deliveries.record()
        deliveries.send_due(resolve=fail)
    assert "was not found" in deliveries.list_rows()[0].error


def test_shown_url_leaves_out_what_may_be_secret(strict_desk: Desk) -> None:
    target = parse_target("https://example.org/hook?key=secret", allow_private=False)
    assert mask_url(target, hide_path=False) == "https://example.org/hook?…"
    slack = parse_target("https://hooks.slack.com/services/T/B/secret", allow_private=False)
    assert mask_url(slack, hide_path=True) == "https://hooks.slack.com/…"
    assert isinstance(strict_desk.webhooks.dispatcher, Dispatcher)
