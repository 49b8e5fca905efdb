"""The review queue over all projects, over real HTTP."""

import html
import re
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import Creator, CreatorKind, Job, Status
from copydesk.jobs.risk import Risk, RiskKind
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import EventKind, NewEvent, update_job
from copydesk.web.dashboard.jobs.job_rows import describe_risk
from tests.support.people import get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

LONG_NAME = "Unbroken" * 12
RISK = [{"kind": "failed_check", "text": "Broken."}, {"kind": "failed_check", "text": "Gone."},
        {"kind": "unsure", "text": "Whether it is so."}]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("queue")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def viewer(service: Service) -> httpx.Client:
    return signed_in_client(service, "viewer")


def add_job(service: Service, project: Project, prompt: str, creator: Creator | None = None, number: int = 0) -> Job:
    """Adds a job; with a number, it has an open pull request."""
    job = service.desk.jobs.create(project, NewJob(prompt), created_by=creator).job
    if number:
        values = {"status": Status.COMPLETED, "pull_state": "open", "risk": RISK}
        values["pr_link"] = f"https://forge.example/docs/pulls/{number}"
        with service.desk.database.write() as tx:
            update_job(service.desk.database, tx, job.id, [NewEvent(EventKind.PULL_REQUEST, {})], **values)
    return job


def list_headings(page: str) -> list[str]:
    return re.findall(r'/jobs/job_\w+" dir="auto">([^<]*)</a>', page)


def read_totals(page: str) -> dict[str, str]:
    return dict(re.findall(r">([A-Z][a-z ]+) <span class=\"count\">([^<]*)</span>", page))


def test_queue_shows_open_pull_requests_of_all_projects(service: Service, viewer: httpx.Client) -> None:
    other = service.another_project(LONG_NAME).project
    ada = get_or_add_person(service, "editor", "ada@example.org")
    by_ada = Creator(kind=CreatorKind.PERSON, name=ada.name, id=ada.id)
    assert "No pull request waits for a review." in viewer.get("/queue").text
    add_job(service, service.project, "Still running")
    assert "No pull request waits for a review." in viewer.get("/queue").text
    assert "No jobs match." in viewer.get("/queue?state=merged").text
    first = add_job(service, service.project, "Rename the guide", by_ada, number=41)
    add_job(service, other, "Translate <the> page", number=42)
    merged = add_job(service, other, "Already merged", number=43)
    service.desk.jobs.archive(other.id, merged.id, "merged")

    page = viewer.get("/queue").text
    assert list_headings(page) == ["Translate &lt;the&gt; page", "Rename the guide"]
    assert "open for under 1 minute" in page
    assert "Pull request #41" in page
    assert page.count('<span class="checked bad">review first: failed check (2), unsure</span>') == 2
    assert f"by <bdi>{ada.name}</bdi>" in page
    assert f'dir="auto">{LONG_NAME}</a>' in page
    assert 'aria-current="page">Review queue' in page
    totals = read_totals(page)
    assert (totals["Open"], totals["Merged"], totals["Running"], totals["All"]) == ("2", "1", "1", "4")

    page = viewer.get("/queue?state=merged").text
    assert '<span class="state merged">merged</span>' in page
    assert list_headings(page) == ["Already merged"]
    assert list_headings(viewer.get("/queue", params={"project": other.id}).text) == ["Translate &lt;the&gt; page"]
    assert list_headings(viewer.get("/queue", params={"by": ada.id}).text) == ["Rename the guide"]
    assert list_headings(viewer.get("/queue", params={"text": "#41"}).text) == ["Rename the guide"]
    assert list_headings(viewer.get("/queue", params={"text": first.id}).text) == ["Rename the guide"]
    page = viewer.get("/queue", params={"text": "page", "state": "all"}).text
    assert list_headings(page) == ["Translate &lt;the&gt; page"]
    assert read_totals(page)["All"] == "1"
    assert "No jobs match." in viewer.get("/queue", params={"text": "nothing like this"}).text

    jobs_page = viewer.get(f"/projects/{other.id}/jobs?state=all").text
    assert list_headings(jobs_page) == ["Already merged", "Translate &lt;the&gt; page"]
    assert '<span class="state merged">merged</span>' in viewer.get(f"/projects/{other.id}/jobs/{merged.id}").text


@pytest.mark.parametrize(
    ("kinds", "words", "tone"),
    [
        ([], "no risk found", "good"),
        (["unsure"], "review first: unsure", "warn"),
        (["please_check", "not_judged", "not_judged"], "review first: please check, not judged (2)", "warn"),
        (["intended", "missing_evidence"], "review first: intended, missing evidence", "bad"),
        (["executed_file"], "review first: executed file", "bad"),
    ],
)
def test_queue_says_in_words_what_to_review_first(kinds: list[str], words: str, tone: str) -> None:
    described = describe_risk([Risk(RiskKind(kind), "x") for kind in kinds])
    assert (described.text, described.tone) == (words, tone)


def test_unknown_filters_filter_nothing(service: Service, viewer: httpx.Client) -> None:
    evil = "\"'><script>alert(1)</script>"
    for name in ("state", "by", "project", "cursor", "status"):
        response = viewer.get("/queue", params={name: evil})
        assert response.status_code == 200
        assert "<script>alert" not in response.text
        assert list_headings(response.text) == list_headings(viewer.get("/queue").text)
    assert "<script>alert" not in viewer.get("/queue", params={"text": evil}).text
    assert viewer.get("/queue", params={"text": "x" * 201}).status_code == 400


def test_filters_stay_when_the_list_is_paged(service: Service, viewer: httpx.Client) -> None:
    project = service.another_project("Paged").project
    for number in range(30):
        add_job(service, project, f"Page me {number}", number=number + 1)
    page = viewer.get("/queue", params={"project": project.id, "text": "page me"}).text
    assert list_headings(page)[0] == "Page me 29"
    [older] = re.findall(r'<a href="([^"]+)" rel="next">Older', page)
    page = viewer.get(html.unescape(older)).text
    assert list_headings(page) == [f"Page me {number}" for number in range(4, -1, -1)]
    assert 'rel="next"' not in page
    live = html.unescape(re.findall(r'data-live="([^"]+)"', page)[0])
    [version] = re.findall(r'data-version="([^"]+)"', page)
    assert viewer.get(live).json() == {"version": version}


def test_queue_needs_a_session(service: Service) -> None:
    response = httpx.get(f"{service.url}/queue", headers={"Accept": "text/html"}, timeout=20)
    assert (response.status_code, response.headers["location"]) == (303, "/sign-in?next=%2Fqueue")
