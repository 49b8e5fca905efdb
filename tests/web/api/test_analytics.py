"""The contract of the analytics export, over real HTTP."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_day
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.names import missing_paths
from copydesk.core.clock import DAY
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIRST = parse_day("2026-03-01")
REPORTS = ("visitors", "views", "agents", "timeseries")
HUMAN, ASSISTANT, SEARCH = VisitorClass.HUMAN, VisitorClass.ASSISTANT, VisitorClass.SEARCH


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("analytics")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service) -> Service:
    """A new, empty project."""
    return running.another_project()


@pytest.fixture(scope="module")
def week(running: Service) -> Service:
    """Visitor 1 is a person and, on another day, an assistant; 9 is a search engine; one view has no visitor."""
    site = running.another_project()
    log_week(site)
    return site


def make_view(
    site: Service, path: str, visitor: int | None, on: int = FIRST, kind: VisitorClass = HUMAN, agent: str = "Browser"
) -> PageView:
    operator = "" if kind is HUMAN else "Example"
    return PageView(site.project.id, path, on * DAY, kind, agent, operator, "test", "1", visitor, "", "", 200, None)


def log_views(site: Service, *views: PageView) -> None:
    site.desk.store.log_views(views)


def get_report(site: Service, report: str, query: str = "", **headers: str) -> httpx.Response:
    """Requests a report; the query is sent unchanged."""
    return site.http.get(f"/v1/analytics/{site.project.id}/{report}?{query}", headers=headers)


def get_report_data(site: Service, report: str, query: str = "") -> dict[str, Any]:
    answer = get_report(site, report, query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def expected_counts(human: int, ai: int, total: int) -> dict[str, int]:
    return {"human": human, "ai": ai, "total": total}


def log_week(site: Service) -> None:
    log_views(
        site,
        *(
            make_view(site, "/", 1, FIRST),
            make_view(site, "/", 1, FIRST),
            make_view(site, "/", 1, FIRST + 2, ASSISTANT, "Reader"),
        ),
        *(
            make_view(site, "/", 2, FIRST + 1),
            make_view(site, "/guide", 2, FIRST + 1),
            make_view(site, "/guide", None, FIRST + 6),
        ),
        *(make_view(site, "/guide", 9, FIRST + 3, SEARCH, "Finder"),),
    )


def test_visitors_are_counted_as_human_ai_and_total(week: Service) -> None:
    assert get_report_data(week, "visitors") == {
        "totals": expected_counts(2, 1, 2),
        "visitors": [{"path": "/", **expected_counts(2, 1, 2)}, {"path": "/guide", **expected_counts(1, 0, 1)}],
        "hasMore": False,
    }


def test_views_are_counted_as_human_ai_and_total(week: Service) -> None:
    assert get_report_data(week, "views") == {
        "totals": expected_counts(5, 1, 6),
        "views": [{"path": "/", **expected_counts(3, 1, 4)}, {"path": "/guide", **expected_counts(2, 0, 2)}],
        "hasMore": False,
    }


def test_agents_of_every_class_are_listed(week: Service) -> None:
    assert get_report_data(week, "agents") == {
        "agents": [
            {"agent": "Browser", "operator": None, "class": "human", "visitors": 2, "views": 5},
            {"agent": "Finder", "operator": "Example", "class": "search", "visitors": 1, "views": 1},
            {"agent": "Reader", "operator": "Example", "class": "assistant", "visitors": 1, "views": 1},
        ],
        "hasMore": False,
    }


def test_the_timeseries_counts_visitors_once_per_interval(week: Service) -> None:
    assert get_report_data(week, "timeseries") == {
        "interval": "day",
        "timeseries": [
            {"date": "2026-03-01", **expected_counts(1, 0, 1), "views": expected_counts(2, 0, 2)},
            {"date": "2026-03-02", **expected_counts(1, 0, 1), "views": expected_counts(2, 0, 2)},
            {"date": "2026-03-03", **expected_counts(0, 1, 1), "views": expected_counts(0, 1, 1)},
            {"date": "2026-03-07", **expected_counts(0, 0, 0), "views": expected_counts(1, 0, 1)},
        ],
    }
    assert get_report_data(week, "timeseries", "interval=week")["timeseries"] == [
        {"date": "2026-02-23", **expected_counts(1, 0, 1), "views": expected_counts(2, 0, 2)},
        {"date": "2026-03-02", **expected_counts(1, 1, 2), "views": expected_counts(3, 1, 4)},
    ]
    assert get_report_data(week, "timeseries", "interval=month&dateFrom=2026-03-02")["timeseries"] == [
        {"date": "2026-03-01", **expected_counts(1, 1, 2), "views": expected_counts(3, 1, 4)},
    ]


def test_hours_count_visitors_once_per_hour(week: Service) -> None:
    hours = get_report_data(week, "timeseries", "interval=hour&dateFrom=2026-03-01&dateTo=2026-03-08")
    assert hours["interval"] == "hour"
    days = get_report_data(week, "timeseries")["timeseries"]
    for day in days:
        of_day = [row for row in hours["timeseries"] if row["date"].startswith(day["date"])]
        assert sum(row["views"]["total"] for row in of_day) == day["views"]["total"]
    assert all(row["date"].endswith(":00:00Z") for row in hours["timeseries"])


@pytest.mark.parametrize("query", ["interval=hour", "interval=hour&dateFrom=2026-03-01&dateTo=2026-04-02"])
def test_hours_of_more_than_a_month_are_refused(week: Service, query: str) -> None:
    answer = get_report(week, "timeseries", query)
    assert answer.status_code == 400
    assert "at most 31 days" in answer.json()["error"]


def test_hours_whose_raw_views_were_deleted_are_refused(week: Service) -> None:
    week.desk.get_folded_store(week.project).delete_raw_views(20_520)
    answer = get_report(week, "timeseries", "interval=hour&dateFrom=2026-03-01&dateTo=2026-03-02")
    assert (answer.status_code, answer.json()["code"]) == (400, "raw_views_deleted")


def test_an_empty_project_has_empty_reports(running: Service) -> None:
    nothing = expected_counts(0, 0, 0)
    assert get_report_data(running, "visitors") == {"totals": nothing, "visitors": [], "hasMore": False}
    assert get_report_data(running, "views") == {"totals": nothing, "views": [], "hasMore": False}
    assert get_report_data(running, "agents") == {"agents": [], "hasMore": False}
    assert get_report_data(running, "timeseries") == {"interval": "day", "timeseries": []}


@pytest.mark.deep
def test_accepted_view_is_in_the_next_report(site: Service) -> None:
    for visitor in range(1, 4):
        log_views(site, make_view(site, "/", visitor))
        assert get_report_data(site, "visitors")["totals"]["total"] == visitor


MOMENTS = [
    *("2026-03-02", "2026-03-02T00:00:00Z", "2026-03-02T23:59:59.999999Z", "2026-03-02T10:00:00"),
    *("2026-03-02T00:00:00.123456+00:00", "2026-03-03T01:00:00+02:00", "2026-03-01T20:00:00-05:00"),
    "2026-03-02T12:00:00.5 00:00",
]


@pytest.mark.deep
def test_date_is_parsed_in_every_spelling(site: Service) -> None:
    log_views(site, *(make_view(site, f"/{n}", n, FIRST - 1 + n) for n in (1, 2, 3)))  # the first to the third of March
    spellings = {moment.replace(" ", "+") for moment in MOMENTS} | {quote(moment, safe="") for moment in MOMENTS}
    assert len(spellings) == 15
    for spelled in spellings:
        assert [row["path"] for row in get_report_data(site, "visitors", f"dateFrom={spelled}")["visitors"]] == [
            "/2",
            "/3",
        ]
        assert [row["path"] for row in get_report_data(site, "views", f"dateTo={spelled}")["views"]] == ["/1"]


@pytest.mark.parametrize(
    "query",
    [
        "dateFrom=2026-03-02&dateTo=2026-03-02",
        "dateFrom=2026-03-03&dateTo=2026-03-01",
        "dateFrom=9999-12-31",
        "dateFrom=9999-12-31T23:59:59-12:00",
        "dateTo=0001-01-01",
        "dateTo=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_empty_date_range_gives_an_empty_report(week: Service, query: str) -> None:
    for report in REPORTS:
        told = get_report_data(week, report, query)
        assert told[report] == []
        assert told.get("totals", expected_counts(0, 0, 0)) == expected_counts(0, 0, 0)


def test_first_and_last_years_of_the_calendar_are_accepted(week: Service) -> None:
    for report in REPORTS:
        assert get_report_data(week, report, "dateFrom=0001-01-01&dateTo=9999-12-31") == get_report_data(week, report)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("dateFrom=yesterday", ["dateFrom"]),
        ("dateTo=2026-02-30", ["dateTo"]),
        ("dateTo=1772323200", ["dateTo"]),
        ("dateFrom=%FF%00", ["dateFrom"]),
        ("limit=0", ["limit"]),
        ("limit=251", ["limit"]),
        ("limit=-1", ["limit"]),
        ("limit=ten", ["limit"]),
        ("limit=5.5", ["limit"]),
        ("limit=5e1", ["limit"]),
        ("limit=1_0", ["limit"]),
        ("limit=%2B5", ["limit"]),
        ("limit=٥", ["limit"]),
        ("offset=-1", ["offset"]),
        ("offset=1.5", ["offset"]),
        ("limit=0&offset=-1&dateFrom=x&dateTo=y", ["dateFrom", "dateTo", "limit", "offset"]),
    ],
)
def test_invalid_parameter_is_refused_with_its_name(running: Service, query: str, fields: list[str]) -> None:
    for report in ("visitors", "views", "agents"):
        answer = get_report(running, report, query)
        told = answer.json()
        assert (answer.status_code, told["code"]) == (400, "invalid_request")
        assert [detail["field"] for detail in told["details"]] == fields
        assert fields[0] in told["error"]
        if fields == ["limit"]:
            assert told["error"] == "limit: must be a whole number between 1 and 250."
        assert told["requestId"] == answer.headers["x-request-id"]


def test_an_interval_is_a_day_a_week_or_a_month(running: Service) -> None:
    answer = get_report(running, "timeseries", "interval=year")
    assert (answer.status_code, answer.json()["details"][0]["field"]) == (400, "interval")


@pytest.mark.deep
def test_has_more_is_exact(site: Service) -> None:
    log_views(site, *(make_view(site, f"/{n}", 1, agent=f"Agent {n}") for n in range(6)))
    for report in ("visitors", "views", "agents"):
        for limit in (1, 2, 3, 6, 7):
            for offset in (0, 3, 4, 5, 6):
                told = get_report_data(site, report, f"limit={limit}&offset={offset}")
                assert len(told[report]) == min(limit, max(0, 6 - offset))
                assert told["hasMore"] is (offset + limit < 6)


def test_totals_are_those_of_the_site_on_every_page_of_results(week: Service) -> None:
    for query in ("limit=1", "limit=1&offset=1", "offset=2", f"offset={10**30}", f"offset={1 << 63}"):
        assert get_report_data(week, "visitors", query)["totals"] == expected_counts(2, 1, 2)
        assert get_report_data(week, "views", query)["totals"] == expected_counts(5, 1, 6)


def test_equal_rows_are_in_the_order_of_code_points(site: Service) -> None:
    paths = ["/Z", "/_", "/a", "/a/b", "/z", "/é", "/文", "/😀"]
    log_views(
        site,
        *(make_view(site, path, 1) for path in reversed(paths)),
        make_view(site, "/most", 1),
        make_view(site, "/most", 2),
    )
    one_by_one = [get_report_data(site, "visitors", f"limit=1&offset={n}")["visitors"][0]["path"] for n in range(9)]
    assert one_by_one == ["/most", *paths]


def test_default_limit_is_50_and_maximum_250(site: Service) -> None:
    log_views(site, *(make_view(site, f"/{n}", 1) for n in range(251)))
    assert len(get_report_data(site, "visitors")["visitors"]) == 50
    largest = get_report_data(site, "visitors", "limit=250")
    assert (len(largest["visitors"]), largest["hasMore"]) == (250, True)


def test_counts_are_json_numbers_and_unknown_parameters_are_ignored(week: Service) -> None:
    answer = get_report(week, "visitors", "utm_source=x&page=3&DATEFROM=nonsense")
    assert answer.status_code == 200
    assert b'"totals":{"human":2,"ai":1,"total":2}' in answer.content
    assert answer.headers["content-type"] == "application/json"


def test_trailing_slash_returns_404_not_a_redirect(running: Service) -> None:
    for report in (*REPORTS, "feedback", "feedback/by-page"):
        assert get_report(running, report).status_code == 200
        assert get_report(running, f"{report}/").status_code == 404


def test_read_key_is_enough_but_not_of_another_project(site: Service, running: Service) -> None:
    address = f"{site.url}/v1/analytics/{site.project.id}/visitors"
    reader = site.new_key(scopes=["read"])
    assert httpx.get(address, headers={"Authorization": f"Bearer {reader}"}, timeout=60).status_code == 200
    assert httpx.get(address, timeout=60).status_code == 401
    refused = httpx.get(address, headers={"Authorization": f"Bearer {running.key}"}, timeout=60)
    assert (refused.status_code, refused.json()["code"]) == (404, "project_not_found")


def parse_csv(answer: httpx.Response) -> list[list[str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.content.decode(), newline="")))


@pytest.mark.deep
def test_csv_has_the_rows_of_the_json(site: Service) -> None:
    log_week(site)
    log_views(site, make_view(site, '/a,"b"', 3))
    for report, columns in (
        ("visitors", "path,human,ai,total"),
        ("views", "path,human,ai,total"),
        ("agents", "agent,operator,class,visitors,views"),
        ("timeseries", "date,human,ai,total,viewsHuman,viewsAi,viewsTotal"),
    ):
        answer = get_report(site, report, Accept="text/csv")
        header, *body = parse_csv(answer)
        assert header == columns.split(",")
        assert answer.content.endswith(b"\r\n")
        assert answer.headers["content-disposition"] == f'attachment; filename="{report}.csv"'
        told = get_report_data(site, report)[report]
        assert [row[:3] for row in body] == [
            ["" if cell is None else str(cell) for cell in list(row.values())[:3]] for row in told
        ]
        assert [row[-1] for row in body] == [
            str(last["total"] if isinstance(last := list(row.values())[-1], dict) else last) for row in told
        ]


def test_empty_csv_is_only_its_header(running: Service) -> None:
    assert parse_csv(get_report(running, "visitors", Accept="text/csv")) == [["path", "human", "ai", "total"]]


def test_csv_cells_are_never_formulas(site: Service) -> None:
    names = {"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1"}
    log_views(site, *(make_view(site, "/", 1, kind=ASSISTANT, agent=name) for name in names))
    assert {row[0] for row in parse_csv(get_report(site, "agents", Accept="text/csv"))[1:]} == {
        f"'{name}" for name in names
    }
    assert {row["agent"] for row in get_report_data(site, "agents")["agents"]} == names


@pytest.mark.parametrize(
    ("accept", "is_csv"),
    [
        ("text/csv", True),
        ("TEXT/CSV; header=present", True),
        ("text/csv, application/json;q=0.9", True),
        ("text/csv, */*", True),
        ("text/*", True),
        ("application/json;q=0, */*", True),
        ("text/csv;q=0.5, application/json", False),
        ("text/csv, application/json", False),
        ("text/csv;q=0", False),
        ("text/csv;q=nonsense", False),
        ("*/*", False),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", False),
        ("application/json", False),
        ("text/csvx", False),
        ("", False),
    ],
)
def test_csv_is_returned_when_preferred_by_accept(running: Service, accept: str, is_csv: bool) -> None:
    answer = get_report(running, "visitors", Accept=accept)
    assert answer.headers["content-type"].startswith("text/csv" if is_csv else "application/json")
    assert answer.headers["vary"] == "Accept"


def test_errors_are_json_for_any_accept_header(running: Service) -> None:
    answer = get_report(running, "visitors", "limit=0", Accept="text/csv")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
def test_link_header_leads_through_all_pages(site: Service, accept: str) -> None:
    log_views(site, *(make_view(site, f"/{n}", 1, FIRST + 1) for n in range(7)), make_view(site, "/before", 1))
    address = httpx.URL(f"{site.url}/v1/analytics/{site.project.id}/visitors")
    following: str | None = "?limit=3&dateFrom=2026-03-02T00:00:00%2B00:00"
    pages = []
    while following is not None:
        address = address.join(following)
        answer = site.http.get(address, headers={"Accept": accept})
        pages.append(len(parse_csv(answer)) - 1 if accept == "text/csv" else len(answer.json()["visitors"]))
        following = answer.links["next"]["url"] if "next" in answer.links else None
    assert pages == [3, 3, 1]


@pytest.mark.deep
def test_unchanged_report_returns_304(site: Service) -> None:
    log_week(site)
    for report in REPORTS:
        first = get_report(site, report)
        tag = first.headers["etag"]
        assert first.headers["cache-control"] == "private, no-cache"
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = get_report(site, report, **{"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
            assert again.headers["vary"] == "Accept"
        for other in ('"other"', tag.strip('"'), "", get_report(site, report, Accept="text/csv").headers["etag"]):
            assert get_report(site, report, **{"If-None-Match": other}).status_code == 200
    tags = {report: get_report(site, report).headers["etag"] for report in REPORTS}
    log_views(site, make_view(site, "/", 77, FIRST))
    for report, tag in tags.items():
        assert get_report(site, report, **{"If-None-Match": tag}).status_code == 200


def test_report_states_visitor_identification_and_ai_classes(site: Service) -> None:
    log_week(site)
    answer = get_report(site, "visitors")
    assert answer.headers["copydesk-visitor-key"] == "lasting"
    assert answer.headers["copydesk-ai-classes"] == "assistant"
    changed = {"privacy": "monthly", "ai_classes": "assistant,search"}
    site.desk.projects.change(site.project.id, changed, actor="test")
    answer = get_report(site, "visitors")
    assert answer.headers["copydesk-visitor-key"] == "monthly"
    assert answer.headers["copydesk-ai-classes"] == "assistant, search"
    assert answer.json()["totals"] == expected_counts(2, 2, 3)


@pytest.mark.deep
def test_exports_are_rate_limited_per_project(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False, exports_per_minute=3) as site:
        assert get_report(site, "visitors", "limit=0").status_code == 400
        left = [
            get_report(site, report).headers["ratelimit"].split(";")[:2] for report in ("visitors", "feedback", "views")
        ]
        assert left == [['"exports"', f"r={n}"] for n in (2, 1, 0)]
        refused = get_report(site, "agents")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["ratelimit-policy"] == '"exports";q=3;w=60'
        assert get_report(site.another_project(), "agents").status_code == 200


@pytest.mark.deep
def test_paginated_rows_equal_the_whole_report(site: Service) -> None:
    """Rows read in pages of any size equal the rows read at once."""
    views: Sequence[PageView] = [make_view(site, f"/{n * n % 23}", n % 7 + 1, FIRST + n % 5) for n in range(200)]
    log_views(site, *views)
    whole = get_report_data(site, "visitors", "limit=250&dateFrom=2026-03-02")["visitors"]
    for limit in (1, 4, 5, len(whole)):
        pieces, offset = [], 0
        while True:
            told = get_report_data(site, "visitors", f"limit={limit}&offset={offset}&dateFrom=2026-03-02")
            pieces += told["visitors"]
            offset += limit
            if not told["hasMore"]:
                break
        assert pieces == whole
    assert (
        len({row["path"] for row in whole}) == len(whole) == len({view.path for view in views if view.at > FIRST * DAY})
    )


def test_missing_pages_have_visitors_the_last_request_and_referrers(site: Service) -> None:
    gone = [
        make_view(site, "/gone", 1)._replace(status=404, referrer="/guide"),
        make_view(site, "/gone", 1, FIRST + 1)._replace(status=404, referrer="example.org"),
        make_view(site, "/gone", 2, FIRST + 1, ASSISTANT, "Reader")._replace(status=410, referrer="example.org"),
        make_view(site, "/a", None)._replace(status=404),
        make_view(site, "/crawled", 9, kind=SEARCH)._replace(status=404),
    ]
    log_views(site, make_view(site, "/", 1), *gone)
    report = get_report_data(site, "missing")
    assert report == {
        "missing": [
            {
                "path": "/gone",
                **expected_counts(1, 1, 2),
                "requests": 3,
                "lastSeenAt": "2026-03-02T00:00:00.000Z",
                "referrers": [{"referrer": "example.org", "requests": 2}, {"referrer": "/guide", "requests": 1}],
            },
            {
                "path": "/a",
                **expected_counts(0, 0, 0),
                "requests": 1,
                "lastSeenAt": "2026-03-01T00:00:00.000Z",
                "referrers": [],
            },
        ],
        "hasMore": False,
        "other": None,
    }
    assert get_report_data(site, "views")["totals"] == expected_counts(1, 0, 1)
    first_day = get_report_data(site, "missing", "dateFrom=2026-03-01&dateTo=2026-03-02&limit=1")
    assert (first_day["missing"][0]["total"], first_day["hasMore"]) == (1, True)
    assert get_report(site, "missing", "limit=1").headers["Link"] == '<?limit=1&offset=1>; rel="next"'
    assert get_report(site, "missing", "limit=251").status_code == 400
    assert get_report(site, "missing", Accept="text/csv").text.splitlines() == [
        "path,human,ai,total,requests,lastSeenAt,referrers",
        '/gone,1,1,2,3,2026-03-02T00:00:00.000Z,"example.org 2',
        '/guide 1"',
        "/a,0,0,0,1,2026-03-01T00:00:00.000Z,",
    ]


def test_missing_paths_beyond_the_limit_are_told(site: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_paths, "MAX_NEW_MISSING_PATHS_PER_DAY", 1)
    log_views(site, *(make_view(site, f"/{n}", n)._replace(status=404) for n in (1, 2, 3)))
    report = get_report_data(site, "missing")
    assert [row["path"] for row in report["missing"]] == ["/1"]
    assert report["other"] == {**expected_counts(2, 0, 2), "requests": 2}
