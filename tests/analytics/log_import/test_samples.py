"""A log in each format gives the same two people, the same assistant, the right pages and the right day."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.formats import FORMATS, InvalidFieldMap, detect_format, parse_field_map
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import DayRange, Store
from copydesk.analytics.stores.report_rows import Counts
from tests.analytics.log_import.conftest import Imported, check_files
from tests.analytics.log_import.samples import (
    DAY,
    HEADERS,
    RENDERERS,
    REQUESTS,
    SAMPLES,
    WRAPPERS,
    Request,
    render_combined,
    render_log,
    render_traefik_text,
)

PAGES = {"/guide": Counts(human=2, ai=1, total=3), "/install": Counts(human=1, ai=0, total=1)}


@pytest.fixture
def read_views(job: Callable[..., ImportRequest], tmp_path: Path) -> Callable[..., list[PageView]]:
    """Writes a log, checks it, and returns its views."""

    def read(text: str, **options: object) -> list[PageView]:
        log = tmp_path / "a.log"
        log.write_text(text)
        request = job(log, **options)
        check_files(request)
        return [view for batch in read_batches(request) for view in batch.views if not view.is_missing]

    return read


@pytest.mark.deep
@pytest.mark.parametrize("name", SAMPLES)
def test_sample_gives_two_people_and_one_assistant(
    name: str, job: Callable[..., ImportRequest], run_import: Imported, store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_text(SAMPLES[name])
    [facts] = check_files(job(log))
    assert (facts.format, facts.wrapper, facts.malformed) == (name.partition(",")[0], "", 0)
    run_import(log)
    report = store.count_visitors_by_page("prj_1", DayRange(DAY, DAY + 1))
    assert report.totals == Counts(human=2, ai=1, total=3)
    assert {row.path: row.count for row in report.rows} == PAGES
    assert store.count_views_by_page("prj_1").totals == Counts(human=3, ai=1, total=4)
    missing = store.list_missing_pages("prj_1", DayRange(DAY, DAY + 1)).rows
    assert [(row.path, row.count, row.views) for row in missing] == [("/gone", Counts(human=1, ai=0, total=1), 1)]


def test_every_format_has_a_sample() -> None:
    assert {name.partition(",")[0] for name in SAMPLES} == FORMATS.keys() - {"common"}


@pytest.mark.deep
def test_a_visitor_is_the_same_in_every_sample(read_views: Callable[..., list[PageView]]) -> None:
    visitors = [{view.visitor for view in read_views(text)} for text in SAMPLES.values()]
    assert all(found == visitors[0] for found in visitors)
    assert len(visitors[0]) == 3


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", ["combined", "vhost", "caddy", "jsonl, nginx"])
def test_wrapped_lines_are_unwrapped(wrapper: str, name: str, read_views: Callable[..., list[PageView]]) -> None:
    plain = read_views(SAMPLES[name])
    wrapped_text = "".join(f"{WRAPPERS[wrapper](line)}\n" for line in SAMPLES[name].splitlines())
    detected = detect_format(wrapped_text, "a.log")
    assert (detected.name, detected.wrapper_name) == (name.partition(",")[0], wrapper.partition(",")[0])
    wrapped = read_views(wrapped_text)
    assert [view._replace(event=None) for view in wrapped] == [view._replace(event=None) for view in plain]


def test_parts_of_a_wrapped_line_are_joined(read_views: Callable[..., list[PageView]]) -> None:
    line = render_combined(REQUESTS[0])
    cri = f"2026-11-14T12:00:00Z stdout P {line[:90]}\n2026-11-14T12:00:00Z stdout F {line[90:]}\n"
    parts = [{"log": text, "stream": "stdout", "time": "x"} for text in (line[:90], f"{line[90:]}\n")]
    docker = "".join(f"{json.dumps(part)}\n" for part in parts)
    plain = read_views(f"{line}\n")
    for wrapped in (read_views(cri), read_views(docker)):
        assert [(view.path, view.visitor) for view in wrapped] == [(plain[0].path, plain[0].visitor)]


def test_chosen_format_is_unwrapped_too(read_views: Callable[..., list[PageView]]) -> None:
    text = "".join(f"{WRAPPERS['syslog'](line)}\n" for line in SAMPLES["combined"].splitlines())
    assert len(read_views(text, format="combined")) == 4


@pytest.mark.parametrize("first", SAMPLES)
@pytest.mark.parametrize("second", ["combined", "vhost", "caddy", "cloudfront", "w3c, IIS", "alb", "jsonl, nginx"])
def test_mixture_of_two_formats_is_parsed_line_by_line(
    first: str, second: str, read_views: Callable[..., list[PageView]]
) -> None:
    views = read_views(SAMPLES[first] + SAMPLES[second])
    assert len({view.visitor for view in views}) == 3
    assert len(views) == 8


def test_hops_without_a_peer_give_the_client(read_views: Callable[..., list[PageView]]) -> None:
    [direct] = read_views(f"{render_combined(REQUESTS[0])}\n")
    for hops in ("203.0.113.9, 10.0.0.7", "203.0.113.9,10.0.0.7", "10.1.1.1, 203.0.113.9, 10.0.0.7", "203.0.113.9:80"):
        line = render_combined(REQUESTS[0]).replace("203.0.113.9", hops, 1)
        assert [view.visitor for view in read_views(f"{line}\n")] == [direct.visitor], hops
    line = render_combined(REQUESTS[0]).replace("203.0.113.9", "192.0.2.1, 203.0.113.9, 198.51.100.99", 1)
    [behind_proxy] = read_views(f"{line}\n", proxies=("198.51.100.0/24",))
    assert behind_proxy.visitor == direct.visitor
    record = {"time": "2026-11-14T12:00:00Z", "uri": "/guide", "method": "GET", "status": 200, "x_forwarded_for": ""}
    record |= {"user_agent": REQUESTS[0].agent, "x_forwarded_for": "203.0.113.9, 10.0.0.7"}
    assert [view.visitor for view in read_views(f"{json.dumps(record)}\n")] == [direct.visitor]


def test_unquoted_hops_after_the_agent_are_read_behind_a_trusted_proxy(
    read_views: Callable[..., list[PageView]],
) -> None:
    [direct] = read_views(f"{render_combined(REQUESTS[0])}\n")
    proxied = render_combined(REQUESTS[0]).replace("203.0.113.9", "10.0.0.7", 1)
    for tail in ("203.0.113.9, 10.0.0.8 0.004", '"203.0.113.9, 10.0.0.8"', '"203.0.113.9"', "203.0.113.9"):
        assert [v.visitor for v in read_views(f"{proxied} {tail}\n", proxies=("10.0.0.0/8",))] == [direct.visitor], tail


def test_foreign_record_without_a_known_status_or_method_is_not_a_view(
    read_views: Callable[..., list[PageView]],
) -> None:
    record = {"time": "2026-11-14T12:00:00Z", "uri": "/gone", "remote_addr": "203.0.113.9", "user_agent": "Mozilla/5.0"}
    without_status, without_method = {**record, "method": "GET", "ergebnis": 404}, {**record, "status": 200}
    foreign = f"{json.dumps(without_status)}\n{json.dumps(without_method)}\n"
    assert len(read_views(SAMPLES["jsonl, nginx"] + foreign)) == 4


def make_record(request: Request) -> dict[str, object]:
    return {
        "wann": request.iso_time,
        "wer": {"ip": request.address, "agent": request.agent},
        "was": f"{request.method} {request.path} HTTP/1.1",
        "code": request.status,
    }


def test_fields_name_the_fields_of_any_json(read_views: Callable[..., list[PageView]]) -> None:
    text = "".join(f"{json.dumps(make_record(request))}\n" for request in REQUESTS)
    fields = parse_field_map("time=wann,address=wer.ip,agent=wer.agent,request=was,status=code")
    expected = {view.visitor for view in read_views(SAMPLES["combined"])}
    assert {view.visitor for view in read_views(text, field_map=fields)} == expected


@pytest.mark.parametrize(
    ("fields", "separator", "header"),
    [
        ("time=1,address=2,agent=3,method=4,url=5,status=6", "\t", ""),
        ("time=1,address=2,agent=3,method=4,url=5,status=6,delimiter=pipe", "|", ""),
        ("time=at,address=ip,agent=ua,method=verb,url=uri,status=code,delimiter=pipe", "|", "at|ip|ua|verb|uri|code\n"),
    ],
)
def test_fields_name_the_columns_of_any_text(
    fields: str, separator: str, header: str, read_views: Callable[..., list[PageView]]
) -> None:
    rows = [(r.iso_time, r.address, r.agent, r.method, r.path, str(r.status)) for r in REQUESTS]
    text = header + "".join(f"{separator.join(row)}\n" for row in rows)
    expected = {view.visitor for view in read_views(SAMPLES["combined"])}
    assert {view.visitor for view in read_views(text, field_map=parse_field_map(fields))} == expected


def test_columns_may_be_quoted_or_in_brackets(read_views: Callable[..., list[PageView]]) -> None:
    text = "".join(f'[{r.clf_time}] {r.address} {r.status} "{r.method} {r.path}" "{r.agent}"\n' for r in REQUESTS)
    fields = parse_field_map("time=1,address=2,status=3,request=4,agent=5")
    assert len(read_views(text, field_map=fields)) == 4


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("time=1,status=2", "needs at least time, status, and url or request"),
        ("time=1,status=2,url=3,colour=4", "'colour' is not a field"),
        ("time=1,status=,url=3", "status needs a name"),
        ("time=1,status=2,url=3,delimiter=x", "delimiter is one of"),
    ],
)
def test_invalid_fields_are_refused_in_one_sentence(fields: str, says: str) -> None:
    with pytest.raises(InvalidFieldMap, match=says):
        parse_field_map(fields)


def test_fields_after_the_user_agent_do_not_change_the_visitor(read_views: Callable[..., list[PageView]]) -> None:
    [plain] = read_views(f"{render_combined(REQUESTS[0])}\n")
    [more] = read_views(f"{render_traefik_text(REQUESTS[0])}\n", proxies=("203.0.113.0/24",))
    assert more.visitor == plain.visitor


def test_requests_of_one_second_are_separate_views(read_views: Callable[..., list[PageView]]) -> None:
    same = tuple(REQUESTS[0] for _ in range(3))
    assert len(read_views(render_log("combined", same))) == 3


def test_traefik_text_without_a_referrer_has_a_hyphen_without_quotes(read_views: Callable[..., list[PageView]]) -> None:
    [plain] = read_views(f"{render_combined(REQUESTS[0])}\n")
    line = render_traefik_text(REQUESTS[0]).replace(f'"{REQUESTS[0].referrer}"', "-", 1)
    assert [view.visitor for view in read_views(f"{line}\n")] == [plain.visitor]


def test_only_reading_an_object_of_s3_is_a_view(read_views: Callable[..., list[PageView]]) -> None:
    line = RENDERERS["s3"](REQUESTS[0])
    location = line.replace("WEBSITE.GET.OBJECT guide", "REST.GET.LOCATION -")
    first_version = line[: line.index(REQUESTS[0].agent) + len(REQUESTS[0].agent) + 1]
    assert [view.path for view in read_views(f"{line}\n{location}\n{first_version}\n")] == ["/guide", "/guide"]


def test_values_of_w3c_logs_may_be_quoted(read_views: Callable[..., list[PageView]]) -> None:
    [plain] = read_views(f"{render_combined(REQUESTS[0])}\n")
    line = RENDERERS["w3c, IIS"](REQUESTS[0])
    quoted = line.replace(REQUESTS[0].agent.replace(" ", "+"), f'"{REQUESTS[0].agent}"')
    assert quoted != line
    assert [view.visitor for view in read_views(f"{HEADERS['w3c, IIS']}{quoted}\n")] == [plain.visitor]


def test_azure_records_that_are_no_visits_are_skipped(read_views: Callable[..., list[PageView]]) -> None:
    record = json.loads(RENDERERS["azure, Front Door"](REQUESTS[0]))
    firewall = {**record, "category": "FrontDoorWebApplicationFirewallLog"}
    between_servers = {**record, "properties": {**record["properties"], "isReceivedFromClient": False}}
    older_agent = REQUESTS[0].agent.replace(" ", "+")
    older = {**record, "properties": {**record["properties"], "userAgent": older_agent}}
    text = "".join(f"{json.dumps(each)}\n" for each in (record, firewall, between_servers, older))
    views = read_views(text)
    assert len(views) == 2
    assert len({view.visitor for view in views}) == 1
