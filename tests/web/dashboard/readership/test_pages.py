"""The readership pages, over real HTTP: the same figures as the API, for every role, safe with hostile input."""

import csv
import html
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import httpx2 as httpx
import pytest
from sqlalchemy import insert, update

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.automations.tables import automation_runs
from copydesk.core import clock
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import jobs
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

TODAY = clock.now() // clock.DAY
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
HUMAN, ASSISTANT, SEARCH = VisitorClass.HUMAN, VisitorClass.ASSISTANT, VisitorClass.SEARCH


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("readership")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def viewer(running: Service) -> httpx.Client:
    return signed_in_client(running, "viewer")


@pytest.fixture
def site(running: Service) -> Service:
    """A new, empty project."""
    return running.another_project()


@pytest.fixture(scope="module")
def filled_site(running: Service) -> Service:
    """Thirty pages; visitor 1 is a person and AI, 40 days ago there were two people, and a crawler came."""
    site = running.another_project("Read")
    log_views(
        site,
        *(make_view(site, f"/guide/{number:02}", visitor) for number in range(30) for visitor in range(1, 2 + number)),
        *(make_view(site, "/AI%_only", visitor, kind=ASSISTANT, agent="Reader") for visitor in (1, 101, 102)),
        *(make_view(site, "/old", visitor, TODAY - 40) for visitor in (1, 2)),
        make_view(site, "/old", 9, TODAY - 1, SEARCH, "Finder"),
    )
    return site


def make_view(
    site: Service,
    path: str,
    visitor: int,
    on: int = TODAY - 3,
    kind: VisitorClass = HUMAN,
    agent: str = "",
    rule: str = "r",
) -> PageView:
    at, operator = on * clock.DAY, agent and "Example"
    return PageView(site.project.id, path, at, kind, agent, operator, rule, "1", visitor, "", "", 200, None)


def log_views(site: Service, *views: PageView) -> None:
    site.desk.store.log_views(views)


def open_report(viewer: httpx.Client, site: Service, part: str = "", status: int = 200, **query: Any) -> str:
    asked = f"?{urlencode(query)}" if query else ""
    answer = viewer.get(f"/projects/{site.project.id}/readership{part}{asked}")
    assert answer.status_code == status, answer.text
    return answer.text


def find_tile(text: str, name: str) -> tuple[str, str]:
    """Returns its value and its change."""
    found = re.search(rf'id="tile-{name}">.*?class="value">(.*?)</dd><dd class="change">(.*?)</dd>', text, re.S)
    assert found, f"there is no tile {name}"
    return found[1], re.sub("<.*?>", "", found[2])


def parse_rows(text: str) -> list[tuple[str, ...]]:
    """Returns the rows of the table of pages: path, human, AI, total."""
    figures = r'<td class="figure">([\d,]+)</td>' * 3
    found = re.findall(rf'<tr><th scope="row" class="path" dir="auto"><a href="[^"]*">(.*?)</a></th>{figures}', text)
    return [(html.unescape(path), *counts) for path, *counts in found]


def parse_elements(text: str) -> list[tuple[str, dict[str, str | None]]]:
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(text)
    return found


def export_report(site: Service, report: str, **query: Any) -> Any:
    answer = site.http.get(f"/v1/analytics/{site.project.id}/{report}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def last_30_days() -> dict[str, str]:
    return {"dateFrom": format_day(TODAY - 29), "dateTo": format_day(TODAY + 1)}


@pytest.mark.deep
def test_tiles_show_the_api_totals_and_their_change(viewer: httpx.Client, filled_site: Service) -> None:
    text = open_report(viewer, filled_site)
    totals = export_report(filled_site, "visitors", **last_30_days())["totals"]
    assert totals == {"human": 30, "ai": 3, "total": 32}
    assert find_tile(text, "visitors") == ("32", "+1,500.0% from 2")
    assert find_tile(text, "human") == ("30", "+1,400.0% from 2")
    assert find_tile(text, "ai") == ("3", "new")
    assert find_tile(text, "share") == ("9.4%", "+9.4 points from 0.0%")
    views = export_report(filled_site, "views", **last_30_days())["totals"]["total"]
    assert find_tile(text, "views") == (f"{views:,}", "+23,300.0% from 2")


def test_all_time_has_no_comparison(viewer: httpx.Client, filled_site: Service) -> None:
    text = open_report(viewer, filled_site, range="all")
    assert find_tile(text, "visitors") == ("32", "no figure")
    assert "There is no earlier period" in text


@pytest.mark.deep
def test_accepted_view_is_on_the_page_immediately(viewer: httpx.Client, site: Service) -> None:
    today = clock.now() // clock.DAY  # midnight may have passed since TODAY was read
    for visitor in (1, 2):
        log_views(site, make_view(site, "/", visitor, today))
        assert find_tile(open_report(viewer, site, range="today"), "human")[0] == str(visitor)


def test_chart_and_table_match_the_timeseries(viewer: httpx.Client, filled_site: Service) -> None:
    text = open_report(viewer, filled_site, range="90d")
    assert text.count('<g class="point') == 90
    drawn = re.findall(r"<title>(.*?)\nHuman (\d+)\nAI (\d+)\nTotal (\d+)\nViews (\d+)</title>", text)
    listed = re.findall(
        r'<tr><th scope="row">(.*?)</th><td class="figure">(\d+)</td><td class="figure">(\d+)</td>'
        r'<td class="figure">(\d+)</td><td class="figure">(\d+)</td></tr>',
        text,
    )
    assert drawn == listed
    something = [tuple(map(int, counts)) for _, *counts in drawn if counts != ["0"] * 4]
    told = export_report(filled_site, "timeseries", dateFrom=format_day(TODAY - 89))["timeseries"]
    assert something == [(each["human"], each["ai"], each["total"], each["views"]["total"]) for each in told]
    assert text.count('tabindex="0"><title>') == 1


def test_one_day_is_drawn_by_hour(viewer: httpx.Client, site: Service) -> None:
    day = TODAY - 3
    at = {1: (0, 23), 2: (5,), 3: (5, 5)}
    log_views(
        site,
        *(
            make_view(site, "/", visitor, day)._replace(at=day * clock.DAY + hour * clock.HOUR)
            for visitor, hours in at.items()
            for hour in hours
        ),
        make_view(site, "/", 4, day - 1),
    )
    picked: dict[str, Any] = {"from": format_day(day), "to": format_day(day)}
    text = open_report(viewer, site, **picked)
    assert "Visitors by hour" in text
    humans = re.findall(r"\nHuman (\d)\n", text)
    assert humans == ["1", *"0" * 4, "2", *"0" * 17, "1"]
    assert (find_tile(text, "human"), find_tile(text, "views")[0]) == (("3", "+200.0% from 1"), "5")
    rows = open_report(viewer, site, "/timeseries.csv", **picked).splitlines()
    assert rows[1:] == [
        f"{format_day(day)}T00:00:00Z,1,0,1,1,0,1",
        f"{format_day(day)}T05:00:00Z,2,0,2,3,0,3",
        f"{format_day(day)}T23:00:00Z,1,0,1,1,0,1",
    ]
    assert "unfinished" not in text.partition("<figure")[2]


def test_today_is_compared_with_yesterday_until_the_same_time(viewer: httpx.Client, site: Service) -> None:
    now = clock.now()  # views a minute from now would be counted if midnight or that minute passed meanwhile
    seen = [(1, now), (2, now), (3, now - clock.DAY), (4, now - clock.DAY + clock.HOUR)]
    log_views(site, *(make_view(site, "/", visitor)._replace(at=at) for visitor, at in seen))
    text = open_report(viewer, site, range="today")
    if clock.today() == now // clock.DAY == (now + clock.HOUR) // clock.DAY:
        assert find_tile(text, "visitors") == ("2", "+100.0% from 1")
        assert "compared with yesterday until the same time" in text
        assert 'class="human unfinished"' in text
        assert text.count("(so far)") == 2, "the current hour, in the chart and in the table"
        assert text.count('<g class="point') == now % clock.DAY // clock.HOUR + 1, "future hours have no point"


def test_change_of_a_range_that_ends_today_leaves_today_out(viewer: httpx.Client, site: Service) -> None:
    today = clock.today()
    ago = [(1, 1), (2, 2), (3, 0), (4, 0), (5, 7), (6, 8)]
    log_views(site, *(make_view(site, "/", visitor, today - days) for visitor, days in ago))
    text = open_report(viewer, site, range="7d")
    if clock.today() == today:
        # Two people on complete days, against one on the day that is 8 days ago: 7 days ago is as unfinished as today.
        assert find_tile(text, "visitors") == ("4", "+100.0% from 1 to 2")
        assert "Today is incomplete, so the change leaves it out" in text
        assert text.count('class="point unfinished"') == 1


def test_day_whose_raw_views_are_deleted_is_drawn_with_the_preceding_days(viewer: httpx.Client, site: Service) -> None:
    log_views(
        site, *(make_view(site, "/", visitor, TODAY - ago) for visitor, ago in ((1, 3), (2, 4), (3, 16), (4, 17)))
    )
    site.desk.store.fold()
    site.desk.store.delete_raw_views(TODAY - 1)
    picked: dict[str, Any] = {"from": format_day(TODAY - 3), "to": format_day(TODAY - 3)}
    text = open_report(viewer, site, **picked)
    assert re.findall(r"\nHuman (\d)\n", text) == ["1", *"0" * 11, "1", "1"]
    assert "with the 13 days before" in text
    assert (find_tile(text, "human")[0], find_tile(text, "views")[0]) == ("1", "1")
    assert len(open_report(viewer, site, "/timeseries.csv", **picked).splitlines()) == 2


def test_merged_pull_requests_and_releases_are_marked_and_listed(viewer: httpx.Client, site: Service) -> None:
    desk, day = site.desk, TODAY - 3
    log_views(site, make_view(site, "/", 1, day))
    merged, pushed, still_open, older = (
        desk.jobs.create(site.project, NewJob(prompt)).job.id for prompt in (HOSTILE, "Pushed.", "Open.", "Older.")
    )
    at, link = day * clock.DAY + clock.HOUR, "https://forge.example.org/1"
    values: dict[str, dict[str, Any]] = {
        merged: {"status": "archived", "pull_state": "merged", "archived_at": at, "finished_at": 1, "pr_link": link},
        pushed: {"status": "archived", "pull_state": "merged", "archived_at": at + 40 * clock.DAY, "finished_at": at},
        still_open: {"status": "completed", "pull_state": "open", "finished_at": at, "pr_link": link},
        older: {"status": "archived", "pull_state": "merged", "archived_at": at - 60 * clock.DAY, "pr_link": link},
    }
    automation = desk.automations.create(site.project, {"kind": "broken_links"}, actor="test")
    trigger = {"text": "Released.", "type": "release", "tags": ["code v1.2"]}
    with desk.database.write() as tx:
        for job, changed in values.items():
            tx.execute(update(jobs).where(jobs.c.id == job).values(changed))
        for number, about in enumerate((trigger, {"text": "Monday", "type": "schedule"}, trigger)):
            run = {
                "id": f"arun_{site.project.id}{number}", "automation_id": automation.id, "key": str(number),
                "job_id": pushed, "message_id": "msg", "is_appended": False, "trigger": about, "fired_at": at + number,
                "ended_at_once": False, "cost_before": 0.0,
            }  # fmt: skip
            tx.execute(insert(automation_runs).values(run))
    text = open_report(viewer, site)
    listed = text.partition('id="changes-title"')[2].partition("</section>")[0]
    found = re.findall(r'(Merged|Released) <a [^>]*href="/projects/\w+/jobs/(\w+)">(.*?)</a>', listed)
    assert sorted(found) == sorted(
        [("Merged", merged, html.escape(HOSTILE, quote=True).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")),
         ("Merged", pushed, "Pushed."), ("Released", pushed, "code v1.2")]
    )  # fmt: skip
    assert re.findall(r"\nViews 1\nChanges (\d)</title>", text) == ["3"]
    assert "changes-title" not in open_report(viewer, site, range="yesterday")


@pytest.mark.parametrize("report", ["visitors", "views"])
@pytest.mark.parametrize(
    "query", [{"search": "GUIDE/1", "sort": "path"}, {"sort": "human", "order": "up"}, {"search": "nowhere"}]
)
def test_download_has_the_rows_of_the_table_in_its_order(
    viewer: httpx.Client, filled_site: Service, report: str, query: dict[str, Any]
) -> None:
    pages = [open_report(viewer, filled_site, page=page, **query) for page in (1, 2)]
    shown = [row[0] for text in pages for row in parse_rows(text)]
    link = re.search(rf'href="([^"]*/{report}\.csv[^"]*)"', pages[0])
    assert link
    answer = viewer.get(html.unescape(link[1]))
    rows = list(csv.reader(io.StringIO(answer.text)))[1:]
    assert [row[0] for row in rows] == shown
    if report == "visitors":
        assert [tuple(row) for row in rows] == [row for text in pages for row in parse_rows(text)]


@pytest.mark.deep
def test_pages_match_the_api_and_are_paginated(viewer: httpx.Client, filled_site: Service) -> None:
    told = export_report(filled_site, "visitors", **last_30_days(), limit=250)["visitors"]
    first, second = open_report(viewer, filled_site), open_report(viewer, filled_site, page=2)
    shown = parse_rows(first) + parse_rows(second)
    assert shown == [(each["path"], *(str(each[kind]) for kind in ("human", "ai", "total"))) for each in told]
    assert (len(parse_rows(first)), len(parse_rows(second))) == (25, 6)
    assert ('rel="next"' in first, 'rel="prev"' in first) == (True, False)
    assert ('rel="next"' in second, 'rel="prev"' in second) == (False, True)
    assert "No more rows" in open_report(viewer, filled_site, page=9)


@pytest.mark.parametrize(("query", "first"), [
    ({"sort": "ai"}, "/AI%_only"),
    ({"sort": "total"}, "/guide/29"),
    ({"sort": "human", "order": "up"}, "/AI%_only"),
    ({"sort": "path"}, "/AI%_only"),
    ({"sort": "path", "order": "down"}, "/guide/29"),
])  # fmt: skip
def test_the_pages_are_sorted_by_any_column(
    viewer: httpx.Client, filled_site: Service, query: dict[str, Any], first: str
) -> None:
    text = open_report(viewer, filled_site, **query)
    assert parse_rows(text)[0][0] == first
    assert text.count("aria-sort=") == 1


@pytest.mark.deep
def test_search_matches_parts_of_paths_and_keeps_range_and_order(viewer: httpx.Client, filled_site: Service) -> None:
    text = open_report(viewer, filled_site, range="7d", search="GUIDE/1", sort="path")
    assert [row[0] for row in parse_rows(text)] == [f"/guide/{number}" for number in range(10, 20)]
    assert find_tile(text, "human")[0] == "30"
    assert 'href="/projects/' + filled_site.project.id + "/readership?range=7d&amp;search=GUIDE%2F1&amp;sort=ai" in text
    assert [row[0] for row in parse_rows(open_report(viewer, filled_site, search="%_"))] == ["/AI%_only"]
    assert "No page with visitors" in open_report(viewer, filled_site, search="nowhere")
    assert "No page with visitors" in open_report(viewer, filled_site, search="\0")


def test_agents_of_every_class_are_listed_with_their_rules(viewer: httpx.Client, site: Service) -> None:
    log_views(
        site,
        *(
            make_view(site, "/", 1, kind=ASSISTANT, agent="Reader", rule=rule)
            for rule in ("token:reader", "range:example")
        ),
        make_view(site, "/", 2, kind=SEARCH, agent="Finder", rule="token:finder"),
        make_view(site, "/", 3, rule="browser"),
    )
    text = open_report(viewer, site, "/agents")
    lines = [re.sub("<.*?>", " ", line).split() for line in re.findall("<tr><th scope=.row.*?</tr>", text)]
    assert sorted(lines) == [
        ["Browsers", "–", "human", "Human", "1", "1", "browser"],
        ["Finder", "Example", "search", "not", "counted", "1", "1", "token:finder"],
        ["Reader", "Example", "assistant", "AI", "1", "2", "range:example", "token:reader"],
    ]
    assert "No visitors in this range" in open_report(viewer, site, "/agents", range="today")


def test_feedback_is_listed_by_page_and_newest_first(viewer: httpx.Client, site: Service) -> None:
    for number in range(30):
        site.desk.feedback.add(site.project.id, f"/{number % 2}", number % 3 == 0, f"Remark {number}.", clock.now())
    text = open_report(viewer, site, "/feedback")
    assert re.findall(r"Remark (\d+)\.", text) == [str(number) for number in range(29, 4, -1)]
    assert parse_rows(text) == [("/0", "5", "10", "15"), ("/1", "5", "10", "15")]
    earlier = re.search('href="([^"]*cursor=[^"]*)"', text)
    assert earlier
    rest = viewer.get(html.unescape(earlier[1])).text
    assert re.findall(r"Remark (\d+)\.", rest) == ["4", "3", "2", "1", "0"]
    assert "No feedback in this range" in open_report(viewer, site, "/feedback", range="yesterday")


def test_project_without_views_links_to_the_setup(viewer: httpx.Client, site: Service) -> None:
    text = open_report(viewer, site)
    assert "No data yet" in text
    assert f'href="/projects/{site.project.id}/start"' in text


def test_empty_range_of_a_project_with_views_says_so(viewer: httpx.Client, filled_site: Service) -> None:
    assert "No visitors in this range" in open_report(viewer, filled_site, range="yesterday")
    picked: dict[str, Any] = {"from": "2001-01-01", "to": "2001-01-02"}
    assert "No visitors in this range" in open_report(viewer, filled_site, **picked)


@pytest.mark.parametrize("report", ["visitors", "views", "agents", "timeseries"])
def test_download_is_the_api_csv_with_every_row(viewer: httpx.Client, filled_site: Service, report: str) -> None:
    answer = viewer.get(f"/projects/{filled_site.project.id}/readership/{report}.csv?range=30d")
    limit = {} if report == "timeseries" else {"limit": 250}
    told = filled_site.http.get(
        f"/v1/analytics/{filled_site.project.id}/{report}",
        params={**last_30_days(), **limit},
        headers={"Accept": "text/csv"},
    )
    assert (answer.text, answer.headers["content-type"]) == (told.text, told.headers["content-type"])
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{report}-')
    if report == "visitors":
        assert len(list(csv.reader(io.StringIO(answer.text)))) == 32


def test_too_large_download_is_refused_instead_of_truncated(
    viewer: httpx.Client, site: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_views(site, *(make_view(site, f"/{number}", 1) for number in range(3)))
    monkeypatch.setattr("copydesk.web.dashboard.readership.downloads.MAX_CSV_ROWS", 2)
    assert "more than 2 rows" in open_report(viewer, site, "/visitors.csv", 400)


@pytest.mark.parametrize("part", ["", "/agents", "/feedback", "/visitors.csv"])
@pytest.mark.parametrize("query", [
    {"range": "fortnight"},
    {"from": "2026-02-30", "to": "2026-03-01"},
    {"from": "2026-03-02", "to": "2026-03-01"},
    {"from": "0001-01-01", "to": "9999-12-31"},
    {"from": "1980-01-01", "to": "2026-01-01"},
    {"from": "٢٠٢٦-01-01", "to": HOSTILE},
])  # fmt: skip
def test_invalid_range_is_refused_with_a_message(
    viewer: httpx.Client, filled_site: Service, part: str, query: dict[str, Any]
) -> None:
    text = open_report(viewer, filled_site, part, 400, **query)
    assert re.search(r"(must be a date|Swap them|Pick days from|at most ten years|Unknown range)", text)
    assert "<script>alert" not in text
    assert "/guide/" not in text.replace("/docs/guide/", "")


@pytest.mark.parametrize("query", [
    {"sort": "views"}, {"order": "sideways"}, {"page": "0"}, {"page": "-1"}, {"page": "x"}, {"page": "9" * 40},
    {"page": "²"}, {"search": "x" * 201},
])  # fmt: skip
def test_invalid_table_parameters_are_refused_with_a_message(
    viewer: httpx.Client, filled_site: Service, query: dict[str, Any]
) -> None:
    assert 'role="alert"' in open_report(viewer, filled_site, status=400, **query)


def test_invalid_cursor_is_refused_with_a_message(viewer: httpx.Client, filled_site: Service) -> None:
    assert 'role="alert"' in open_report(viewer, filled_site, "/feedback", 400, cursor=HOSTILE)


@pytest.mark.deep
def test_visitor_text_is_escaped(viewer: httpx.Client, site: Service) -> None:
    path = f"/{HOSTILE}"
    log_views(site, make_view(site, path, 1, kind=ASSISTANT, agent=HOSTILE, rule=HOSTILE)._replace(referrer=HOSTILE))
    site.desk.feedback.add(site.project.id, path, None, HOSTILE, clock.now())
    for part in ("", "/agents", "/feedback"):
        text = open_report(viewer, site, part, search=HOSTILE)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        for tag, attributes in parse_elements(text):
            assert tag != "img"
            assert tag != "script" or "src" in attributes
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert parse_rows(open_report(viewer, site))[0][0] == path


def test_download_contains_no_spreadsheet_formulas(viewer: httpx.Client, site: Service) -> None:
    log_views(site, make_view(site, "/", 1, kind=ASSISTANT, agent="=HYPERLINK(0)"), make_view(site, "=1+1", 2))
    assert "\r\n'=HYPERLINK(0)," in open_report(viewer, site, "/agents.csv")
    assert "\r\n'=1+1," in open_report(viewer, site, "/visitors.csv")


@pytest.mark.deep
def test_views_of_another_project_never_appear(viewer: httpx.Client, filled_site: Service, site: Service) -> None:
    log_views(site, make_view(site, "/mine", 1, kind=ASSISTANT, agent="Mine"))
    filled_site.desk.feedback.add(filled_site.project.id, "/guide/secret", True, "Theirs.", clock.now())
    for part in ("", "/agents", "/feedback", *(f"/{name}.csv" for name in ("visitors", "views", "agents"))):
        text = open_report(viewer, site, part, range="all")
        assert not re.search("guide|Reader<|Finder|Theirs", text.replace("/docs/guide", ""))
    assert find_tile(open_report(viewer, site), "visitors")[0] == "1"


@pytest.mark.parametrize("part", ["", "/agents", "/feedback", "/visitors.csv"])
def test_reports_need_a_session_and_unknown_project_returns_404(
    viewer: httpx.Client, filled_site: Service, part: str
) -> None:
    stranger = httpx.get(
        f"{filled_site.url}/projects/{filled_site.project.id}/readership{part}",
        headers={"Accept": "text/html"},
        timeout=60,
    )
    assert stranger.status_code == 303
    assert stranger.headers["location"].startswith("/sign-in")
    assert viewer.get(f"/projects/proj_{'0' * 26}/readership{part}").status_code == 404
