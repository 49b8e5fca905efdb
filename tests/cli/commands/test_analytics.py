"""copydesk analytics: reports over the API, and maintenance of the store."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.analytics.classification.ip_ranges import format_range_lists, load_shipped_lists, parse_range_lists
from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.cli import app
from copydesk.core.audit_log import list_entries
from copydesk.core.clock import DAY
from tests.support.filled_service import ARABIC_TEXT, add_stale_pages
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

Run = Callable[..., Result]
FIRST = (date(2026, 3, 1) - date(1970, 1, 1)).days


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("analytics")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Configures the command line for a project of three pages: /a has three visitors, /b two, /c one."""
    site = running.another_project()
    monkeypatch.setenv("COPYDESK_DATA", str(site.desk.settings.data))
    monkeypatch.setenv("COPYDESK_URL", site.url)
    monkeypatch.setenv("COPYDESK_API_KEY", site.key)
    monkeypatch.setenv("COPYDESK_PROJECT", site.project.id)
    pages = (("/a", (1, 2, 3)), ("/b", (1, 2)), ("/c", (1,)))
    site.desk.store.log_views([make_view(site, path, visitor) for path, visitors in pages for visitor in visitors])
    return site


def make_view(site: Service, path: str, visitor: int | None, on: int = FIRST) -> PageView:
    return PageView(
        site.project.id, path, on * DAY, VisitorClass.HUMAN, "Browser", "", "test", "1", visitor, "", "", 200, None
    )


@pytest.fixture
def run() -> Run:
    return lambda *arguments, **options: CliRunner().invoke(app, ("analytics", *arguments), **options)  # type: ignore[return-value]


def parse_output(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def output_lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.deep
def test_piped_reports_are_tab_separated(site: Service, run: Run) -> None:
    shown = run("visitors")
    assert output_lines(shown) == ["/a\t3\t0\t3", "/b\t2\t0\t2", "/c\t1\t0\t1"]
    assert "Whole site: human 3, ai 0, total 3" in shown.stderr
    assert output_lines(run("views", "--limit", "1", "--offset", "1")) == ["/b\t2\t0\t2"]
    assert output_lines(run("agents")) == ["Browser\t\thuman\t3\t6"]
    assert output_lines(run("timeseries", "--interval", "month")) == ["2026-03-01\t3\t0\t3\t6\t0\t6"]
    assert output_lines(run("visitors", "--from", "2026-03-02")) == []


@pytest.mark.deep
def test_reports_are_tables_in_a_terminal(site: Service, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    result = run("visitors")
    assert result.exit_code == 0
    assert all(word in result.stdout for word in ("\x1b[1mpath", "human", "ai", "total", "/a"))


@pytest.mark.deep
def test_visitors_without_rows_name_the_report_of_other_clients(site: Service, run: Run) -> None:
    crawler = make_view(site, "/a", 9, FIRST + 40)._replace(kind=VisitorClass.OTHER)
    site.desk.store.log_views([crawler])
    hint = "'copydesk analytics agents' lists them."
    assert hint in run("visitors", "--from", "2026-04-01", "--to", "2026-04-30").stderr
    assert hint not in run("visitors", "--from", "2026-06-01", "--to", "2026-06-30").stderr
    assert hint not in run("visitors").stderr


def test_output_says_when_there_are_more_rows_and_all_prints_every_row(site: Service, run: Run) -> None:
    some = run("visitors", "--limit", "2")
    assert len(output_lines(some)) == 2
    assert "For more rows, add --offset 2" in some.stderr
    assert len(output_lines(run("visitors", "--limit", "1", "--all"))) == 3
    whole = parse_output(run("visitors", "--all", "--offset", "1", "--json"))
    assert ([row["path"] for row in whole["visitors"]], whole["hasMore"]) == (["/b", "/c"], False)
    assert whole["totals"]["total"] == 3


def log_missing(site: Service) -> None:
    views = [make_view(site, "/gone", visitor)._replace(status=404, referrer="/a") for visitor in (1, 2)]
    site.desk.store.log_views([*views, make_view(site, "/=1", 1)._replace(status=410)])


def test_missing_pages_are_printed_with_where_they_came_from(site: Service, run: Run) -> None:
    log_missing(site)
    assert (
        output_lines(run("missing"))
        == [
            "/=1\t1\t0\t1\t1\t2026-03-01T00:00:00.000Z\t",
            "/gone\t2\t0\t2\t2\t2026-03-01T00:00:00.000Z\t/a 2",
        ][::-1]
    )
    assert output_lines(run("missing", "--from", "2026-03-02")) == []
    assert output_lines(run("visitors", "--limit", "1")) == ["/a\t3\t0\t3"]


@pytest.mark.deep
def test_all_sections_are_printed_in_several_requests(site: Service, run: Run) -> None:
    views = [make_view(site, f"/section-{number}/page", number + 1) for number in range(260)]
    site.desk.store.log_views(views)
    some = run("sections", "--limit", "2")
    assert len(output_lines(some)) == 2
    assert "For more rows, add --offset 2" in some.stderr
    whole = parse_output(run("sections", "--all", "--json"))
    names = [row["section"] for row in whole["sections"]]
    assert len(names) == len(set(names)) > 260
    assert whole["hasMore"] is False
    assert len(output_lines(run("sections", "--all", "--offset", "250"))) == len(names) - 250


@pytest.mark.deep
def test_stale_pages_are_printed_with_their_age(site: Service, run: Run) -> None:
    first = run("stale")
    assert output_lines(first) == []
    assert "Not compared yet. A comparison is running." in first.stderr
    add_stale_pages(site)
    done = run("stale")
    path, readers, _, sources = output_lines(done)[1].split("\t")
    assert (path, readers) == (f"/{ARABIC_TEXT.replace(' ', '-')}", "1234")
    assert f"src/{ARABIC_TEXT}.py in {ARABIC_TEXT} ({ARABIC_TEXT}, --flag)" in sources
    assert "The history was too long to read all of it" in done.stderr
    assert len(parse_output(run("stale", "--json"))["stale"]) == 2
    assert len(output_lines(run("stale", "--limit", "1", "--all"))) == 2
    assert len(output_lines(run("stale", "--limit", "1"))) == 1
    site.desk.stale_pages.reports.request(site.project.id, 0)
    assert "A comparison is running" in run("stale", "--refresh").stderr


@pytest.mark.deep
def test_json_and_csv_match_the_api(site: Service, run: Run) -> None:
    log_missing(site)
    for report in ("visitors", "views", "agents", "referrers", "sections", "missing", "stale", "timeseries"):
        address = f"/v1/analytics/{site.project.id}/{report}"
        assert parse_output(run(report, "--json")) == site.http.get(address).json()
        csv = site.http.get(address, headers={"Accept": "text/csv"}).text
        assert run(report, "--csv").stdout.splitlines() == csv.splitlines()


def test_feedback_is_listed_and_summed(site: Service, run: Run) -> None:
    site.desk.feedback.add(site.project.id, "/a", True, "two\nlines", FIRST * DAY)
    site.desk.feedback.add(site.project.id, "/a", False, None, FIRST * DAY)
    assert output_lines(run("feedback")) == [
        "2026-03-01T00:00:00.000Z\t/a\tthumbs_only\tpending\tno\t",
        "2026-03-01T00:00:00.000Z\t/a\tcontextual\tpending\tyes\ttwo lines",
    ]
    assert output_lines(run("feedback", "--by-page")) == ["/a\t1\t1\t0\t2"]
    assert len(parse_output(run("feedback", "--limit", "1", "--json"))) == 1
    assert parse_output(run("feedback", "--to", "2026-02-28", "--json")) == []
    assert len(parse_output(run("feedback", "--to", "2026-03-01", "--json"))) == 2


@pytest.mark.deep
@pytest.mark.parametrize("report", ["visitors", "views", "agents", "timeseries", "feedback"])
def test_both_days_of_a_range_are_included(site: Service, run: Run, report: str) -> None:
    site.desk.feedback.add(site.project.id, "/a", True, None, FIRST * DAY)
    for days in (("--from", "2026-03-01", "--to", "2026-03-01"), ("--to", "2026-03-01T23:59Z"), ("--to", "9999-12-31")):
        assert output_lines(run(report, *days)), days
    for days in (("--to", "2026-02-28"), ("--from", "2026-03-02"), ("--from", "", "--to", "0001-01-01")):
        assert output_lines(run(report, *days)) == [], days


@pytest.mark.parametrize("report", ["visitors", "timeseries", "feedback"])
def test_a_range_without_a_day_is_an_error(site: Service, run: Run, report: str) -> None:
    refused = run(report, "--from", "2026-03-02", "--to", "2026-03-01")
    assert refused.exit_code == 1
    assert "--from 2026-03-02 is after --to 2026-03-01" in str(refused.exception)
    assert "--to must be a date" in str(run(report, "--to", "soon").exception)


@pytest.mark.parametrize(
    "wrong", [("visitors", "--limit", "0"), ("visitors", "--limit", "251"), ("timeseries", "--interval", "year")]
)
def test_wrong_usage_exits_with_2(run: Run, wrong: tuple[str, ...]) -> None:
    assert run(*wrong).exit_code == 2


@pytest.mark.deep
def test_a_rebuilt_index_gives_the_same_numbers(site: Service, run: Run) -> None:
    before = parse_output(run("visitors", "--json"))
    assert "Rebuilt" in run("rebuild").stdout
    assert parse_output(run("visitors", "--json")) == before


@pytest.mark.deep
def test_deleting_analytics_of_a_project_asks_for_confirmation(site: Service, run: Run) -> None:
    site.desk.feedback.add(site.project.id, "/a", True, None, FIRST * DAY)
    kept = run("delete", input="n\n")
    assert kept.exit_code == 1
    assert len(output_lines(run("visitors"))) == 3
    assert "Deleted all views" in run("delete", "--yes").stdout
    assert output_lines(run("visitors")) == []
    assert output_lines(run("feedback")) == []
    assert list_entries(site.desk.database, site.project.id)[0]["action"] == "analytics.forgotten"


@pytest.mark.deep
def test_feedback_is_deleted_for_a_range_of_days(site: Service, run: Run) -> None:
    for number in range(3):
        site.desk.feedback.add(site.project.id, f"/{number}", True, None, (FIRST + number) * DAY)
    some = ("--from", format_day(FIRST + 1), "--to", format_day(FIRST + 1))
    assert run("delete", *some, "--yes").exit_code == 1, "which days of what?"
    assert run("delete", "--feedback", "--from", "soon", "--yes").exit_code == 1
    assert "Deleted 1 feedback entry." in run("delete", "--feedback", *some, "--yes").stdout
    assert [remark.path for remark in site.desk.feedback.list_entries(site.project.id)[0]] == ["/2", "/0"]
    assert "Deleted 2 feedback entries" in run("delete", "--feedback", "--yes").stdout
    assert len(output_lines(run("visitors"))) == 3
    assert list_entries(site.desk.database, site.project.id)[0]["action"] == "analytics.feedback_forgotten"


@pytest.mark.deep
def test_visitor_is_deleted_by_the_sites_own_id(site: Service, run: Run) -> None:
    """The visitor is found under lasting, daily and monthly keys."""
    for number, privacy in enumerate(("lasting", "daily", "monthly")):
        site.desk.projects.change(site.project.id, {"privacy": privacy}, actor="test")
        key = site.desk.sites.for_project(site.desk.projects.get(site.project.id)).hasher
        for day in (FIRST + number, FIRST + 40 + number):
            visitors = [key.hash_visitor(day * DAY, visitor_id, None, None) for visitor_id in ("ada", "grace")]
            site.desk.store.log_views([make_view(site, "/new", visitor, day) for visitor in visitors])
    assert "/new\t10\t0\t10" in output_lines(run("visitors")), "each is one visitor, two, and two"
    forgotten = run("delete", "--visitor-id", "ada", "--yes")
    assert forgotten.exit_code == 0, forgotten.output
    assert "/new\t5\t0\t5" in output_lines(run("visitors"))
    assert "/new\t12\t0\t12" in output_lines(run("views")), "the views stay, as nobody's"
    assert "ada" not in str(list_entries(site.desk.database, site.project.id))


@pytest.mark.deep
def test_backup_creates_a_new_file_that_opens_as_a_store(site: Service, run: Run, tmp_path: Path) -> None:
    from copydesk.analytics.stores.duckdb import DuckStore

    target = tmp_path / "copy.duckdb"
    expected = parse_output(run("visitors", "--json"))["totals"]["total"]
    assert str(target) in run("backup", str(target)).stdout
    copy = DuckStore(target)
    assert copy.count_visitors_by_page(site.project.id).totals.total == expected
    copy.close()
    assert run("backup", str(target)).exit_code == 1


@pytest.fixture
def publisher() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serves published lists from a dictionary."""
    published: dict[str, bytes] = {}

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = published.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any, **__: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", published
    server.shutdown()
    server.server_close()


@pytest.mark.deep
def test_ranges_are_refreshed_and_unavailable_ones_are_kept(
    run: Run, publisher: tuple[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, published = publisher
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}/list"
    before = {
        listed.name: replace(listed, source=f"{address}/{listed.name}", fetched="9998-01-01", page=False)
        for listed in load_shipped_lists()
    }
    good, bad, away, by_hand, *missing = before
    before[away] = replace(before[away], source=nowhere)
    before[by_hand] = replace(before[by_hand], page=True)
    (tmp_path / "ranges.json").write_text(format_range_lists(before.values()))
    published[f"/{good}"] = json.dumps({"prefixes": [{"ipv4Prefix": "198.51.100.0/24"}]}).encode()
    published[f"/{bad}"] = b"<html>"
    result = run("refresh-ranges", "--json")
    assert result.exit_code == 1
    assert {row["name"] for row in json.loads(result.stdout) if row["fault"]} == {bad, away, *missing}
    after = {listed.name: listed for listed in parse_range_lists((tmp_path / "ranges.json").read_text())}
    assert after.pop(good) == replace(
        before.pop(good), prefixes=("198.51.100.0/24",), fetched=datetime.now(UTC).date().isoformat()
    )
    assert after == before


def test_command_line_starts_without_opening_the_store() -> None:
    loaded = (
        "import sys, copydesk.cli; print([name for name in ('duckdb', 'fastapi', 'sqlalchemy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.deep
def test_deleting_a_visitor_deletes_what_the_visitor_sent(site: Service, run: Run) -> None:
    visitor = {"visitorId": "ada", "timestamp": "2026-03-05T10:00:00Z"}
    events = [
        {"path": "/a", **visitor},
        {"type": "search", "query": "install", **visitor},
        {"type": "search", "query": "theirs", "visitorId": "grace"},
        {"type": "assistant", "threadId": "t", "query": "How?", "response": "So.", **visitor},
        {"type": "feedback", "path": "/a", "helpful": True, **visitor},
    ]
    assert site.http.post(f"/v1/analytics/{site.project.id}/events", json=events).json()["accepted"] == 5
    assert run("delete", "--visitor-id", "ada", "--yes").exit_code == 0
    assert [row["searchQuery"] for row in parse_output(run("searches", "--json"))] == ["theirs"]
    assert site.desk.conversations.list_questions(site.project.id)[0] == []
    assert site.desk.feedback.list_entries(site.project.id)[0] == []
    assert run("delete", "--yes").exit_code == 0
    assert parse_output(run("searches", "--json")) == []


def test_searches_are_printed(site: Service, run: Run) -> None:
    at = FIRST * DAY
    site.desk.searches.add_all(site.project.id, [NewSearch("install", at, clicked="/a"), NewSearch("tea", at)])
    assert output_lines(run("searches")) == [
        "install\t1\t100.0\t/a\t2026-03-01T00:00:00.000Z",
        "tea\t1\t0.0\t\t2026-03-01T00:00:00.000Z",
    ]
    assert len(parse_output(run("searches", "--limit", "1", "--json"))) == 1
    day = ("--from", "2026-03-01", "--to", "2026-03-01", "--json")
    assert len(parse_output(run("searches", *day))) == 2, "both days are included"
