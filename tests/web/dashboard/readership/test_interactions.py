"""The pages of feedback triage, searches and questions, over real HTTP."""

import csv
import html
import io
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.analytics.interactions.conversations import Caller, NewQuestion, Source
from copydesk.analytics.interactions.feedback import FeedbackDetails
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.core import clock
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("interactions")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def editor(running: Service) -> httpx.Client:
    return signed_in_client(running, "editor")


@pytest.fixture(scope="module")
def viewer(running: Service) -> httpx.Client:
    return signed_in_client(running, "viewer")


@pytest.fixture
def site(running: Service) -> Service:
    return running.another_project()


def page_url(site: Service, part: str) -> str:
    return f"/projects/{site.project.id}/readership{part}"


def open_page(client: httpx.Client, site: Service, part: str, expected: int = 200, **query: Any) -> str:
    response = client.get(page_url(site, part), params=query)
    assert response.status_code == expected, response.text
    return response.text


def test_editor_changes_the_status_of_feedback(editor: httpx.Client, site: Service) -> None:
    entry = site.desk.feedback.add(site.project.id, "/guide", False, "Stale.", clock.now())
    assert entry is not None
    text = open_page(editor, site, "/feedback", source="contextual")
    form = {"token": csrf_token_from_html(text), "status": "resolved"}
    response = editor.post(f"{page_url(site, '/feedback')}/{entry.id}?source=contextual&range=all", data=form)
    assert response.status_code == 303
    assert response.headers["location"] == f"{page_url(site, '/feedback')}?range=all&source=contextual"
    assert site.desk.feedback.get_entry(site.project.id, entry.id).status == "resolved"
    form["status"] = "forgotten"
    assert editor.post(f"{page_url(site, '/feedback')}/{entry.id}", data=form).status_code == 400
    assert site.desk.feedback.get_entry(site.project.id, entry.id).status == "resolved"


def test_viewer_sees_the_status_and_cannot_change_it(viewer: httpx.Client, site: Service) -> None:
    site.desk.feedback.add(site.project.id, "/guide", False, "Stale.", clock.now())
    text = open_page(viewer, site, "/feedback")
    assert "Pending" in text
    assert "<button>Save</button>" not in text


def test_feedback_is_filtered_by_status_and_source(viewer: httpx.Client, site: Service) -> None:
    site.desk.feedback.add(site.project.id, "/a", False, "From a reader.", clock.now())
    snippet = FeedbackDetails(code="x = 1", filename="a.py", lang="python", contact="ada@example.org")
    site.desk.feedback.add(site.project.id, "/b", None, "About code.", clock.now(), snippet)
    everything = open_page(viewer, site, "/feedback")
    assert all(words in everything for words in ("From a reader.", "About code.", "x = 1", "a.py", "ada@example.org"))
    code = open_page(viewer, site, "/feedback", source="code_snippet", status="pending")
    assert "About code." in code
    assert "From a reader." not in code
    assert "No feedback in this range matches the filter" in open_page(viewer, site, "/feedback", status="resolved")
    for query in ({"source": "x"}, {"status": "x"}):
        assert 'role="alert"' in open_page(viewer, site, "/feedback", 400, **query)


def test_searches_are_listed_with_and_without_clicks(viewer: httpx.Client, site: Service) -> None:
    assert "No searches in this range" in open_page(viewer, site, "/searches")
    now = clock.now()
    new = [NewSearch("install", now, clicked="/install"), NewSearch("install", now), NewSearch("teapot", now)]
    site.desk.searches.add_all(site.project.id, new)
    text = open_page(viewer, site, "/searches")
    assert re.findall(r'<tr><th scope="row" class="path" dir="auto">(\w+)</th><td class="figure">(\d+)</td>', text) == [
        ("install", "2"),
        ("teapot", "1"),
    ]
    assert "50%" in text
    assert "/install" in text
    with_clicks = open_page(viewer, site, "/searches", clicked="yes")
    assert "teapot" not in with_clicks
    without_clicks = open_page(viewer, site, "/searches", clicked="no")
    assert ("teapot" in without_clicks, 'class="path" dir="auto">install' in without_clicks) == (True, False)


def test_questions_are_listed_answered_and_unanswered(viewer: httpx.Client, site: Service) -> None:
    assert "No questions in this range" in open_page(viewer, site, "/questions")
    now = clock.now()
    questions = [
        NewQuestion("t", "How do I sign in?", "With a key.", now, [Source("Keys", "/keys")], caller=Caller.WEB),
        NewQuestion("t", "Is there tea?", "", now, answered=False, page_url="/start"),
    ]
    site.desk.conversations.add_all(site.project.id, questions)
    text = open_page(viewer, site, "/questions")
    assert all(words in text for words in ("How do I sign in?", "With a key.", "Keys", "Is there tea?", "/start"))
    assert "Is there tea?" not in open_page(viewer, site, "/questions", answered="yes")
    assert "How do I sign in?" not in open_page(viewer, site, "/questions", answered="no")


def test_download_has_the_rows_that_the_filter_finds(viewer: httpx.Client, site: Service) -> None:
    desk, project_id, now = site.desk, site.project.id, clock.now()
    desk.searches.add_all(project_id, [NewSearch("clicked", now, clicked="/a"), NewSearch("lost", now)])
    answers = [NewQuestion("t", "answered", "So.", now), NewQuestion("t", "unanswered", "", now, answered=False)]
    desk.conversations.add_all(project_id, answers)
    desk.feedback.add(project_id, "/remark", False, "remark", now)
    desk.feedback.add(project_id, "/code", None, "code", now, FeedbackDetails(code="x = 1"))

    def download(part: str, report: str, **query: Any) -> list[list[str]]:
        link = re.search(rf'href="([^"]*/{report}\.csv[^"]*)"', open_page(viewer, site, part, **query))
        assert link
        answer = viewer.get(html.unescape(link[1]))
        assert answer.status_code == 200
        return list(csv.reader(io.StringIO(answer.text)))[1:]

    assert [row[0] for row in download("/searches", "searches", clicked="no")] == ["lost"]
    assert [row[0] for row in download("/searches", "searches")] == ["clicked", "lost"]
    assert [row[2] for row in download("/questions", "questions", answered="no")] == ["unanswered"]
    assert [row[2] for row in download("/feedback", "feedback", source="code_snippet")] == ["/code"]
    assert [row[0] for row in download("/feedback", "feedback-by-page", source="contextual")] == ["/remark"]
    assert len(download("/feedback", "feedback-by-page", status="pending")) == 2
    for refused in ("searches.csv?clicked=x", "feedback.csv?source=x", "questions.csv?answered=x"):
        assert viewer.get(f"/projects/{project_id}/readership/{refused}").status_code == 400


def test_pages_follow_each_other(viewer: httpx.Client, site: Service) -> None:
    now = clock.now()
    site.desk.searches.add_all(site.project.id, [NewSearch(f"term{number:02}", now) for number in range(30)])
    site.desk.conversations.add_all(
        site.project.id, [NewQuestion("t", f"question{number:02}", "", now + number) for number in range(-30, 0)]
    )
    for part, pattern in (("/searches", r"term\d\d"), ("/questions", r"question-\d+")):
        first = open_page(viewer, site, part)
        link = re.search('href="([^"]*cursor=[^"]*)"', first)
        assert link, part
        rest = viewer.get(link[1].replace("&amp;", "&")).text
        shown = re.findall(pattern, first) + re.findall(pattern, rest)
        assert (len(shown), len(set(shown))) == (30, 30), part


@pytest.mark.parametrize("part", ["/searches", "/questions"])
def test_invalid_parameters_are_refused_with_a_message(viewer: httpx.Client, site: Service, part: str) -> None:
    for query in ({"cursor": HOSTILE}, {"clicked": "x", "answered": "x"}, {"range": "x"}):
        text = open_page(viewer, site, part, 400, **query)
        assert 'role="alert"' in text
        assert "<script>alert" not in text


def test_text_of_readers_is_escaped(viewer: httpx.Client, site: Service) -> None:
    now = clock.now()
    details = FeedbackDetails(contact=HOSTILE, code=HOSTILE, filename=HOSTILE, lang=HOSTILE[:60])
    site.desk.feedback.add(site.project.id, "/a", None, HOSTILE, now, details)
    site.desk.searches.add_all(site.project.id, [NewSearch(HOSTILE, now, clicked=f"/{HOSTILE}")])
    question = NewQuestion("t", HOSTILE, HOSTILE, now, [Source(HOSTILE, HOSTILE)], page_url=HOSTILE)
    site.desk.conversations.add_all(site.project.id, [question])
    for part in ("/feedback", "/searches", "/questions"):
        text = open_page(viewer, site, part)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "<script>alert" not in text
        assert "<img" not in text


def test_lists_are_downloaded_as_csv(viewer: httpx.Client, site: Service) -> None:
    now = clock.now()
    site.desk.feedback.add(site.project.id, "/a", None, "=1+1", now)
    site.desk.searches.add_all(site.project.id, [NewSearch("install", now)])
    site.desk.conversations.add_all(site.project.id, [NewQuestion("t", "How?", "So.", now)])
    for name, words in (("feedback", ",'=1+1,"), ("searches", "\r\ninstall,1,0.0,,"), ("questions", ",How?,So.,")):
        page = open_page(viewer, site, f"/{name}")
        assert f"{page_url(site, f'/{name}.csv')}" in page
        assert words in open_page(viewer, site, f"/{name}.csv")
        assert words not in open_page(viewer, site, f"/{name}.csv", range="yesterday")
