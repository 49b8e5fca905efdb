"""copydesk analytics import-history and remove-history, and how the API and the dashboard show the result."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.audit_log import list_entries
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.transfer.history.test_history_files import EVENTS, PAGES, SOURCES, VISITORS, make_zip, write


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("history")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    site = running.another_project()
    monkeypatch.setenv("COPYDESK_DATA", str(site.desk.settings.data))
    monkeypatch.setenv("COPYDESK_DATABASE_URL", site.desk.settings.resolved_database_url)
    monkeypatch.setenv("COPYDESK_PROJECT", site.project.id)
    return site


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    files = {"imported_visitors_1.csv": VISITORS, "imported_pages_1.csv": PAGES, "imported_sources_1.csv": SOURCES}
    return make_zip(tmp_path, files)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["analytics", *map(str, arguments)])  # type: ignore[return-value]


def get_history(site: Service, path: str = "history", **query: Any) -> Any:
    response = site.http.get(f"/v1/analytics/{site.project.id}/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.deep
def test_history_is_imported_shown_apart_and_removed(site: Service, archive: Path, tmp_path: Path) -> None:
    imported = run("import-history", archive)
    assert imported.exit_code == 0, imported.output
    assert imported.stdout == (
        "Imported 2 days of plausible, from 2024-01-01 to 2024-01-02, with 54 page views and 2 rows of pages.\n"
    )
    assert "Not needed: imported_sources_1.csv." in imported.stderr
    expected = {
        "history": [
            {"date": "2024-01-01", "source": "plausible", "visitors": 5, "pageviews": 50},
            {"date": "2024-01-02", "source": "plausible", "visitors": 3, "pageviews": 4},
        ],
        "hasMore": False,
    }
    assert get_history(site) == expected
    assert json.loads(run("import-history", archive, "--json").stdout)["days"] == 2
    assert get_history(site) == expected
    assert get_history(site, "history/pages")["pages"][0] == {
        "path": "/guide", "source": "plausible", "visitors": 4, "pageviews": 11,
    }  # fmt: skip
    assert site.client.visitors()["totals"] == {"human": 0, "ai": 0, "total": 0}
    assert site.client.timeseries()["timeseries"] == []

    assert run("import-history", write(tmp_path, EVENTS)).exit_code == 0
    assert [row["source"] for row in get_history(site)["history"]] == ["plausible", "umami"] * 2
    assert list(site.client.rows("history")) == get_history(site)["history"]
    assert list(site.client.rows("history/pages")) == site.client.history_pages()["pages"]
    assert site.client.history("2024-01-02", "2024-01-03")["history"] == get_history(site)["history"][2:]

    assert run("remove-history", "--source", "umami", "--yes").stdout == "Removed 2 days.\n"
    assert get_history(site) == expected
    actions = [entry["action"] for entry in list_entries(site.desk.database, site.project.id)]
    assert "analytics.history_imported" in actions
    assert "analytics.history_removed" in actions
    assert run("delete", "--yes").exit_code == 0
    assert get_history(site)["history"] == []


def test_website_is_chosen_and_events_in_several_files_count_once(site: Service, tmp_path: Path) -> None:
    several = write(tmp_path, EVENTS + EVENTS.splitlines()[1].replace("w,", "x,", 1) + "\n", "website_event.csv")
    refused = run("import-history", several)
    assert refused.exit_code == 1
    assert str(refused.exception).splitlines()[1:] == [
        "  w (docs.example.com): 5 page views",
        "  x (docs.example.com): 1 page view",
    ]
    assert get_history(site)["history"] == []
    imported = run("import-history", several, write(tmp_path, EVENTS, "again.csv"), "--website", "w")
    assert "with 5 page views and 3 rows of pages" in imported.stdout
    assert imported.stderr == "Several rows have the same event. Each event was counted once; 5 rows were ignored.\n"
    assert [row["pageviews"] for row in get_history(site)["history"]] == [4, 1]
    facts = json.loads(run("import-history", several, "--website", "x", "--json").stdout)
    assert (facts["pageviews"], facts["duplicates"]) == (1, 0)


def test_bad_file_changes_nothing_and_names_the_line(site: Service, archive: Path, tmp_path: Path) -> None:
    run("import-history", archive)
    before = get_history(site)
    refused = run("import-history", write(tmp_path, VISITORS.replace("5,50", "6,fifty")))
    assert refused.exit_code == 1
    assert "file.csv, line 2: pageviews is 'fifty'" in str(refused.exception)
    assert get_history(site) == before
    assert "--source must be plausible or umami" in str(run("remove-history", "--source", "x", "--yes").exception)
    assert "There is no project" in str(run("import-history", archive, "--project", "Nowhere").exception)
    assert CliRunner().invoke(app, ["analytics", "remove-history"], input="n\n").exit_code == 1
    assert get_history(site) == before


def test_history_is_paged_and_returned_as_csv(site: Service, archive: Path) -> None:
    run("import-history", archive)
    first = site.http.get(f"/v1/analytics/{site.project.id}/history", params={"limit": 1})
    assert first.json()["hasMore"]
    assert 'rel="next"' in first.headers["link"]
    assert get_history(site, limit=1, offset=1)["history"][0]["date"] == "2024-01-02"
    csv = site.http.get(f"/v1/analytics/{site.project.id}/history", headers={"Accept": "text/csv"}).text
    assert csv.splitlines() == [
        "date,source,visitors,pageviews",
        "2024-01-01,plausible,5,50",
        "2024-01-02,plausible,3,4",
    ]
    pages = site.http.get(f"/v1/analytics/{site.project.id}/history/pages", headers={"Accept": "text/csv"}).text
    assert pages.splitlines()[0] == "path,source,visitors,pageviews"


def test_dashboard_shows_history_on_its_own_page(site: Service, tmp_path: Path) -> None:
    browser = signed_in_client(site)
    address = f"/projects/{site.project.id}/readership/history"
    assert "No imported history in this range" in browser.get(address).text
    run("import-history", write(tmp_path, VISITORS, "a.csv"), write(tmp_path, PAGES.replace("/guide", "/<b>"), "b.csv"))
    shown = browser.get(address, params={"range": "all"}).text
    assert all(text in shown for text in ("2024-01-01", "Plausible", '<td class="figure">50</td>', "/&lt;b&gt;"))
    assert "2024-01-01" not in browser.get(address).text
    assert browser.get(address, params={"from": "soon", "to": "x", "range": "days"}).status_code == 400
    assert f'href="{address}' in browser.get(f"/projects/{site.project.id}/readership").text
