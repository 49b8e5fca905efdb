"""The API keys page: keys are created, shown once, listed and revoked."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.core import clock
from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.ids import new_id
from copydesk.web.dashboard.projects.api_keys import describe_key_state
from tests.support.people import csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

XSS = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
KEY_PATTERN = re.compile(r"desk_[0-9A-Za-z]{38}")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("keys")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, keys_per_hour=6) as running:
        yield running


@pytest.fixture
def service(running: Service) -> Service:
    """A new project, which has created one key in this hour."""
    return running.another_project()


@pytest.fixture(scope="module")
def admin(running: Service) -> httpx.Client:
    return signed_in_client(running)


def keys_path(service: Service) -> str:
    return f"/projects/{service.project.id}/keys"


def fill_form(client: httpx.Client, path: str, **fields: str) -> dict[str, str]:
    """Fills in the page's form."""
    shown = client.get(path).text
    found = re.search(r'name="id" value="(key_\w+)"', shown)
    assert found
    filled = {
        "token": csrf_token_from_html(shown),
        "id": found[1],
        "use": "write",
        "expiry": "90",
        "name": "docs build",
    }
    return {**filled, **fields}


def newest_key(service: Service) -> ApiKey:
    return service.desk.keys.list_for_project(service.project.id)[0]


def make_key(**values: Any) -> ApiKey:
    given = {"project_id": "", "name": "", "hint": "", "scopes": (), "allow": (), "created_at": 0, "created_by": ""}
    return ApiKey(**{"id": "", **given, "expires_at": None, "last_used_at": None, "revoked_at": None, **values})


def test_the_page_shows_both_ids_and_snippets_with_the_real_address(service: Service, admin: httpx.Client) -> None:
    shown = admin.get(keys_path(service)).text
    project = service.project
    assert f'id="project-id">{project.id}<' in shown
    assert f'id="site-id">{project.site_id}<' in shown
    assert f"{service.url}/v2/agent/{project.id}/job" in shown
    assert f"Client(&#34;{service.url}&#34;" in shown
    assert f"src=&#34;{service.url}/beacon.js&#34; data-site=&#34;{project.site_id}&#34;" in shown
    for button in re.findall(r'data-copy="([^"]+)"', shown):
        assert shown.count(f'id="{button}"') == 1


def test_a_key_is_shown_once_and_opens_the_project(
    service: Service, admin: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = admin.post(
        keys_path(service), data=fill_form(admin, keys_path(service), allow="127.0.0.0/8, ::1\n192.0.2.7")
    )
    assert answer.status_code == 201
    assert "no-store" in answer.headers["cache-control"]
    (secret,) = KEY_PATTERN.findall(answer.text)
    opened = httpx.get(service.url + service.at("/jobs"), headers={"Authorization": f"Bearer {secret}"}, timeout=60)
    assert opened.status_code == 200
    made = newest_key(service)
    assert made.allow == ("127.0.0.0/8", "::1/128", "192.0.2.7/32")
    assert made.created_by == get_or_add_person(service).email
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == 90 * clock.DAY
    data = service.desk.settings.data
    dump = b"".join(file.read_bytes() for file in data.glob("copydesk.db*"))
    assert secret not in admin.get(keys_path(service)).text + caplog.text
    assert secret.encode() not in dump


def test_form_sent_twice_creates_one_key(service: Service, admin: httpx.Client) -> None:
    form = fill_form(admin, keys_path(service))
    assert admin.post(keys_path(service), data=form).status_code == 201
    before = service.desk.keys.list_for_project(service.project.id)
    again = admin.post(keys_path(service), data=form)
    assert again.status_code == 409
    assert "was already submitted" in again.text
    assert not KEY_PATTERN.search(again.text)
    assert service.desk.keys.list_for_project(service.project.id) == before
    assert admin.post(keys_path(service), data={**form, "id": "key_1"}).status_code == 400


@pytest.mark.parametrize(("expiry", "days"), [("7", 7), ("30", 30), ("60", 60), ("none", None)])
def test_expiry_can_be_chosen(service: Service, admin: httpx.Client, expiry: str, days: int | None) -> None:
    admin.post(keys_path(service), data=fill_form(admin, keys_path(service), expiry=expiry))
    made = newest_key(service)
    assert made.expires_at == (None if days is None else made.created_at + days * clock.DAY)


def test_default_expiry_is_ninety_days(service: Service, admin: httpx.Client) -> None:
    assert '<option value="90" selected>' in admin.get(keys_path(service)).text


def test_a_key_may_be_for_reading_only(service: Service, admin: httpx.Client) -> None:
    admin.post(keys_path(service), data=fill_form(admin, keys_path(service), use="read"))
    assert newest_key(service).scopes == ("read",)
    admin.post(keys_path(service), data=fill_form(admin, keys_path(service), use="write"))
    assert newest_key(service).scopes == ("read", "write")


def test_a_key_may_be_for_sending_events_only(service: Service, admin: httpx.Client) -> None:
    made = admin.post(keys_path(service), data=fill_form(admin, keys_path(service), use="events"))
    assert "This key may send events" in made.text
    assert newest_key(service).scopes == ("events",)
    assert "may send events<" in admin.get(keys_path(service)).text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"allow": "nonsense"}, "not an IP address"),
        ({"allow": "0.0.0.0/0"}, "every address"),
        ({"expiry": "365"}, "is not valid. Use one of: 7 days"),
        ({"use": "admin"}, "is not valid. Use one of: Read and write"),
        ({"name": "a\r\nSet-Cookie: x=y"}, "printable characters"),
        ({"name": "n" * 201}, "200 printable characters"),
    ],
)
def test_refused_form_keeps_its_values(
    service: Service, admin: httpx.Client, fields: dict[str, str], words: str
) -> None:
    answer = admin.post(keys_path(service), data=fill_form(admin, keys_path(service), **{"name": "typed", **fields}))
    assert answer.status_code == 400
    assert words in answer.text
    assert "set-cookie" not in answer.headers
    assert "name" in fields or 'value="typed"' in answer.text
    assert len(service.desk.keys.list_for_project(service.project.id)) == 1


def test_key_limit_is_reported_in_one_sentence(service: Service, admin: httpx.Client) -> None:
    for _ in range(5):
        assert admin.post(keys_path(service), data=fill_form(admin, keys_path(service))).status_code == 201
    refused = admin.post(keys_path(service), data=fill_form(admin, keys_path(service)))
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "The limit of 6 per 60 minutes is reached" in refused.text
    assert "At most 6 keys can be created per hour." in refused.text


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (make_key(), "active"),
        (make_key(expires_at=8 * clock.DAY), "active"),
        (make_key(expires_at=7 * clock.DAY), "expires in 7 days"),
        (make_key(expires_at=3 * clock.DAY), "expires in 3 days"),
        (make_key(expires_at=1), "expires in 1 day"),
        (make_key(expires_at=0), "expired"),
        (make_key(expires_at=0, revoked_at=0), "revoked"),
    ],
)
def test_key_shows_its_state(made: ApiKey, state: str) -> None:
    assert describe_key_state(made, now=0)[1] == state


def test_list_shows_everything_but_the_secret(service: Service, admin: httpx.Client) -> None:
    made, secret = service.desk.keys.create(
        service.project.id, name="nightly", expires_in=3 * clock.DAY, actor="ada@example.org"
    )
    service.desk.keys.record_use(made)
    row = admin.get(keys_path(service)).text.partition("nightly")[2].partition("</tr>")[0]
    for word in (secret[:9], "may read and write", "by ada@example.org", "expires in 3 days"):
        assert word in row
    assert row.count("<time") == 3
    assert "never" not in row


def test_revoking_a_key_asks_for_confirmation(service: Service, admin: httpx.Client) -> None:
    made, secret = service.desk.keys.create(service.project.id, name="old", actor="ada@example.org")
    path = f"{keys_path(service)}/{made.id}/revoke"
    assert f'href="{path}"' in admin.get(keys_path(service)).text
    asked = admin.get(path).text
    assert "old" in asked
    assert service.desk.keys.get(service.project.id, made.id).is_active
    for _ in range(2):
        assert admin.post(path, data={"token": csrf_token_from_html(asked)}).headers["location"] == keys_path(service)
    refused = httpx.get(service.url + service.at("/jobs"), headers={"Authorization": f"Bearer {secret}"}, timeout=60)
    assert refused.status_code == 401
    assert ">revoked</span>" in admin.get(keys_path(service)).text


def test_a_key_of_another_project_is_not_found(service: Service, admin: httpx.Client) -> None:
    other = service.another_project()
    foreign = newest_key(other)
    path = f"{keys_path(service)}/{foreign.id}/revoke"
    token = csrf_token_from_html(admin.get(keys_path(service)).text)
    assert admin.get(path).status_code == 404
    assert admin.post(path, data={"token": token}).status_code == 404
    assert newest_key(other).is_active
    assert admin.get(f"{keys_path(service)}/{new_id('key')}/revoke").status_code == 404


def test_key_name_is_escaped(service: Service, admin: httpx.Client) -> None:
    answer = admin.post(keys_path(service), data=fill_form(admin, keys_path(service), name=XSS))
    pages = [answer, admin.get(keys_path(service)), admin.get(f"{keys_path(service)}/{newest_key(service).id}/revoke")]
    pages.append(admin.post(keys_path(service), data=fill_form(admin, keys_path(service), name=XSS, allow=XSS)))
    for shown in pages:
        assert "&lt;img src=x" in shown.text
        assert "<img" not in shown.text
        assert "<script>" not in shown.text


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_role_without_permission_sees_keys_but_no_form(service: Service, role: str) -> None:
    client, mine = signed_in_client(service, role), newest_key(service)
    shown = client.get(keys_path(service)).text
    assert mine.hint in shown
    assert 'name="expiry"' not in shown
    assert "/revoke" not in shown
    form = {"token": csrf_token_from_html(shown), "id": new_id("key"), "use": "write", "expiry": "90"}
    assert client.post(keys_path(service), data=form).status_code == 403
    revoking = f"{keys_path(service)}/{mine.id}/revoke"
    assert client.get(revoking).status_code == 403
    assert client.post(revoking, data=form).status_code == 403
    assert service.desk.keys.list_for_project(service.project.id) == [mine]


def test_cross_site_form_creates_and_revokes_nothing(service: Service, admin: httpx.Client) -> None:
    mine, form = newest_key(service), fill_form(admin, keys_path(service))
    for path in (keys_path(service), f"{keys_path(service)}/{mine.id}/revoke"):
        for headers, sent in (
            ({"Sec-Fetch-Site": "cross-site"}, form),
            ({"Origin": "https://evil.example.org"}, form),
            ({"Sec-Fetch-Site": "same-origin"}, {**form, "token": ""}),
            ({"Sec-Fetch-Site": "same-origin"}, {name: text for name, text in form.items() if name != "token"}),
        ):
            assert admin.post(path, data=sent, headers=headers).status_code == 403
    assert service.desk.keys.list_for_project(service.project.id) == [mine]


def test_signed_out_visitor_is_sent_to_sign_in(service: Service) -> None:
    answer = httpx.get(service.url + keys_path(service), headers={"Accept": "text/html"}, timeout=60)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")
