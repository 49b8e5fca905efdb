"""Stale pages, on the dashboard and in the API: popular pages whose sources changed, computed in the background."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import update

from copydesk.automations.tables import page_comparisons
from copydesk.core import clock
from copydesk.jobs.projects.context_repositories import NewContext
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.readership.test_pages import log_views, make_view

OLD = pygit2.Signature("Grace", "grace@example.org", 1_700_000_000, 0)
NEW = pygit2.Signature("Bob", "bob@example.org", 1_750_000_000, 0)
PAGES = {
    "mkdocs.yml": b"site_name: x\n",
    "docs/guide.md": b"# Guide\n\nUse `--dry-run`.\n",
    "docs/index.md": b"# Home\n",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("stale")
    repository = make_repository(folder / "docs.git", {"README.md": b"# Docs\n"})
    commit(pygit2.Repository(str(repository)), PAGES, message="Describe <the> command", author=OLD)
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_repository(tmp_path_factory.mktemp("code") / "code.git", {"src/cli.py": b'add("--dry-run")\n'})
    renamed = {"src/cli.py": b'add("--preview")\n'}
    commit(pygit2.Repository(str(path)), renamed, message="Rename <the> flag", author=NEW)
    return path


@pytest.fixture
def site(running: Service) -> Service:
    return running.another_project()


@pytest.fixture(scope="module")
def editor(running: Service) -> httpx.Client:
    return signed_in_client(running, "editor")


@pytest.fixture(scope="module")
def viewer(running: Service) -> httpx.Client:
    return signed_in_client(running, "viewer")


def fill(site: Service, code: Path) -> None:
    site.desk.contexts.add(site.project, NewContext("product", str(code)), actor="test")
    log_views(site, make_view(site, "/guide", 1), make_view(site, "/guide", 2), make_view(site, "/", 3))


def open_stale(client: httpx.Client, site: Service) -> str:
    response = client.get(f"/projects/{site.project.id}/readership/stale")
    assert response.status_code == 200
    return response.text


def work(site: Service) -> None:
    """Computes what is requested, as a worker does."""
    site.desk.stale_pages.computation.tick()


def get_report(site: Service, query: str = "") -> Any:
    response = site.http.get(f"/v1/analytics/{site.project.id}/stale{query}")
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.deep
def test_page_is_computed_in_the_background_and_lists_what_changed(
    viewer: httpx.Client, editor: httpx.Client, site: Service, code: Path
) -> None:
    fill(site, code)
    first = open_stale(viewer, site)
    assert "Comparing the pages with their sources" in first
    assert "Refresh" not in first
    work(site)
    text = open_stale(viewer, site)
    assert "Comparing the pages" not in text
    for part in (">/guide</a>", '<td class="figure">2</td>', "src/cli.py", "--dry-run", "product"):
        assert part in text
    assert "Describe &lt;the&gt; command" in text
    assert "Rename &lt;the&gt; flag" in text
    assert "Bob" in text
    assert f'href="/projects/{site.project.id}/readership/page?' in text
    assert "Improve this page" not in text, "a viewer cannot start jobs"
    assert "Refresh" not in text, "a viewer cannot request a comparison"
    assert ">Improve this page</button>" in open_stale(editor, site)


@pytest.mark.deep
def test_improving_a_stale_page_starts_a_job_that_gets_the_changes_as_data(
    editor: httpx.Client, site: Service, code: Path
) -> None:
    fill(site, code)
    open_stale(editor, site)
    work(site)
    text = open_stale(editor, site)
    form = {"token": csrf_token_from_html(text), "nonce": "once", "path": "/guide"}
    action = f"/projects/{site.project.id}/readership/page/improve"
    assert f'action="{action}"' in text
    response = editor.post(f"{site.url}{action}", data=form, headers={"Origin": site.url})
    assert response.status_code == 303
    [job] = site.desk.jobs.list_page(site.project.id, None, 20, None)[0]
    line = "| changed since the last edit of the page: src/cli.py in product (about --dry-run): 2025-06-15 in "
    data = site.desk.jobs.read_data(job.id)
    assert line in data
    assert "Rename <the> flag" in data
    assert "src/cli.py" not in job.prompt
    detail = editor.get(f"/projects/{site.project.id}/readership/page", params={"path": "/guide"}).text
    assert "Changed sources" in detail
    assert "Rename &lt;the&gt; flag" in detail
    other = editor.get(f"/projects/{site.project.id}/readership/page", params={"path": "/"}).text
    assert "Changed sources" not in other


@pytest.mark.deep
def test_without_source_code_the_page_says_how_to_add_some(viewer: httpx.Client, site: Service, code: Path) -> None:
    log_views(site, make_view(site, "/guide", 1))
    open_stale(viewer, site)
    work(site)
    text = open_stale(viewer, site)
    assert "There is no source code to compare the pages with." in text
    assert f'href="/projects/{site.project.id}/context"' in text
    assert get_report(site)["hasSources"] is False
    site.desk.contexts.add(site.project, NewContext("product", str(code)), actor="test")
    with site.desk.database.write() as tx:  # as if a minute had passed
        tx.execute(update(page_comparisons).values(finished_at=page_comparisons.c.finished_at - 61 * clock.SECOND))
    assert "Comparing the pages" in open_stale(viewer, site), "the context repositories are other ones now"
    work(site)
    assert [page["path"] for page in get_report(site)["stale"]] == ["/guide"]


def test_reasons_for_an_empty_list_are_told_apart(viewer: httpx.Client, site: Service) -> None:
    open_stale(viewer, site)
    work(site)
    assert "No page had a reader in the last 30 days." in open_stale(viewer, site)
    log_views(site, make_view(site, "/unknown", 1))
    site.desk.stale_pages.reports.request(site.project.id, 0)
    work(site)
    assert "None of the popular pages is a file of the repository." in open_stale(viewer, site)


def test_refresh_button_requests_a_comparison_at_most_once_a_minute(editor: httpx.Client, site: Service) -> None:
    token = csrf_token_from_html(open_stale(editor, site))
    work(site)
    address = f"{site.url}/projects/{site.project.id}/readership/stale/refresh"
    early = editor.post(address, data={"token": token}, headers={"Origin": site.url}, follow_redirects=True)
    assert "The pages were compared less than a minute ago." in html.unescape(early.text)
    with site.desk.database.write() as tx:
        tx.execute(update(page_comparisons).values(finished_at=page_comparisons.c.finished_at - 61 * clock.SECOND))
    again = editor.post(address, data={"token": token}, headers={"Origin": site.url}, follow_redirects=True)
    assert "Comparing the pages with their sources" in again.text


def test_failed_comparison_is_shown_with_its_reason(viewer: httpx.Client, site: Service, code: Path) -> None:
    fill(site, code)
    hidden = code.with_name("gone.git")
    code.rename(hidden)
    try:
        open_stale(viewer, site)
        work(site)
    finally:
        hidden.rename(code)
    assert "The context repository product cannot be read." in open_stale(viewer, site)
    report = get_report(site)
    assert (report["status"], report["comparedAt"], report["stale"]) == ("failed", None, [])
    assert report["problem"].startswith("The context repository product cannot be read.")


def test_api_returns_rows_with_their_age_as_json_and_csv(site: Service, code: Path) -> None:
    fill(site, code)
    first = get_report(site)
    assert (first["status"], first["comparedAt"], first["stale"]) == ("computing", None, [])
    assert first["requestedAt"].endswith("Z")
    work(site)
    report = get_report(site)
    assert (report["status"], report["hasMore"], report["hasSources"], report["isComplete"]) == (
        "ready", False, True, True
    )  # fmt: skip
    [page] = report["stale"]
    assert (page["path"], page["readers"], page["file"]) == ("/guide", 2, "docs/guide.md")
    assert (page["lastEdit"]["author"], page["lastEdit"]["at"]) == ("Grace", "2023-11-14T22:13:20.000Z")
    [source] = page["sources"]
    assert (source["repository"], source["path"], source["names"]) == ("product", "src/cli.py", ["--dry-run"])
    assert (source["commitCount"], source["commits"][0]["subject"]) == (1, "Rename <the> flag")
    assert get_report(site, "?offset=1")["stale"] == []
    assert site.http.get(f"/v1/analytics/{site.project.id}/stale?limit=0").status_code == 400
    csv = site.http.get(f"/v1/analytics/{site.project.id}/stale", headers={"Accept": "text/csv"}).text
    assert csv.startswith("path,readers,file,lastEdit,sources\r\n/guide,2,docs/guide.md,")
    assert "product src/cli.py --dry-run" in csv


def test_download_has_the_rows_of_the_api(viewer: httpx.Client, site: Service, code: Path) -> None:
    fill(site, code)
    open_stale(viewer, site)
    work(site)
    download = viewer.get(f"/projects/{site.project.id}/readership/stale.csv")
    api = site.http.get(f"/v1/analytics/{site.project.id}/stale", headers={"Accept": "text/csv"})
    assert download.text == api.text


def test_refresh_of_the_api_answers_at_once(site: Service) -> None:
    address = f"/v1/analytics/{site.project.id}/stale/refresh"
    response = site.http.post(address)
    assert (response.status_code, response.json()["status"]) == (202, "computing")
    work(site)
    assert (site.http.post(address).json()["status"]) == "ready", "it is less than a minute old"
