"""The guide that the service serves: complete, with working links, images and anchors, safe and cacheable."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import httpx2 as httpx
import pytest
from justhtml import JustHTML

from copydesk.web.dashboard.guide.chapters import CHAPTERS, list_chapters, list_files
from copydesk.web.dashboard.guide.page_html import render_guide_page, resolve_target
from copydesk.web.dashboard.guide.search import search_guide
from copydesk.web.responses.help_links import HELP_CHAPTERS
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROOT = Path(__file__).parents[3]
TEMPLATES = ROOT / "copydesk/web/templates"
PAGES = [name for name, file in list_files().items() if file.suffix == ".md"]
WITHOUT_CHAPTER = {"guide.html", "refused.html", "share-base.html", "unsubscribe.html"}
"""The guide itself, errors, and pages for people without an account."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("guide")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def browser(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=30) as client:
        yield client


def find_anchors(html: str) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', html))


def test_table_of_contents_has_every_page_except_decisions() -> None:
    listed = {chapter.name for chapters in list_chapters().values() for chapter in chapters}
    assert listed == {name for name in PAGES if not name.startswith("decisions/")}
    assert all(chapters for chapters in list_chapters().values())
    assert list(list_chapters()) == list(CHAPTERS)


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_to_pages_anchors_and_files_that_exist(name: str) -> None:
    html = render_guide_page(name).html
    for target in re.findall(r'(?:href|src)="([^"]+)"', html):
        path, _, anchor = target.partition("#")
        if path.startswith("https://github.com/copydesk/copydesk/"):
            assert (ROOT / path.split("/", 7)[7]).exists(), target
        elif path.startswith("/docs/guide/"):
            chapter = path.removeprefix("/docs/guide/")
            assert chapter in list_files(), target
            assert not anchor or anchor in find_anchors(render_guide_page(chapter).html), target
        elif not path:
            assert anchor in find_anchors(html), target
        else:
            assert path.startswith("https://"), target


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_scripts_and_no_handlers(name: str) -> None:
    page = render_guide_page(name)
    assert page.title
    tags = {node.name for node in JustHTML(str(page.html), fragment=True, sanitize=False).query("*")}
    assert not tags & {"script", "style", "iframe", "form", "object", "svg"}
    assert not re.search(r"""<[^>]+ on\w+=|="javascript:""", page.html)


@pytest.mark.deep
def test_guide_is_served_to_everyone_with_search_images_and_examples(browser: httpx.Client) -> None:
    contents = browser.get("/docs/guide")
    assert contents.status_code == 200
    assert '<a href="/docs/guide/quickstart">Quickstart</a>' in contents.text
    chapter = browser.get("/docs/guide/collect/nginx")
    assert chapter.status_code == 200
    assert 'aria-current="page"' in chapter.text
    assert "On this page" in browser.get("/docs/guide/settings").text
    image = browser.get("/docs/guide/images/jobs-light.png")
    assert (image.headers["content-type"], image.content[:4]) == ("image/png", b"\x89PNG")
    example = browser.get("/docs/guide/collect/nextjs-middleware.ts")
    assert example.headers["content-type"] == "text/plain; charset=utf-8"
    assert browser.get("/docs/guide/api.md").status_code == 200


@pytest.mark.deep
def test_search_finds_sections_and_says_when_there_are_none(browser: httpx.Client) -> None:
    found = browser.get("/docs/guide", params={"search": "smtp password"}).text
    assert "/docs/guide/mail#settings" in found
    nothing = browser.get("/docs/guide", params={"search": "<script>xyzzy"}).text
    assert "Nothing in the guide contains" in nothing
    assert "<script>xyzzy" not in nothing
    assert search_guide("idempotency")[0].heading == "Idempotency"
    assert search_guide(" ") == []


@pytest.mark.parametrize(
    ("text", "chapter"),
    [
        ("standard webhooks", "webhooks"),
        ("model context protocol", "mcp"),
        ("placeholder", "prompts"),
        ("stale pages", "stale-pages"),
    ],
)
def test_search_finds_each_of_these_chapters(text: str, chapter: str) -> None:
    assert chapter in {result.url.removeprefix("/docs/guide/").partition("#")[0] for result in search_guide(text)}


def test_every_search_result_leads_to_an_anchor_that_exists() -> None:
    places = [result.url.removeprefix("/docs/guide/").partition("#") for result in search_guide("copydesk")]
    assert any(anchor for _, _, anchor in places)
    for chapter, _, anchor in places:
        assert not anchor or anchor in find_anchors(render_guide_page(chapter).html), (chapter, anchor)


def test_pages_are_cached_and_not_sent_again(browser: httpx.Client) -> None:
    for path in ("/docs/guide", "/docs/guide/api", "/docs/guide/images/jobs-light.png"):
        first = browser.get(path)
        assert first.headers["cache-control"] == "public, max-age=300"
        assert "set-cookie" not in first.headers
        again = browser.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["nothing", "..%2f..%2fpyproject.toml", "../../pyproject.toml", "collect/..%2fapi", "decisions", "%00"]
)
def test_other_files_are_not_served(browser: httpx.Client, path: str) -> None:
    assert browser.get(f"/docs/guide/{path}").status_code == 404


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("../mail.md#settings", "/docs/guide/mail#settings"),
        ("README.md", "/docs/guide/collect"),
        ("#events", "#events"),
        ("https://example.org/x.md", "https://example.org/x.md"),
    ],
)
def test_targets_are_resolved_from_the_page(target: str, expected: str) -> None:
    assert resolve_target(target, PurePosixPath("collect/events.md")) == expected


def test_every_page_of_the_dashboard_links_to_a_chapter_that_exists() -> None:
    pages = {file.name for file in TEMPLATES.glob("*.html") if '{% extends "base.html" %}' in file.read_text("utf-8")}
    assert pages - WITHOUT_CHAPTER - HELP_CHAPTERS.keys() == set()
    for template, chapter in HELP_CHAPTERS.items():
        name, _, anchor = chapter.partition("#")
        assert not anchor or anchor in find_anchors(render_guide_page(name).html), template
        assert template in pages or (TEMPLATES / template).exists(), template


@pytest.mark.parametrize(
    ("page", "chapter"),
    [
        ("/projects/{}/keys", "dashboard#api-keys"),
        ("/projects/{}/prompts", "prompts"),
        ("/projects/{}/webhooks", "webhooks"),
        ("/queue", "dashboard#review-queue"),
    ],
)
def test_help_link_of_a_page_leads_to_its_chapter(service: Service, page: str, chapter: str) -> None:
    with signed_in_client(service) as client:
        html = client.get(page.format(service.project.id)).text
    assert f'<a href="/docs/guide/{chapter}">Help</a>' in html
