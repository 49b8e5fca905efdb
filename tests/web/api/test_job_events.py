"""Events from servers: one, many, or lines, compressed or not; every event is stored or has a drop reason."""

import gzip
import json
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from copydesk.analytics.ingest.event_schema import EVENT_FIELDS
from copydesk.core.errors import RequestTooLarge
from copydesk.web.collection.payloads import (
    BYTE_ORDER_MARK,
    MAX_EVENTS,
    MAX_GZIP_MEMBERS,
    MAX_LINES,
    MAX_UNPACKED_BYTES,
    parse_events,
)
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

JSON, LINES = "application/json", "application/x-ndjson"
PAGE = {
    "url": "https://docs.example.com/guide",
    "ip": "203.0.113.7",
    "userAgent": "Mozilla/5.0 (X11) Gecko/1 Firefox/1",
}
FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("events")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture
def fresh(service: Service) -> Service:
    """A project without views."""
    return service.another_project()


def events_path(service: Service) -> str:
    return f"/v1/analytics/{service.project.id}/events"


def send_events(service: Service, body: bytes | str, kind: str = JSON, **headers: str) -> httpx.Response:
    content = body.encode() if isinstance(body, str) else body
    sent = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return service.http.post(events_path(service), content=content, headers=sent)


def send_gzipped(service: Service, body: bytes, kind: str = JSON) -> httpx.Response:
    return send_events(service, body, kind, Content_Encoding="gzip")


def parse_result(answer: httpx.Response) -> tuple[int, int, list[tuple[int, str]]]:
    assert answer.status_code == 202, answer.text[:300]
    told = answer.json()
    return told["accepted"], told["duplicates"], [(drop["index"], drop["reason"]) for drop in told["dropped"]]


def count_views(service: Service) -> int:
    service.desk.store.fold()
    agents, _ = service.desk.store.list_agents(service.project.id)
    return sum(row.views for row in agents)


@pytest.mark.deep
def test_event_is_stored_before_the_response(fresh: Service) -> None:
    assert send_events(fresh, json.dumps(PAGE)).json() == {"accepted": 1, "duplicates": 0, "dropped": []}
    assert count_views(fresh) == 1


@pytest.mark.deep
def test_events_of_an_array_are_accepted_individually(fresh: Service) -> None:
    sent = [PAGE, {**PAGE, "status": 403}, PAGE | {"eventId": "e1"}, 7, PAGE | {"eventId": "e1"}, {"ip": "::1"}]
    answer = send_events(fresh, json.dumps(sent))
    assert parse_result(answer) == (2, 1, [(1, "not_successful"), (3, "not_an_event"), (5, "no_path")])
    assert all(drop["message"].endswith(".") for drop in answer.json()["dropped"])
    assert count_views(fresh) == 2


@pytest.mark.parametrize("kind", [LINES, "application/jsonl", "application/ndjson; charset=utf-8"])
def test_a_line_that_is_not_json_is_dropped_and_the_others_are_kept(fresh: Service, kind: str) -> None:
    lines = [json.dumps(PAGE), "", "{", "[]", '{"path": "/b"}\r', "\xff", '{"path": "/c"']
    body = "\n".join(lines).encode("latin-1")
    assert parse_result(send_events(fresh, body, kind)) == (
        2,
        0,
        [(2, "not_json"), (3, "not_an_event"), (5, "not_json"), (6, "not_json")],
    )
    assert count_views(fresh) == 2


@pytest.mark.parametrize(
    ("body", "kind"), [("[]", JSON), ("", LINES), ("\n\n", LINES), (" \n", LINES)], ids=["array", "lines", "n", "s"]
)
def test_empty_body_accepts_nothing(service: Service, body: str, kind: str) -> None:
    assert parse_result(send_events(service, body, kind)) == (0, 0, [])


def test_repeated_event_is_counted_once(fresh: Service) -> None:
    sent = json.dumps([PAGE | {"eventId": f"e{number}"} for number in range(20)])
    assert parse_result(send_events(fresh, sent)) == (20, 0, [])
    assert parse_result(send_events(fresh, sent)) == (0, 20, [])
    assert parse_result(send_events(fresh.another_project(), sent)) == (20, 0, []), (
        "another project's events are others"
    )
    assert count_views(fresh) == 20


def test_error_of_an_event_names_its_field(service: Service) -> None:
    wrong = [{"path": 7, "colour": 1}, {"path": "/a", "status": "200"}, {"path": "/a", "timestamp": {}}]
    dropped = send_events(service, json.dumps(wrong)).json()["dropped"]
    assert [(drop["reason"], drop["field"]) for drop in dropped] == [
        ("bad_field", "path"),
        ("bad_field", "status"),
        ("bad_timestamp", "timestamp"),
    ]


UNREADABLE = {
    "nothing": ("", JSON, 400),
    "half an object": ("{", JSON, 400),
    "a comma too many": ("[1,]", JSON, 400),
    "not a number": ('{"path": NaN}', JSON, 400),
    "text": ('"event"', JSON, 400),
    "null": ("null", JSON, 400),
    "too deep": ("[" * 5000, JSON, 400),
    "half a character": ('{"path": "\\ud800"}', JSON, 400),
    "too many events": (json.dumps([{}] * (MAX_EVENTS + 1)), JSON, 413),
    "too many lines": ("\n" * (MAX_LINES + 1), LINES, 413),
    "plain text": (json.dumps(PAGE), "text/plain", 415),
    "no media type": (json.dumps(PAGE), "", 415),
    "a form": ("path=/a", "application/x-www-form-urlencoded", 415),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unparseable_body_is_refused(service: Service, name: str) -> None:
    body, kind, status = UNREADABLE[name]
    answer = send_events(service, body, kind)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


@pytest.mark.deep
def test_maximum_number_of_events_is_accepted(fresh: Service) -> None:
    assert parse_result(send_events(fresh, json.dumps([PAGE] * MAX_EVENTS)))[0] == MAX_EVENTS
    assert parse_result(send_events(fresh, (json.dumps(PAGE) + "\n") * MAX_LINES, LINES))[0] == MAX_LINES


def test_byte_order_mark_is_ignored(service: Service) -> None:
    for kind in (JSON, LINES):
        assert parse_result(send_events(service, b"\xef\xbb\xbf" + json.dumps(PAGE).encode(), kind))[0] == 1


def test_gzip_body_is_decompressed(service: Service) -> None:
    one, two = json.dumps(PAGE).encode(), b"\n" + json.dumps(PAGE).encode()
    assert parse_result(send_gzipped(service, gzip.compress(one))) == (1, 0, [])
    assert parse_result(send_gzipped(service, gzip.compress(one) + gzip.compress(two), LINES)) == (2, 0, []), (
        "several members"
    )
    assert parse_result(send_gzipped(service, gzip.compress(one) + bytes(512))) == (1, 0, []), "padded with zeros"
    assert parse_result(send_events(service, one, Content_Encoding="identity")) == (1, 0, [])


NOTHING = gzip.compress(b"")
EMPTY = gzip.compress(b"[]")
WRONGLY_PACKED: dict[str, tuple[Callable[[], bytes], int]] = {
    "no bytes": (lambda: b"", 400),
    "not packed": (lambda: b"{}", 400),
    "zlib": (lambda: zlib.compress(b"[]"), 400),
    "the head alone": (lambda: EMPTY[:9], 400),
    "without its end": (lambda: EMPTY[:-8], 400),
    "without its last byte": (lambda: EMPTY[:-1], 400),
    "a wrong checksum": (lambda: EMPTY[:-8] + bytes(8), 400),
    "a lie about its size": (lambda: EMPTY[:-1] + b"\xff", 400),
    "garbage behind": (lambda: EMPTY + b"garbage", 400),
    "garbage behind zeros": (lambda: EMPTY + bytes(9) + b"x", 400),
    "packed twice": (lambda: gzip.compress(EMPTY), 400),
    "a byte too much": (lambda: gzip.compress(bytes(MAX_UNPACKED_BYTES + 1)), 413),
    "a bomb": (lambda: gzip.compress(bytes(16 * MAX_UNPACKED_BYTES), 1), 413),
    "a bomb in parts": (lambda: gzip.compress(bytes(MAX_UNPACKED_BYTES // 2 + 1)) * 2, 413),
    "one part too many": (lambda: NOTHING * (MAX_GZIP_MEMBERS + 1), 413),
    "parts without end": (lambda: NOTHING * 200_000, 413),
}


@pytest.mark.parametrize("name", WRONGLY_PACKED)
def test_malformed_gzip_and_gzip_bombs_are_refused(service: Service, name: str) -> None:
    body, status = WRONGLY_PACKED[name]
    answer = send_gzipped(service, body())
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


def test_other_encodings_return_415_naming_gzip(service: Service) -> None:
    answer = send_events(service, b"[]", Content_Encoding="br")
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip")


def test_a_larger_body_is_refused_before_it_is_read(service: Service) -> None:
    assert send_events(service, b" " * (5 * 1024 * 1024 + 1)).status_code == 413


@pytest.mark.parametrize("body", [json.dumps(PAGE), "[]", "{", '{"path": 1}', json.dumps([PAGE | {"x": 1}]), ""])
def test_fast_and_regular_path_answer_alike(service: Service, body: str) -> None:
    short, long = send_events(service, body, JSON), send_events(service, body, f"{JSON}; charset=utf-8")
    assert short.status_code == long.status_code
    assert set(short.headers) == set(long.headers)
    assert short.json() | {"requestId": ""} == long.json() | {"requestId": ""}


def test_a_key_must_be_able_to_write(service: Service) -> None:
    reading = httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {service.new_key(scopes=['read'])}"}, timeout=60
    )
    assert reading.post(events_path(service), json=PAGE).json()["code"] == "scope_missing"
    assert httpx.post(service.url + events_path(service), json=PAGE, timeout=60).json()["code"] == "key_missing"


def test_a_key_that_is_revoked_is_refused_at_once(service: Service) -> None:
    key, secret = service.desk.keys.create(service.project.id, actor="test")
    with_key = {"Authorization": f"Bearer {secret}"}
    assert [service.http.post(events_path(service), json=PAGE, headers=with_key).status_code for _ in range(3)] == [
        202
    ] * 3
    service.desk.keys.revoke(key.id, actor="test")
    assert service.http.post(events_path(service), json=PAGE, headers=with_key).json()["code"] == "key_rejected"


def test_a_key_that_expires_is_refused_from_then_on(service: Service) -> None:
    for lifetime in (700, 5_000, 30_000):  # milliseconds; a busy machine needs longer lifetimes for three requests
        with_key = {"Authorization": f"Bearer {service.new_key(expires_in=lifetime)}"}
        statuses = [service.http.post(events_path(service), json=PAGE, headers=with_key).status_code for _ in range(3)]
        if statuses == [202] * 3:
            break
    assert statuses == [202] * 3
    threading.Event().wait(lifetime / 1000 + 0.1)
    assert service.http.post(events_path(service), json=PAGE, headers=with_key).json()["code"] == "key_rejected"


def test_concurrent_requests_get_their_own_results(fresh: Service) -> None:
    answers: dict[int, tuple[int, int, list[tuple[int, str]]]] = {}

    def several(number: int) -> None:
        """Makes a batch; half of its events are those of the first request."""
        ids = [f"e{n}" for n in range(5)] + [f"{number}-{n}" for n in range(5)]
        events = [PAGE | {"eventId": each} for each in ids] + [{"nope": number}] * number
        answers[number] = parse_result(fresh.http.post(events_path(fresh), json=events))

    threads = [threading.Thread(target=several, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: len(dropped) for number, (_, _, dropped) in answers.items()} == {n: n for n in range(16)}
    assert all(accepted >= 5 and accepted + duplicates == 10 for accepted, duplicates, _ in answers.values())
    assert sum(accepted for accepted, _, _ in answers.values()) == 5 + 16 * 5 == count_views(fresh)


@pytest.mark.deep
@pytest.mark.embedded
def test_damaged_store_acknowledges_nothing(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    data = tmp_path / "data"
    data.mkdir()
    (data / "analytics.duckdb").write_bytes(b"this is no database" * 1000)
    with serve(data, repository=repository, with_worker=False) as service:
        answer = send_events(service, json.dumps(PAGE))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        (data / "analytics.duckdb").unlink()
        assert parse_result(send_events(service, json.dumps(PAGE))) == (1, 0, [])


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=4,
)
NEARLY = st.dictionaries(st.sampled_from(sorted(EVENT_FIELDS)), st.one_of(ANYTHING, st.just("/a")), max_size=6)


@pytest.mark.deep
@FUZZ
@given(st.lists(st.one_of(NEARLY, ANYTHING), max_size=6))
def test_every_event_of_an_array_is_accounted_for(service: Service, sent: list[Any]) -> None:
    accepted, duplicates, dropped = parse_result(send_events(service, json.dumps(sent)))
    assert accepted + duplicates + len(dropped) == len(sent)


@pytest.mark.deep
@FUZZ
@given(st.lists(st.one_of(st.binary(max_size=40), NEARLY.map(lambda event: json.dumps(event).encode())), max_size=6))
def test_every_line_is_accounted_for(service: Service, lines: list[bytes]) -> None:
    body = b"\n".join(lines)
    accepted, duplicates, dropped = parse_result(send_events(service, body, LINES))
    assert accepted + duplicates + len(dropped) == sum(
        bool(line.strip()) for line in body.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    )


@pytest.mark.deep
@FUZZ
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 400), st.sampled_from([JSON, LINES]))
def test_no_gzip_body_causes_a_server_error(service: Service, noise: bytes, start: int, end: int, kind: str) -> None:
    whole = gzip.compress(json.dumps([PAGE]).encode())
    answer = send_gzipped(service, whole[:start] + noise + whole[end:], kind)
    assert answer.status_code in (202, 400, 413)


MILLIONS = {
    "objects": (b"[" + b"{}," * 3_400_000 + b"{}]", JSON),
    "numbers": (b"[" + b"1," * 5_000_000 + b"1]", JSON),
    "within one event": (b'{"x":[' + b"{}," * 3_400_000 + b"{}]}", JSON),
    "on one line": (b'{"x":[' + b"{}," * 3_400_000 + b"{}]}", LINES),
    "lines": (b"{}\n" * 3_400_000, LINES),
}


@pytest.mark.parametrize("kind", MILLIONS)
def test_json_values_are_counted_before_parsing(fresh: Service, kind: str) -> None:
    body, media_type = MILLIONS[kind]
    headers = Headers({"content-type": media_type, "content-encoding": "gzip"})
    zipped = gzip.compress(body, 1)
    answer = send_gzipped(fresh, zipped, media_type)
    if kind == "on one line":
        assert parse_result(answer) == (0, 0, [(0, "no_path")])
    else:
        assert answer.status_code == 413
    tracemalloc.start()
    try:
        with suppress(RequestTooLarge):
            parse_events(headers, zipped)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * MAX_UNPACKED_BYTES, "the body itself, and little else"


def test_largest_allowed_array_is_accepted(fresh: Service) -> None:
    """With every field, and more commas than any browser has in its name."""
    whole = {
        "method": "GET",
        "status": 200,
        "referrer": "https://www.example.org/?a=b,c",
        "accept": "a, b, c, d",
        "visitorId": "42",
        "timestamp": "2026-11-15T03:02:27Z",
        "userAgent": "Mozilla/5.0 (a, b; c, d) " + "x, " * 30,
    }
    sent = [{**PAGE, **whole, "eventId": str(number)} for number in range(MAX_EVENTS)]
    accepted, duplicates, dropped = parse_result(send_events(fresh, json.dumps(sent)))
    assert accepted + duplicates + len(dropped) == MAX_EVENTS
