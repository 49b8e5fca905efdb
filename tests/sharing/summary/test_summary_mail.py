"""The text of a summary: the numbers of the API, the same facts in both forms, and nothing that a mail could abuse."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx2 as httpx
import pytest
from sqlalchemy import update

from copydesk.analytics.date_ranges import format_day
from copydesk.core import clock
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import jobs
from copydesk.sharing.summary.summary_mail import (
    SummaryText,
    build_sections,
    clean_line,
    describe_change,
    write_summary,
)
from copydesk.sharing.summary.week_report import WeekReport
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.readership.test_missing_pages import make_missing
from tests.web.dashboard.readership.test_pages import ASSISTANT, HOSTILE, TODAY, log_views, make_view

NOW = TODAY * clock.DAY + 8 * clock.HOUR
INJECTED = "/x\r\nBcc: eve@example.com\n\nVisitors: 1,000,000\u202e"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("summary")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def site(running: Service) -> Service:
    """Two weeks of views; /rising gains the most, /falling loses."""
    site = running.another_project(HOSTILE)
    log_views(
        site,
        *(make_view(site, "/rising", visitor, TODAY - 2) for visitor in range(1, 21)),
        *(make_view(site, "/rising", visitor, TODAY - 9) for visitor in range(1, 4)),
        *(make_view(site, "/falling", visitor, TODAY - 2) for visitor in range(1, 3)),
        *(make_view(site, "/falling", visitor, TODAY - 8) for visitor in range(1, 10)),
        *(make_view(site, "/first-day", visitor, TODAY - 7) for visitor in (1, 2)),
        make_view(site, "/today", 1, TODAY),
        make_view(site, "/rising", 99, TODAY - 1, ASSISTANT, "Reader"),
        make_view(site, HOSTILE, 5, TODAY - 1),
        make_view(site, INJECTED, 6, TODAY - 1),
        make_missing(site, "/gone", 5, day=TODAY - 3),
        make_missing(site, INJECTED, 5, day=TODAY - 3),
    )
    feedback = site.desk.feedback
    for helpful, day in ((True, 1), (True, 2), (False, 3), (True, 9)):
        feedback.add(site.project.id, "/rising", helpful, None, (TODAY - day) * clock.DAY)
    for number, (state, day) in enumerate((("merged", 2), ("merged", 9), ("open", 2), ("merged", 0))):
        job = site.desk.jobs.create(site.project, NewJob(f"Task {number}\nBcc: x")).job
        values = {
            "pull_state": state,
            "pr_link": f"https://example.org/pull/{number}",
            "archived_at": (TODAY - day) * clock.DAY,
        }
        with site.desk.database.write() as tx:
            tx.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
    return site


@pytest.fixture(scope="module")
def report(site: Service) -> WeekReport:
    return site.desk.sharing.summaries.build_report(site.project, NOW)


@pytest.fixture(scope="module")
def summary(report: WeekReport) -> SummaryText:
    return write_summary(report, "https://copydesk.example.org", "https://copydesk.example.org/unsubscribe/abc")


def test_numbers_are_those_of_the_api(site: Service, report: WeekReport) -> None:
    def get(name: str, first: int, end: int) -> dict[str, int]:
        query: dict[str, str] = {"dateFrom": format_day(first), "dateTo": format_day(end), "limit": "250"}
        totals: dict[str, int] = site.http.get(f"/v1/analytics/{site.project.id}/{name}", params=query).json()["totals"]
        return totals

    first, end = report.days.first, report.days.end
    assert (first, end) == (TODAY - 7, TODAY)
    assert vars(report.visitors) == get("visitors", first, end)
    assert vars(report.visitors_before) == get("visitors", first - 7, first)
    assert vars(report.views) == get("views", first, end)
    assert vars(report.views_before) == get("views", first - 7, first)
    query = {"dateFrom": format_day(first), "dateTo": format_day(end)}
    rows = site.http.get(f"/v1/analytics/{site.project.id}/visitors", params=query).json()["visitors"]
    assert [(row.path, row.count.total) for row in report.top_pages] == [(row["path"], row["total"]) for row in rows][
        :10
    ]
    missing = site.http.get(f"/v1/analytics/{site.project.id}/missing", params=query).json()["missing"]
    assert [(row.path, row.count.total) for row in report.missing] == [(row["path"], row["total"]) for row in missing]


def test_risers_feedback_and_merged_pull_requests_are_those_of_the_week(report: WeekReport) -> None:
    assert report.risers[0] == ("/rising", 21, 3)
    assert "/falling" not in [riser.path for riser in report.risers]
    assert report.feedback == (2, 1, 3)
    assert [(pull.link, report.merged_count) for pull in report.merged] == [("https://example.org/pull/0", 1)]


class TextCollector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts += [data.strip()] if data.strip() else []


def test_both_forms_have_the_same_facts(report: WeekReport, summary: SummaryText) -> None:
    page = TextCollector()
    page.feed(summary.html)
    for section in build_sections(report):
        assert section.title in summary.text
        assert section.title in page.texts
        for fact in section.facts:
            assert any(
                fact.label in line and fact.value in line and fact.note in line for line in summary.text.splitlines()
            )
            for part in (fact.label, fact.value, fact.note):
                assert not part or part in page.texts, part


def test_html_is_made_for_mail_programs(summary: SummaryText) -> None:
    page = TextCollector()
    page.feed(summary.html)
    assert page.tags <= {"html", "head", "meta", "title", "body", "table", "tr", "td", "th", "h1", "h2", "p", "a", "br"}
    assert not re.search(r"<(?:img|script|style|link|form)|style=\"[^\"]*url", summary.html)
    assert max(len(line) for line in summary.html.splitlines()) < 100_000
    assert len(summary.html) < 100_000, "some programs cut longer mails"
    for cell in re.findall(r"<(?:td|th)[^>]*style=\"([^\"]*)\"", summary.html):
        assert "color:" in cell or "padding:24px 8px" in cell, "text has a color of its own, also in dark programs"


def test_hostile_names_and_paths_stay_one_line_of_text(summary: SummaryText) -> None:
    assert HOSTILE not in summary.html
    assert "<script" not in summary.html
    assert "\n" not in summary.subject
    assert "\nBcc" not in summary.text
    assert "\nVisitors: 1,000,000" not in summary.text
    assert "\u202e" not in summary.text + summary.html
    assert clean_line("a\u2028b\tc\x00d") == "a b c d"
    assert len(clean_line("x" * 5000)) == 120


def test_empty_week_is_told_briefly(running: Service) -> None:
    site = running.another_project("Empty")
    report = site.desk.sharing.summaries.build_report(site.project, NOW)
    summary = write_summary(report, "https://copydesk.example.org", "")
    assert "0 visitors, no change" in summary.subject
    assert "Risers" not in summary.text
    assert "To stop these mails" not in summary.text


def test_changes_are_described() -> None:
    assert [describe_change(*pair) for pair in ((5, 5), (5, 0), (0, 4), (15, 10))] == [
        "no change",
        "new",
        "\N{MINUS SIGN}100.0%",
        "+50.0%",
    ]


def test_preview_shows_the_mail_in_a_sandbox(running: Service, site: Service) -> None:
    viewer = signed_in_client(running, "viewer")
    path = f"/projects/{site.project.id}/summary"
    answer = viewer.get(f"{path}/preview")
    assert "/rising" in answer.text
    assert "unsubscribe" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    assert "script-src" not in policy
    assert "Top pages" in viewer.get(f"{path}/preview?view=text").text


@pytest.mark.deep
def test_people_subscribe_on_the_dashboard_and_only_administrators_see_addresses(
    running: Service, site: Service
) -> None:
    path = f"/projects/{site.project.id}/summary"
    viewer, admin = signed_in_client(running, "viewer"), signed_in_client(running, "admin")
    headers = {"Origin": running.url}
    token = csrf_token_from_html(viewer.get(path).text)
    for action, shown in (("subscribe", "goes to viewer@example.org"), ("unsubscribe", "You do not get the summary")):
        answer = viewer.post(
            f"{path}/subscribe", data={"token": token, "action": action}, headers=headers, follow_redirects=True
        )
        assert shown in answer.text
    token = csrf_token_from_html(admin.get(path).text)
    for form, shown in (
        ({"email": "Ada@Example.org"}, "Added ada@example.org"),
        ({"email": "ada@example.org"}, "gets the summary already"),
        ({"email": "a@b\r\nBcc: x@y"}, "Enter an email address"),
    ):
        answer = admin.post(f"{path}/addresses", data={"token": token, **form}, headers=headers, follow_redirects=True)
        assert shown in answer.text
    saved = admin.post(
        f"{path}/timezone", data={"token": token, "timezone": "Asia/Tokyo"}, headers=headers, follow_redirects=True
    )
    assert "Mondays at 8:00, Asia/Tokyo" in saved.text
    assert "ada@example.org" in admin.get(path).text
    assert "ada@example.org" not in viewer.get(path).text
    assert "No mail server is configured" in viewer.get(path).text


def test_unsubscribe_link_needs_one_click_and_no_session(running: Service) -> None:
    site = running.another_project("Linked")
    subscribers = site.desk.sharing.subscriptions
    address = subscribers.add_address(site.project.id, "reader@example.org", actor="test")
    link = f"{running.url}/unsubscribe/{address.token}"
    opened = httpx.get(link, headers={"Accept": "text/html"}, timeout=60)
    assert opened.status_code == 200
    assert "<form" in opened.text
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert subscribers.find_by_token(address.token).ended_at is None, "scanners open every link"
    for body in ({"data": {"List-Unsubscribe": "One-Click"}}, {"files": {"List-Unsubscribe": (None, "One-Click")}}, {}):
        done = httpx.post(
            link, headers={"Accept": "text/html", "Origin": "https://mail.example.com"}, timeout=60, **body
        )
        assert done.status_code == 200
        assert "You are unsubscribed" in done.text
        assert "set-cookie" not in done.headers
    assert subscribers.find_by_token(address.token).ended_at is not None
    for wrong in ("x", "a" * 32, "%00", address.token[:-1]):
        for method in ("GET", "POST"):
            assert httpx.request(method, f"{running.url}/unsubscribe/{wrong}", timeout=60).status_code == 404
