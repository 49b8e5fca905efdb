"""Arbitrary bytes become views or drop reasons, never an error; valid lines are parsed exactly."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.analytics.log_import.formats import FORMATS
from copydesk.analytics.log_import.line_converter import ImportRequest, LineConverter
from copydesk.analytics.log_import.log_line import LogLine, parse_log_time
from copydesk.analytics.page_view import Dropped, PageView
from tests.analytics.log_import.examples import CADDY, FIELDS, LOGS

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
BYTES = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b""))
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def parse_and_convert(name: str, data: bytes, job: ImportRequest) -> list[PageView | Dropped]:
    judge, text = LineConverter(job), data.decode("utf-8", "surrogateescape")
    known = FORMATS[name]()
    known.is_complete(text)
    found = list(known.parse_lines(text))
    assert len(found) == text.count("\n") + 1
    return [judge.convert(line) if isinstance(line, LogLine) else line for line in found if line is not None]


@pytest.mark.parametrize("name", FORMATS)
@SHARED
@given(st.binary(max_size=200))
def test_any_bytes_become_views_or_drop_reasons(name: str, job: Callable[..., ImportRequest], data: bytes) -> None:
    assert all(isinstance(outcome, PageView | Dropped) for outcome in parse_and_convert(name, data, job()))


@pytest.mark.parametrize("example", LOGS)
@SHARED
@given(st.data())
def test_damaged_line_becomes_a_view_or_a_drop_reason(
    example: str, job: Callable[..., ImportRequest], data: st.DataObject
) -> None:
    line = LOGS[example].encode()
    at = data.draw(st.integers(0, len(line)))
    until = data.draw(st.integers(at, min(len(line), at + 60)))
    damaged = line[:at] + data.draw(BYTES) + line[until:]
    found = parse_and_convert(example.partition(",")[0], damaged, job())
    assert all(isinstance(outcome, PageView | Dropped) for outcome in found)
    for view in found:
        if isinstance(view, PageView):
            json.dumps([view.path, view.host, view.referrer]).encode()
            assert view.event is not None


@pytest.mark.parametrize("example", [name for name in LOGS if LOGS[name].startswith("{")])
@SHARED
@given(st.data())
def test_any_field_value_becomes_a_view_or_a_drop_reason(
    example: str, job: Callable[..., ImportRequest], data: st.DataObject
) -> None:
    record = json.loads(LOGS[example])
    within = record["request"] if "request" in record and data.draw(st.booleans()) else record
    if isinstance(within, dict):
        within[data.draw(st.sampled_from(sorted(within)))] = data.draw(VALUE)
    found = parse_and_convert(example.partition(",")[0], json.dumps(record).encode(), job())
    assert all(isinstance(outcome, PageView | Dropped) for outcome in found)


WHEN = st.datetimes(datetime(2000, 1, 2), datetime(2026, 1, 1))  # noqa: DTZ001 - a zone is drawn for it
ZONE = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
ADDRESS = st.ip_addresses().map(str)
PATH = st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=30).map(lambda path: f"/{path}")
METHOD = st.sampled_from(["GET", "HEAD", "POST", "PROPFIND"])
STATUS = st.integers(100, 599).map(str)


def escape_like_nginx(text: str) -> str:
    """Escapes as nginx does: quotes, backslashes and bytes that are not printable ASCII as \\xHH."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02X}" for byte in text.encode())
    return "".join(plain)


def escape_like_apache(text: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\v": "\\v", "\b": "\\b", "\f": "\\f"}
    return "".join(short.get(c) or (c if c.isascii() and c.isprintable() else escape_like_nginx(c)) for c in text)


@given(
    *(ADDRESS, WHEN, ZONE, METHOD, PATH, STATUS, TEXT, TEXT),
    st.sampled_from([escape_like_nginx, escape_like_apache]),
    st.sampled_from(["HTTP/1.1", "HTTP/2.0", "HTTP/3"]),
    st.sampled_from(["", ' "-"', ' 0.004 "x y" z']),
)
@pytest.mark.deep
def test_fields_of_a_combined_line_are_parsed(
    address: str,
    naive: datetime,
    zone: timezone,
    method: str,
    path: str,
    status: str,
    referrer: str,
    agent: str,
    escaped: Callable[[str], str],
    version: str,
    more: str,
) -> None:
    when = naive.replace(microsecond=0, tzinfo=zone)
    stamp = when.strftime("%d/%b/%Y:%H:%M:%S %z")
    request = f"{method} {escaped(path)} {version}"
    text = f'{address} - ada [{stamp}] "{request}" {status} - "{escaped(referrer)}" "{escaped(agent)}"{more}'
    for name, log in (("combined", text), ("vhost", f"docs.example.com:443 {text}")):
        [line] = FORMATS[name]().parse_lines(log)
        assert isinstance(line, LogLine)
        assert (line.text, line.address, line.method, line.url, line.status) == (log, address, method, path, status)
        assert (line.referrer, line.user_agent) == (referrer, agent)
        assert parse_log_time(line.time) == when.timestamp() * 1000
        assert line.host == ("docs.example.com:443" if name == "vhost" else "")
    [short] = FORMATS["common"]().parse_lines(text.partition(' - "')[0] + " -")
    assert isinstance(short, LogLine)
    assert (short.url, short.user_agent) == (path, "")


@given(ADDRESS, WHEN, METHOD, PATH, STATUS, TEXT, TEXT)
@pytest.mark.deep
def test_fields_of_a_json_record_are_parsed(
    address: str, naive: datetime, method: str, path: str, status: str, referrer: str, agent: str
) -> None:
    when = naive.replace(tzinfo=UTC)
    request = {"client_ip": address, "method": method, "uri": path, "host": "docs.example.com"}
    headers = {"User-Agent": [agent], "Referer": [referrer]}
    records: dict[str, dict[str, Any]] = {
        "caddy": {**CADDY, "ts": when.timestamp(), "status": int(status), "request": {**request, "headers": headers}},
        "cloudflare": {
            "ClientIP": address,
            "ClientRequestHost": "docs.example.com",
            "ClientRequestMethod": method,
            "ClientRequestURI": path,
            "ClientRequestReferer": referrer,
            "ClientRequestUserAgent": agent,
            "EdgeResponseStatus": int(status),
            "EdgeStartTimestamp": when.isoformat().replace("+00:00", "Z"),
        },
        "jsonl": {
            "ip": address,
            "host": "docs.example.com",
            "method": method,
            "path": path,
            "referrer": referrer,
            "userAgent": agent,
            "status": status,
            "timestamp": when.timestamp(),
        },
    }
    for name, record in records.items():
        [line] = FORMATS[name]().parse_lines(json.dumps(record))
        assert isinstance(line, LogLine), (name, line)
        assert (line.address, line.method, line.url, line.status) == (address, method, path, status)
        assert (line.host, line.referrer, line.user_agent) == ("docs.example.com", referrer, agent)
        assert abs((parse_log_time(line.time) or 0) - when.timestamp() * 1000) <= 1


@given(ADDRESS, WHEN, METHOD, STATUS, st.text(st.characters(codec="utf-8", exclude_characters="%"), max_size=30))
@pytest.mark.deep
def test_fields_of_a_cloudfront_line_are_parsed(
    address: str, naive: datetime, method: str, status: str, agent: str
) -> None:
    encoded = "".join(f"%{byte:02X}" if byte <= 32 or byte >= 127 else chr(byte) for byte in agent.encode()) or "-"
    told = {
        "date": f"{naive:%Y-%m-%d}",
        "time": f"{naive:%H:%M:%S}",
        "c-ip": address,
        "cs-method": method,
        "cs-uri-stem": "/a",
        "sc-status": status,
        "cs(User-Agent)": encoded,
    }
    values = "\t".join(told.get(field, "-") for field in FIELDS.split())
    _, line = FORMATS["cloudfront"]().parse_lines(f"#Fields: {FIELDS}\n{values}")
    assert isinstance(line, LogLine)
    assert (line.address, line.method, line.url, line.status) == (address, method, "/a", status)
    assert line.user_agent == ("" if agent == "-" else agent)
    assert parse_log_time(line.time) == naive.replace(microsecond=0, tzinfo=UTC).timestamp() * 1000
