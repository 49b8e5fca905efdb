"""Signing in and sessions, under attack."""

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from sqlalchemy import delete, update

from copydesk.core import clock
from copydesk.core.accounts.sign_in_limits import SIGN_IN_LIMIT_PER_ADDRESS, SIGN_IN_LIMIT_PER_PERSON
from copydesk.core.db.tables import invitations, limits
from copydesk.web.responses.redirects import safe_redirect_path
from tests.support.people import PASSWORD, csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

COOKIE = "copydesk"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("entry")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    proxies = ("127.0.0.1",)  # so that a test can use any client address
    with serve(folder / "data", repository=repository, with_worker=False, trusted_proxies=proxies) as service:
        get_or_add_person(service, "admin")
        yield service


@pytest.fixture
def service(running: Service) -> Service:
    """A service without throttled addresses."""
    with running.desk.database.write() as tx:
        tx.execute(delete(limits))
    return running


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=30) as browser:
        yield browser


def sign_in(browser: httpx.Client, password: str = PASSWORD, **form: str) -> httpx.Response:
    headers = {"X-Forwarded-For": form.pop("address")} if "address" in form else {}
    return browser.post("/sign-in", data={"email": "admin@example.org", "password": password, **form}, headers=headers)


def test_signed_out_visitor_is_sent_to_sign_in_and_back(browser: httpx.Client) -> None:
    sent = browser.get("/account?done=password")
    assert sent.headers["location"] == "/sign-in?next=%2Faccount%3Fdone%3Dpassword"
    shown = browser.get(sent.headers["location"]).text
    assert 'name="next" value="/account?done=password"' in shown
    assert sign_in(browser, next="/account").headers["location"] == "/account"
    assert browser.get("/account").status_code == 200
    assert browser.get("/sign-in?next=/people").headers["location"] == "/people", "who is in need not sign in again"


@pytest.mark.deep
def test_first_link_creates_the_first_administrator(tmp_path: Path, service: Service) -> None:
    with serve(tmp_path / "new", repository=service.repository, with_worker=False) as new:
        with httpx.Client(base_url=new.url, headers={"Accept": "text/html"}, timeout=60) as browser:
            assert "There is no administrator yet" in browser.get("/sign-in").text
            link = f"/join/{new.desk.people.create_first_admin_link()}"
            assert "This account will be the administrator." in browser.get(link).text
            form = {"email": "Ada@example.org", "name": "Ada", "password": PASSWORD}
            assert "at least 10 characters" in browser.post(link, data={**form, "password": "short"}).text
            assert browser.post(link, data=form).headers["location"] == "/"
            assert browser.get("/people").status_code == 200
            assert browser.get(link).status_code == 404
        assert [one.email for one in new.desk.people.all()] == ["ada@example.org"]


def test_password_guesses_are_throttled_with_the_wait_shown(browser: httpx.Client, service: Service) -> None:
    assert sign_in(browser, "a guess", address="192.0.2.1").status_code == 401
    with service.desk.database.write() as tx:
        tx.execute(
            update(limits).where(limits.c.bucket.like("sign-in:%")).values(used=SIGN_IN_LIMIT_PER_PERSON.quota - 1)
        )
    assert sign_in(browser, "a guess", address="192.0.2.2").status_code == 401
    answer = sign_in(browser, address="192.0.2.3")
    assert answer.status_code == 429, "not even with the right password, and from a third address"
    assert 0 < int(answer.headers["retry-after"]) <= 15 * 60
    assert "Try again in" in answer.text
    assert COOKIE not in browser.cookies


@pytest.mark.deep
def test_password_guesses_at_many_accounts_from_one_address_are_throttled(
    browser: httpx.Client, service: Service
) -> None:
    assert sign_in(browser, "a guess", email="1@example.org", address="192.0.2.1").status_code == 401
    with service.desk.database.write() as tx:
        tx.execute(
            update(limits).where(limits.c.bucket.like("sign-in-address:%")).values(used=SIGN_IN_LIMIT_PER_ADDRESS.quota)
        )
    assert sign_in(browser, "a guess", email="2@example.org", address="192.0.2.1").status_code == 429
    assert sign_in(browser, "a guess", email="2@example.org", address="192.0.2.2").status_code == 401


@pytest.mark.deep
def test_sign_in_does_not_reveal_whether_an_account_exists(browser: httpx.Client, service: Service) -> None:
    people = service.desk.people
    people.accept_invitation(people.invite("known@example.org", "viewer", actor="test"), "", "Known", PASSWORD)
    sign_in(browser, "a guess", email="first@example.org")  # creates the hash that others are compared with
    texts, least = [], {"known@example.org": math.inf, "nobody@example.org": math.inf}
    for email in [*least] * 3:
        begun = time.process_time()
        answer = sign_in(browser, "a guess", email=email)
        least[email] = min(least[email], time.process_time() - begun)
        texts.append((answer.status_code, answer.text.replace(email, "")))
    assert texts == texts[:1] * 6
    assert 0.4 < least["known@example.org"] / least["nobody@example.org"] < 2.5, "both took a look at a password"


def test_session_fixation_is_prevented(browser: httpx.Client, service: Service) -> None:
    planted = signed_in_client(service, "viewer").cookies[COOKIE]
    browser.cookies.set(COOKIE, planted, domain="127.0.0.1", path="/")
    answer = sign_in(browser)
    mine = re.match(rf"{COOKIE}=(\w+);", answer.headers["set-cookie"])
    assert mine
    assert mine[1] != planted
    with httpx.Client(
        base_url=service.url, cookies={COOKIE: planted}, headers={"Accept": "text/html"}, timeout=60
    ) as attacker:
        assert "admin@example.org" not in attacker.get("/account").text


def test_session_cookie_is_host_only_and_http_only(browser: httpx.Client) -> None:
    flags = {part.strip().lower() for part in sign_in(browser).headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert not any(flag.startswith("domain") for flag in flags)


def test_session_cookie_behind_tls_is_secure_and_has_the_host_prefix(tmp_path: Path, service: Service) -> None:
    far = "https://docs.example.org"
    with serve(tmp_path / "tls", repository=service.repository, with_worker=False, base_url=far) as other:
        get_or_add_person(other)
        origin = {"Origin": far, "Accept": "text/html"}
        form = {"email": "admin@example.org", "password": PASSWORD}
        answer = httpx.post(f"{other.url}/sign-in", data=form, headers=origin, timeout=60)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-copydesk=")
        assert {"secure", "httponly", "samesite=lax", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        secret = cookie.partition("=")[2].partition(";")[0]
        for name, status in (("__Host-copydesk", 200), ("copydesk", 303)):
            headers = {"Cookie": f"{name}={secret}", "Accept": "text/html"}
            assert httpx.get(f"{other.url}/account", headers=headers, timeout=60).status_code == status


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "HOST"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "HOST.evil.example"},
]


def test_a_form_is_accepted_at_an_address_of_the_local_network(browser: httpx.Client) -> None:
    """As on a new installation in a container, which knows only its internal address."""
    form = {"email": "admin@example.org", "password": PASSWORD}
    host = "192.168.1.5:8080"
    answer = browser.post("/sign-in", data=form, headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == 303
    answer = browser.post("/sign-in", data=form, headers={"Host": host, "Origin": "http://192.168.1.6:8080"})
    assert answer.status_code == 403


def test_host_header_does_not_make_an_origin_trusted(browser: httpx.Client, service: Service) -> None:
    """As when an attacker's name leads a browser to this service (DNS rebinding)."""
    form = {"email": "admin@example.org", "password": PASSWORD}
    port = service.url.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"0.0.0.0:{port}"):
        answer = browser.post("/sign-in", data=form, headers={"Host": host, "Origin": f"http://{host}"})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), host
        assert "COPYDESK_BASE_URL" in answer.text


def test_every_loopback_name_is_a_trusted_origin(browser: httpx.Client, service: Service) -> None:
    port = service.url.rpartition(":")[2]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        form = {"email": "admin@example.org", "password": PASSWORD}
        answer = browser.post("/sign-in", data=form, headers={"Host": host, "Origin": f"http://{host}"})
        assert answer.status_code == 303, host


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("path", ["/sign-in", "/join/"])
def test_cross_site_sign_in_is_refused(
    browser: httpx.Client, service: Service, path: str, headers: dict[str, str]
) -> None:
    """Otherwise an attacker could make people work in an account that is not theirs."""
    if path == "/join/":
        path += service.desk.people.invite("new@example.org", "viewer", actor="test")
    form = {"email": "admin@example.org", "password": PASSWORD, "name": "New"}
    said = {name: value.replace("HOST", service.url) for name, value in headers.items()}
    answer = browser.post(path, data=form, headers=said)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def list_forms(service: Service) -> dict[str, dict[str, str]]:
    """Every form of these pages, filled in so that it would have an effect."""
    other = get_or_add_person(service, "editor", "other@example.org")
    [session, *_] = service.desk.people.sessions.list_for_person(get_or_add_person(service, "admin").id)
    return {
        "/sign-out": {},
        "/people/invite": {"email": "invited@example.org", "role": "viewer"},
        "/people/withdraw": {"email": "waiting@example.org"},
        f"/people/{other.id}/role": {"role": "admin"},
        f"/people/{other.id}/reset": {},
        f"/people/{other.id}/remove": {},
        "/account/password": {"old": PASSWORD, "new": "another password", "again": "another password"},
        "/account/sessions/end": {"session": session.id},
        "/account/sessions/end-others": {},
    }


@pytest.mark.deep
def test_cross_site_form_changes_nothing(service: Service) -> None:
    service.desk.people.invite("waiting@example.org", "viewer", actor="test")
    admin, other = signed_in_client(service), signed_in_client(service)
    own, another = csrf_token_from_html(admin.get("/account").text), csrf_token_from_html(other.get("/account").text)
    assert own != another
    filled = list_forms(service)
    everything = read_state(service)
    tries: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {}),
        ({"token": ""}, {}),
        ({"token": another}, {}),
        ({"token": "é"}, {}),
        *(
            ({"token": own}, {name: value.replace("HOST", service.url) for name, value in each.items()})
            for each in FOREIGN
        ),
    ]
    for path, form in filled.items():
        for token, headers in tries:
            answer = admin.post(path, data={"sent": "yes", **form, **token}, headers=headers)
            assert (answer.status_code, path) == (403, path)
            assert "This form was not sent from" in answer.text
    assert read_state(service) == everything


def read_state(service: Service) -> object:
    people = service.desk.people
    sessions = [people.sessions.list_for_person(one.id) for one in people.all()]
    return [people.all(), people.list_invitations(), [[session.id for session in some] for some in sessions]]


def test_forms_with_simple_request_content_types_return_415(service: Service) -> None:
    admin = signed_in_client(service)
    token = csrf_token_from_html(admin.get("/account").text)
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        answer = admin.post("/sign-out", content=f"token={token}".encode(), headers={"Content-Type": kind})
        assert answer.status_code == 415
    assert admin.get("/sign-out").status_code == 405
    assert admin.get("/account").status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        *("//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example"),
        *("javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", " //evil.example", "evil.example", ""),
        *("/\r\nSet-Cookie: a=b", "/\u2028", "/a\\..\\b"),
    ],
)
def test_next_path_to_another_site_becomes_the_root(text: str) -> None:
    assert safe_redirect_path(text) == "/"


def test_sign_in_does_not_redirect_to_other_sites(browser: httpx.Client) -> None:
    for given in ("//evil.example/", "https://evil.example/", "/\\evil.example"):
        shown = browser.get("/sign-in", params={"next": given}).text
        assert "evil.example" not in shown
    assert sign_in(browser, next="//evil.example/").headers["location"] == "/"


def test_ended_session_stops_immediately(service: Service) -> None:
    mine, stolen = signed_in_client(service), signed_in_client(service)
    token = csrf_token_from_html(mine.get("/account").text)
    assert stolen.get("/account").status_code == 200
    assert mine.post("/account/sessions/end-others", data={"token": token}).status_code == 303
    assert stolen.get("/account").headers["location"].startswith("/sign-in")
    assert mine.post("/sign-out", data={"token": token}).headers["location"] == "/sign-in"
    mine.cookies.set(COOKIE, "kept", domain="127.0.0.1", path="/")
    assert mine.get("/account").status_code == 303


def test_signing_out_ends_the_session_on_the_server(service: Service) -> None:
    browser = signed_in_client(service)
    kept = browser.cookies[COOKIE]
    browser.post("/sign-out", data={"token": csrf_token_from_html(browser.get("/account").text)})
    with httpx.Client(
        base_url=service.url, cookies={COOKIE: kept}, headers={"Accept": "text/html"}, timeout=60
    ) as thief:
        assert thief.get("/account").status_code == 303


def test_removed_person_is_signed_out_immediately(service: Service) -> None:
    gone = signed_in_client(service, "editor", "leaving@example.org")
    assert gone.get("/account").status_code == 200
    service.desk.people.remove(service.desk.people.get_by_email("leaving@example.org").id, actor="test")
    assert gone.get("/account").status_code == 303


def test_sessions_survive_a_restart(tmp_path: Path, service: Service) -> None:
    with serve(tmp_path / "again", repository=service.repository, with_worker=False) as before:
        secret = signed_in_client(before).cookies[COOKIE]
    with serve(tmp_path / "again", repository=service.repository, with_worker=False) as after:
        cookie = {"Cookie": f"{COOKIE}={secret}", "Accept": "text/html"}
        assert httpx.get(f"{after.url}/account", headers=cookie, timeout=60).status_code == 200


@pytest.mark.deep
@pytest.mark.parametrize(
    "field",
    [{"name": "Eve\r\nSet-Cookie: a=b"}, {"name": "Eve\x00"}, {"name": "\u202eevE"}, {"name": "x" * 201}],
    ids=str,
)
def test_invalid_name_is_refused(browser: httpx.Client, service: Service, field: dict[str, str]) -> None:
    link = f"/join/{service.desk.people.invite('eve@example.org', 'viewer', actor='test')}"
    answer = browser.post(link, data={"email": "eve@example.org", "name": "Eve", "password": PASSWORD, **field})
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers


@pytest.mark.deep
def test_used_or_expired_invitation_is_refused(browser: httpx.Client, service: Service) -> None:
    used, old = (service.desk.people.invite(f"{one}@example.org", "viewer", actor="test") for one in ("used", "old"))
    form = {"email": "other@example.org", "name": "<b>Used</b>", "password": PASSWORD}
    assert browser.post(f"/join/{used}", data=form).status_code == 303
    shown = browser.get("/account").text
    assert "used@example.org" in shown, "the address is the invitation's, whatever the form says"
    assert "&lt;b&gt;Used&lt;/b&gt;" in shown
    with service.desk.database.write() as tx:
        tx.execute(
            update(invitations).where(invitations.c.email == "old@example.org").values(expires_at=clock.now() - 1)
        )
    for secret in (used, old, "0" * 32, "none"):
        for answer in (browser.get(f"/join/{secret}"), browser.post(f"/join/{secret}", data=form)):
            assert answer.status_code == 404
            assert "already used, has expired or never existed" in answer.text


def test_sign_in_pages_cannot_be_framed_or_cached(browser: httpx.Client, service: Service) -> None:
    link = service.desk.people.invite("framed@example.org", "viewer", actor="test")
    for path in ("/sign-in", f"/join/{link}", "/join/none"):
        headers = browser.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert "no-store" in headers["cache-control"]
        assert headers["referrer-policy"] == "same-origin", "or the link would be told to whoever is linked to"
