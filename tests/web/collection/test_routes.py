"""Requests of browsers: views and feedback from the beacon, views by a pixel. Public, and limited."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.web.collection.routes import BEACON_SCRIPT
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

DOCS = "https://docs.example.com"
PAGE = {"u": f"{DOCS}/guide", "r": "https://www.example.org/search?q=1"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
TEXT = "text/plain;charset=UTF-8"
BROWSER = httpx.Client(timeout=30)
NO_LIMIT = dict.fromkeys(("collect_per_minute", "collect_per_address", "feedback_per_address"), 1_000_000)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("collect")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    options: dict[str, Any] = {**NO_LIMIT, "trusted_proxies": ("127.0.0.1", "10.0.0.0/8")}
    with serve(folder / "data", repository=repository, with_worker=False, **options) as running:
        yield running


@pytest.fixture
def fresh(service: Service) -> Service:
    """A project without views."""
    return service.another_project()


def set_options(service: Service, **choices: str) -> Service:
    """Sets options of the project, before its first request, so that no options are cached."""
    service.desk.projects.change(service.project.id, choices, actor="test")
    return service


def collect_url(service: Service) -> str:
    return f"{service.url}/v1/collect/{service.project.site_id}"


def send_beacon(service: Service, body: Any, kind: str = TEXT, **headers: str) -> httpx.Response:
    sent = {"User-Agent": FIREFOX, "Content-Type": kind, "Origin": DOCS}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return BROWSER.post(collect_url(service), content=content, headers=sent)


@pytest.mark.deep
def test_missing_beacon_is_counted_apart_from_views(fresh: Service) -> None:
    sent = {"k": "missing", "u": f"{DOCS}/gone", "r": f"{DOCS}/guide", "e": "1"}
    assert send_beacon(fresh, sent).json() == {"accepted": 1, "duplicates": 0, "dropped": []}
    assert send_beacon(fresh, sent).json()["duplicates"] == 1
    assert send_beacon(fresh, {**sent, "u": f"{DOCS}/a.css", "e": "2"}).json()["dropped"][0]["reason"] == "not_a_page"
    fresh.desk.store.fold()
    [row] = fresh.desk.store.list_missing_pages(fresh.project.id).rows
    assert (row.path, row.count.human, row.views, row.referrers[0].referrer) == ("/gone", 1, 1, "/guide")
    assert fresh.desk.store.count_views_by_page(fresh.project.id).totals.total == 0
    for wrong in ("missed", ["missing"], 1, None):
        assert send_beacon(fresh, {**sent, "k": wrong}).status_code == 400


def request_pixel(service: Service, u: str | None = None, **headers: str) -> httpx.Response:
    sent = {"User-Agent": FIREFOX} | {name.replace("_", "-"): value for name, value in headers.items()}
    return BROWSER.get(f"{collect_url(service)}/pixel.gif", params={} if u is None else {"u": u}, headers=sent)


def parse_result(answer: httpx.Response) -> tuple[int, int, list[str]]:
    assert answer.status_code == 202, answer.text
    assert "set-cookie" not in answer.headers
    told = answer.json()
    return told["accepted"], told["duplicates"], [drop["reason"] for drop in told["dropped"]]


def count_visitors(service: Service) -> dict[str, tuple[int, int]]:
    """Returns the visitors of each page, human and AI."""
    service.desk.store.fold()
    rows = service.desk.store.count_visitors_by_page(service.project.id).rows
    return {row.path: (row.count.human, row.count.ai) for row in rows}


@pytest.mark.deep
def test_view_is_stored_before_the_response(fresh: Service) -> None:
    assert send_beacon(fresh, PAGE).json() == {"accepted": 1, "duplicates": 0, "dropped": []}
    assert count_visitors(fresh) == {"/guide": (1, 0)}


@pytest.mark.deep
def test_visitor_is_identified_by_forwarded_address_and_agent(fresh: Service) -> None:
    send_beacon(fresh, PAGE, X_Forwarded_For="203.0.113.1")
    send_beacon(fresh, PAGE, X_Forwarded_For="203.0.113.1")
    send_beacon(fresh, PAGE, X_Forwarded_For="198.51.100.9, 203.0.113.2, 10.0.0.3")
    send_beacon(fresh, PAGE, X_Forwarded_For="203.0.113.1", User_Agent="Mozilla/5.0; compatible; ChatGPT-User/1.0")
    assert count_visitors(fresh) == {"/guide": (2, 1)}


def test_site_may_send_a_visitor_id(fresh: Service) -> None:
    for where, who in (("203.0.113.1", "a"), ("203.0.113.2", "a"), ("203.0.113.3", 7), ("203.0.113.4", 7)):
        assert parse_result(send_beacon(fresh, PAGE | {"v": who}, X_Forwarded_For=where)) == (1, 0, [])
    assert count_visitors(fresh) == {"/guide": (2, 0)}


def test_a_repeated_event_is_counted_once(fresh: Service) -> None:
    assert parse_result(send_beacon(fresh, PAGE | {"e": "once"})) == (1, 0, [])
    assert parse_result(send_beacon(fresh, PAGE | {"e": "once"})) == (0, 1, [])


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        ({"u": f"{DOCS}/logo.svg"}, {}, "not_a_page"),
        ({"u": "file:///home/index.html"}, {}, "not_http"),
        ({"u": "/" + "a" * 9000}, {}, "path_too_long"),
        (PAGE, {"Sec_Purpose": "prefetch;prerender"}, "prefetch"),
    ],
)
def test_dropped_view_has_a_reason(service: Service, body: Any, headers: dict[str, str], reason: str) -> None:
    assert parse_result(send_beacon(service, body, **headers)) == (0, 0, [reason])


@pytest.mark.parametrize("header", ["DNT", "Sec_GPC"])
def test_do_not_track_is_honored_if_the_project_says_so(service: Service, header: str) -> None:
    asked = {header: "1"}
    assert parse_result(send_beacon(service.another_project(), PAGE, **asked)) == (1, 0, [])
    honouring = set_options(service.another_project(), do_not_track="true")
    assert parse_result(send_beacon(honouring, PAGE, **asked)) == (0, 0, ["do_not_track"])
    assert request_pixel(honouring, f"{DOCS}/guide", **asked).headers["x-dropped"] == "do_not_track"
    assert count_visitors(honouring) == {}


@pytest.mark.parametrize("kind", [TEXT, "text/plain", "application/json", "application/json; charset=utf-8"])
def test_fast_and_regular_path_answer_alike_for_both_content_types(service: Service, kind: str) -> None:
    bodies: list[Any] = [PAGE, {"u": f"{DOCS}/a.png"}, {"u": 1}, {"x": 1}, {"k": "feedback", "u": "/a"}, [], b"{", b""]
    for body in bodies:
        usual, other = send_beacon(service, body), send_beacon(service, body, kind)
        assert usual.status_code == other.status_code
        assert set(usual.headers) == set(other.headers)
        assert usual.json() | {"requestId": ""} == other.json() | {"requestId": ""}


@pytest.mark.parametrize(
    ("body", "kind", "status", "field"),
    [
        (b"", TEXT, 400, None),
        (b"{", TEXT, 400, None),
        ([], TEXT, 400, ""),
        ({}, TEXT, 400, "u"),
        ({"u": ""}, TEXT, 400, "u"),
        ({"u": 1}, TEXT, 400, "u"),
        (PAGE | {"v": True}, TEXT, 400, "v"),
        (PAGE | {"e": "x" * 257}, TEXT, 400, "e"),
        ({"k": "colour", "u": "/a", "h": True}, TEXT, 400, "k"),
        ({"k": "feedback", "u": "/a"}, TEXT, 400, "helpful"),
        ({"k": "search", "u": "/a"}, TEXT, 400, "q"),
        ({"k": "search", "u": "/a", "q": "a", "n": -1}, TEXT, 400, "n"),
        ({"k": "feedback", "u": "/a", "h": "yes"}, TEXT, 400, "h"),
        ({"u": "/" + "a" * 66_000}, TEXT, 413, None),
        (PAGE, "application/x-www-form-urlencoded", 415, None),
        (PAGE, "", 415, None),
    ],
)
def test_unparseable_body_is_refused(service: Service, body: Any, kind: str, status: int, field: str | None) -> None:
    answer = send_beacon(service, body, kind)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["error"].endswith(".")
    assert [detail["field"] for detail in told.get("details", [])][:1] == ([] if field is None else [field])


def test_feedback_is_stored_with_its_page(fresh: Service) -> None:
    said = {"k": "feedback", "u": f"{DOCS}/guide/index.html", "h": False, "c": "Where is the key?", "e": "1"}
    assert parse_result(send_beacon(fresh, said)) == (1, 0, [])
    assert parse_result(send_beacon(fresh, {"k": "feedback", "u": f"{DOCS}/guide", "h": True})) == (1, 0, [])
    assert parse_result(send_beacon(fresh, said | {"u": f"{DOCS}/a.png"})) == (0, 0, ["not_a_page"])
    remarks, _ = fresh.desk.feedback.list_entries(fresh.project.id)
    assert {(remark.path, remark.helpful, remark.comment) for remark in remarks} == {
        ("/guide", False, "Where is the key?"),
        ("/guide", True, None),
    }
    assert count_visitors(fresh) == {}


def test_any_origin_may_send_if_none_is_configured(service: Service) -> None:
    for headers in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}):
        answer = send_beacon(service, PAGE, **headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (202, "*")


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        (DOCS, True),
        ("HTTPS://Docs.Example.com", True),
        ("https://v2.example.org", True),
        ("https://a.b.example.org", True),
        ("http://docs.example.com", False),
        ("https://docs.example.com:8443", False),
        ("https://docs.example.com.evil.example", False),
        ("https://evil-example.org", False),
        ("https://example.org", False),
        ("http://v2.example.org", False),
        ("null", False),
    ],
)
def test_only_configured_origins_may_send(service: Service, origin: str, welcome: bool) -> None:
    closed = set_options(service.another_project(), origins=f"{DOCS},https://*.example.org")
    answer = send_beacon(closed, PAGE, Origin=origin)
    asked = BROWSER.options(collect_url(closed), headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    by_pixel = request_pixel(closed, Referer=f"{origin}/guide")
    if welcome:
        assert (answer.status_code, asked.status_code, by_pixel.status_code) == (202, 204, 200)
        assert answer.headers["access-control-allow-origin"] == origin == asked.headers["access-control-allow-origin"]
        assert answer.headers["vary"] == "Origin"
        assert asked.headers["access-control-allow-headers"] == "Content-Type"
    else:
        for refused in (answer, asked, by_pixel):
            assert (refused.status_code, refused.json()["code"]) == (403, "origin_refused")
            assert "access-control-allow-origin" not in refused.headers
        assert count_visitors(closed) == {}


def test_request_without_origin_is_refused_if_origins_are_configured(service: Service) -> None:
    closed = set_options(service.another_project(), origins=DOCS)
    answer = BROWSER.post(collect_url(closed), content=json.dumps(PAGE), headers={"Content-Type": TEXT})
    assert answer.json()["code"] == "origin_refused"


def test_preflight_response_is_cached_for_a_day(service: Service) -> None:
    asked = BROWSER.options(collect_url(service), headers={"Origin": DOCS, "Access-Control-Request-Method": "POST"})
    assert (asked.status_code, asked.content) == (204, b"")
    assert asked.headers["access-control-allow-methods"] == "POST"
    assert asked.headers["access-control-max-age"] == "86400"
    assert "access-control-allow-credentials" not in asked.headers


@pytest.mark.parametrize("site", ["site_00000000000000000000000000", "nope", "%00", "%F0%9F%99%82", "a" * 300])
def test_unknown_site_returns_404(service: Service, site: str) -> None:
    known = f"{service.url}/v1/collect/{site}"
    answers = [
        BROWSER.post(known, json=PAGE),
        BROWSER.post(known, json=PAGE, headers={"Content-Type": "text/plain"}),
        BROWSER.get(f"{known}/pixel.gif"),
        BROWSER.options(known, headers={"Origin": DOCS}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "site_not_found")] * 4


def test_paths_next_to_the_collector_are_not_public(service: Service) -> None:
    for path in ("", "/", f"/{service.project.site_id}/", f"/{service.project.site_id}/pixel.gifs", "/a/b/c"):
        assert BROWSER.post(f"{service.url}/v1/collect{path}", json=PAGE).status_code in (401, 404)
    assert BROWSER.post(f"{service.url}/v2/collect/{service.project.site_id}", json=PAGE).status_code == 401
    assert BROWSER.get(collect_url(service)).status_code == 405


def test_a_pixel_counts_the_page_that_shows_it(fresh: Service) -> None:
    shown = request_pixel(fresh, Referer=f"{DOCS}/guide?x=1", Accept="image/avif,image/*;q=0.8")
    assert (shown.status_code, shown.headers["content-type"], len(shown.content)) == (200, "image/gif", 43)
    assert shown.content.startswith(b"GIF89a")
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["cross-origin-resource-policy"] == "cross-origin"
    assert not {"set-cookie", "etag", "x-dropped"} & set(shown.headers)
    assert request_pixel(fresh, f"{DOCS}/named", Referer=f"{DOCS}/").status_code == 200
    assert count_visitors(fresh) == {"/guide": (1, 0), "/named": (1, 0)}


def test_a_pixel_is_admitted_by_the_page_that_shows_it_and_not_by_the_page_that_it_names(service: Service) -> None:
    closed = set_options(service.another_project(), origins=DOCS)
    copied = request_pixel(closed, f"{DOCS}/guide", Referer="https://copy.example/guide")
    assert (copied.status_code, copied.json()["code"]) == (403, "origin_refused")
    assert request_pixel(closed, "https://copy.example/named", Referer=f"{DOCS}/guide").status_code == 200
    assert request_pixel(closed, f"{DOCS}/unnamed").status_code == 200, "a page may send no referrer"
    assert count_visitors(closed) == {"/named": (1, 0), "/unnamed": (1, 0)}


def test_pixel_is_returned_even_if_nothing_is_counted(fresh: Service) -> None:
    for headers, reason in (({}, "no_path"), ({"Referer": "about:blank"}, "not_http"), ({"Referer": "%"}, "")):
        shown = request_pixel(fresh, **headers)
        assert (shown.status_code, len(shown.content)) == (200, 43)
        assert reason in shown.headers.get("x-dropped", "")


def test_view_with_an_unknown_signature_is_accepted(service: Service) -> None:
    signed = {
        "Signature_Agent": '"https://agent.example"',
        "Signature_Input": 'sig=("@authority");created=1;expires=9999999999;keyid="x";tag="web-bot-auth"',
        "Signature": "sig=:AAAA:",
    }
    assert parse_result(send_beacon(service, PAGE, **signed)) == (1, 0, [])
    assert request_pixel(service, f"{DOCS}/guide", **signed).status_code == 200


def test_script_is_cached_for_a_day(service: Service) -> None:
    first = BROWSER.get(f"{service.url}/beacon.js")
    assert (first.status_code, first.content) == (200, BEACON_SCRIPT.read_bytes())
    assert first.headers["content-type"].startswith("text/javascript")
    assert first.headers["cache-control"] == "public, max-age=86400"
    for known in (first.headers["etag"], f'"x", W/{first.headers["etag"]}', "*"):
        again = BROWSER.get(f"{service.url}/beacon.js", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
    assert BROWSER.get(f"{service.url}/beacon.js", headers={"If-None-Match": '"x"'}).status_code == 200


@pytest.mark.deep
def test_views_are_limited_by_address_and_by_site(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    limits: dict[str, Any] = {"collect_per_minute": 8, "collect_per_address": 3, "trusted_proxies": ("127.0.0.1",)}
    with serve(tmp_path / "data", repository=repository, with_worker=False, **limits) as service:

        def statuses(*addresses: str) -> list[int]:
            return [send_beacon(service, PAGE, X_Forwarded_For=each).status_code for each in addresses]

        assert statuses(*["203.0.113.1"] * 4) == [202, 202, 202, 429]
        assert statuses(*[f"2001:db8:1:2::{number}" for number in range(4)]) == [202, 202, 202, 429], "one home"
        refused = send_beacon(service, PAGE, X_Forwarded_For="203.0.113.1")
        assert refused.json()["code"] == "too_many_requests"
        assert refused.headers["ratelimit-policy"] == '"collect-address";q=3;w=60'
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert statuses("203.0.113.2", "203.0.113.3", "203.0.113.4") == [202, 202, 429]
        refused = send_beacon(service, PAGE, X_Forwarded_For="203.0.113.5")
        assert refused.headers["ratelimit-policy"] == '"collect-site";q=8;w=60'
        assert statuses("203.0.113.5") == [429]
        events = service.http.post(f"/v1/analytics/{service.project.id}/events", json=[{"path": "/a"}] * 20)
        assert events.json()["accepted"] == 20, "servers have a key, and are not held up"


def test_concurrent_first_views_of_a_new_site_are_all_stored(fresh: Service) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(send_beacon(fresh, PAGE, "text/plain").status_code))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [202] * 12
    assert count_visitors(fresh) == {"/guide": (1, 0)}


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=30), st.lists(st.none(), max_size=2))
BODIES = st.dictionaries(st.sampled_from(["u", "r", "v", "e", "k", "h", "c", "x"]), ANYTHING, max_size=5)


@pytest.mark.deep
@given(st.one_of(BODIES.map(lambda body: json.dumps(body).encode()), st.binary(max_size=60)))
def test_any_body_is_stored_or_refused_with_a_reason(service: Service, body: bytes) -> None:
    answer = send_beacon(service, body)
    if answer.status_code == 202:
        accepted, duplicates, dropped = parse_result(answer)
        assert accepted + duplicates + len(dropped) == 1
    else:
        assert answer.status_code == 400, answer.text


@pytest.mark.deep
@given(st.text(max_size=60), st.binary(max_size=40))
def test_pixel_is_returned_for_any_page_parameter(service: Service, page: str, referring: bytes) -> None:
    headers = {b"Referer": bytes(byte for byte in referring if 32 < byte < 256 and byte != 127)}
    shown = BROWSER.get(f"{collect_url(service)}/pixel.gif", params={"u": page}, headers=headers)
    assert (shown.status_code, len(shown.content)) == (200, 43)
