"""Each format is recognized, and the same request gives the same view in all formats."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.formats import FORMATS, UnknownLogFormat, detect_format
from copydesk.analytics.log_import.line_converter import ImportRequest, LineConverter
from copydesk.analytics.log_import.log_line import LogLine, parse_log_time
from copydesk.analytics.page_view import Dropped, DropReason, PageView, VisitorClass
from tests.analytics.log_import.examples import ADDRESS, AT, CADDY, CHROME, CLOUDFLARE, COMBINED, LOGS, NGINX, REQUEST


@pytest.fixture
def view(job: Callable[..., ImportRequest]) -> Callable[..., PageView | Dropped]:
    """Returns the view of a log's last line."""

    def convert_last_line(log: str, known: str = "", **options: object) -> PageView | Dropped:
        read = FORMATS[known]() if known else detect_format(log, "a.log")
        line = [found for found in read.parse_lines(log) if found][-1]
        return LineConverter(job(**options)).convert(line) if isinstance(line, LogLine) else line

    return convert_last_line


@pytest.mark.parametrize("name", LOGS)
def test_log_is_parsed_in_its_format(name: str, view: Callable[..., PageView | Dropped]) -> None:
    assert detect_format(LOGS[name], "a.log").name == name.partition(",")[0]
    found, agent = view(LOGS[name]), name != "common"
    assert isinstance(found, PageView)
    assert (found.path, found.at, found.status) == ("/guide", AT, 200)
    assert found.kind == (VisitorClass.HUMAN if agent else VisitorClass.OTHER)
    assert found.referrer == ("search.example.com" if agent else "")
    assert found.host == ("" if name.startswith("com") else "docs.example.com")


def test_a_visitor_is_the_same_in_every_format(view: Callable[..., PageView | Dropped]) -> None:
    found = [view(text) for name, text in LOGS.items() if name != "common"]
    assert len({one.visitor for one in found if isinstance(one, PageView)}) == 1


def test_unknown_format_error_names_the_formats_tried() -> None:
    with pytest.raises(UnknownLogFormat) as refused:
        detect_format("# A page\n\nOf text.\n", "README.md")
    assert all(name in str(refused.value) for name in ("README.md", "'# A page'", *FORMATS))


def test_format_detection_skips_damaged_lines_and_accepts_empty_logs() -> None:
    assert detect_format(f"\x00\x01 started\n\n{COMBINED}", "a.log").name == "combined"
    assert [found for found in detect_format("", "a.log").parse_lines("") if found] == []


@pytest.mark.parametrize(
    ("request_line", "reason"),
    [
        ("HEAD /guide HTTP/1.1", DropReason.NOT_GET),
        ("-", DropReason.NOT_GET),
        (r"\x16\x03\x01\x02", DropReason.NOT_GET),
        ("", DropReason.NOT_GET),
        ("GET /app.js?v=3 HTTP/1.1", DropReason.NOT_A_PAGE),
        (r"GET /%ff\xFF HTTP/1.1", DropReason.PATH_NOT_TEXT),
        (f"GET /{'a' * 9000} HTTP/1.1", DropReason.PATH_TOO_LONG),
    ],
)
def test_malformed_request_line_is_dropped_with_a_reason(
    request_line: str, reason: DropReason, view: Callable[..., PageView | Dropped]
) -> None:
    found = view(COMBINED.replace("GET /guide/?x=1 HTTP/2.0", request_line), "combined")
    assert isinstance(found, Dropped)
    assert found.reason is reason


@pytest.mark.parametrize(
    ("request_line", "path"),
    [
        ("GET /a HTTP/1.1", "/a"),
        ("GET /a", "/a"),
        ("GET /a b HTTP/1.0", "/a b"),
        (r"GET /\xC3\xA4 HTTP/1.1", "/ä"),
        (r"GET /say\x22hi\x22 HTTP/1.1", '/say"hi"'),
        (r"GET /say\"hi\" HTTP/1.1", '/say"hi"'),
        ("GET http://docs.example.com/a HTTP/1.1", "/a"),
        ("GET //a HTTP/3.0", "/a"),
    ],
)
def test_request_line_with_escapes_spaces_or_no_version_is_parsed(
    request_line: str, path: str, view: Callable[..., PageView | Dropped]
) -> None:
    found = view(COMBINED.replace("GET /guide/?x=1 HTTP/2.0", request_line))
    assert isinstance(found, PageView)
    assert found.path == path


def test_user_names_with_spaces_and_brackets_are_skipped(view: Callable[..., PageView | Dropped]) -> None:
    found = view(COMBINED.replace(" - - ", " - Ada [x] Lovelace "))
    assert isinstance(found, PageView)
    assert found.at == AT


@pytest.mark.parametrize(
    ("when", "at"),
    [
        ("14/Nov/2026:12:00:00 +0000", AT),
        ("14/Nov/2026:17:45:00 +0545", AT),
        ("14/Nov/2026:02:30:00 -0930", AT),
        ("2026-11-14T13:00:00+01:00", AT),
        ("31/Dec/2016:23:59:60 +0000", 1_483_228_800_000),
        ("29/Feb/2025:12:00:00 +0000", None),
        ("14/Nox/2026:12:00:00 +0000", None),
        ("14/Nov/2026:12:00:00 +9999", None),
        ("14/Nov/2026:1²:00:00 +0000", None),
        ("14/11/2026", None),
    ],
)
def test_times_are_parsed_in_every_time_zone(when: str, at: int | None) -> None:
    assert parse_log_time(when) == at


@pytest.mark.parametrize("line", ["garbage", f'{REQUEST} "-" "torn', COMBINED[:-1], '{"url": 7', "\x00"])
def test_line_of_another_format_is_malformed(line: str, view: Callable[..., PageView | Dropped]) -> None:
    assert view(line, "combined") == Dropped(DropReason.MALFORMED_LINE)


def test_caddy_headers_are_used_for_classification(view: Callable[..., PageView | Dropped]) -> None:
    def make_log(**request: object) -> str:
        return json.dumps({**CADDY, "request": {**CADDY["request"], **request}})  # type: ignore[dict-item]

    def make_log_with_headers(**sent: str) -> str:
        return make_log(headers={"User-Agent": [CHROME], **{k.replace("_", "-"): [v] for k, v in sent.items()}})

    assert view(make_log_with_headers(Sec_Purpose="prefetch;prerender"), "caddy") == Dropped(DropReason.PREFETCH)
    assert view(make_log_with_headers(Accept="image/avif"), "caddy") == Dropped(DropReason.NOT_A_PAGE)
    data = json.dumps({**CADDY, "resp_headers": {"Content-Type": ["application/json"]}})
    assert view(data, "caddy") == Dropped(DropReason.NOT_A_PAGE)
    markdown = view(make_log_with_headers(Accept="text/markdown"), "caddy")
    assert isinstance(markdown, PageView)
    assert (markdown.kind, markdown.rule) == (VisitorClass.ASSISTANT, "accept:markdown")
    assert view(json.dumps({**CADDY, "msg": "aborting with incomplete response"}), "caddy") == Dropped(
        DropReason.MALFORMED_LINE
    )


def test_internal_fetch_by_cloudflare_is_not_a_view(view: Callable[..., PageView | Dropped]) -> None:
    assert view(json.dumps({**CLOUDFLARE, "ClientRequestSource": "edgeWorkerFetch"})) == Dropped(DropReason.INTERNAL)
    assert isinstance(view(json.dumps({**CLOUDFLARE, "ClientRequestSource": "eyeball"})), PageView)


def test_cloudfront_fields_directive_may_change_and_lines_must_match_it(
    job: Callable[..., ImportRequest], tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)\n"
        f"2026-11-14\t12:00:00\t{ADDRESS}\tGET\t/a\t200\t{CHROME.replace(' ', '%2520')}\n"
        "2026-11-14\t12:00:01\ttoo short\n"
        "#Fields: cs-uri-stem c-ip date time sc-status cs-method\n"
        f"/b\t{ADDRESS}\t2026-11-14\t12:00:02\t200\tGET\n"
    )
    [batch] = read_batches(job(log))
    assert [(view.path, view.kind) for view in batch.views] == [("/a", VisitorClass.HUMAN), ("/b", VisitorClass.OTHER)]
    assert (batch.dropped, batch.samples) == (
        {DropReason.MALFORMED_LINE: 1},
        {DropReason.MALFORMED_LINE: f"{log}:4"},
    )


@pytest.mark.parametrize(
    ("field", "value"), [("status", "2000"), ("status", True), ("userAgent", 7), ("eventId", []), ("ip", "1" * 300)]
)
def test_field_of_wrong_type_is_dropped_with_a_reason(
    field: str, value: object, view: Callable[..., PageView | Dropped]
) -> None:
    found = view(json.dumps({"path": "/a", "timestamp": AT, field: value}), "jsonl")
    assert isinstance(found, Dropped)
    assert found.reason is DropReason.BAD_FIELD


def test_record_without_path_or_time_is_dropped_with_a_reason(view: Callable[..., PageView | Dropped]) -> None:
    assert view('{"timestamp": 1}', "jsonl") == Dropped(DropReason.NO_PATH)
    assert view('{"path": "/a", "timestamp": null}', "jsonl") == Dropped(DropReason.BAD_TIMESTAMP, "timestamp")
    assert isinstance(view(json.dumps({"url": None, "path": "/a", "timestamp": AT}), "jsonl"), PageView)


def test_only_requested_hosts_are_counted(view: Callable[..., PageView | Dropped]) -> None:
    hosts = frozenset({"docs.example.com"})
    for line in (LOGS["vhost"], LOGS["caddy"], LOGS["cloudfront"], LOGS["jsonl"], LOGS["jsonl, nginx"]):
        assert isinstance(view(line, hosts=hosts), PageView)
        assert view(line.replace("docs.example.com", "blog.example.com"), hosts=hosts) == Dropped(DropReason.OTHER_HOST)
    assert isinstance(view(COMBINED, hosts=hosts), PageView)


def test_forwarded_address_is_used_only_from_a_trusted_proxy(view: Callable[..., PageView | Dropped]) -> None:
    def visitor(line: str, *proxies: str) -> int | None:
        found = view(line, proxies=proxies)
        assert isinstance(found, PageView)
        return found.visitor

    proxied = COMBINED.replace(ADDRESS, "10.0.0.1")
    through = f'{proxied} "198.51.100.7, {ADDRESS}"'
    assert visitor(through, "10.0.0.0/8") == visitor(COMBINED)
    assert visitor(through) == visitor(proxied) != visitor(COMBINED)
    assert visitor(f'{proxied} "-" 0.004', "10.0.0.0/8") == visitor(proxied)
    record = json.dumps({**NGINX, "remote_addr": "10.0.0.1", "http_x_forwarded_for": ADDRESS})
    assert visitor(record, "10.0.0.0/8") == visitor(COMBINED)
