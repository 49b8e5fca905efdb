"""The analytics pages of sources and sections."""

from collections.abc import Iterator

import pytest

from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.readership.test_pages import ASSISTANT, HOSTILE, TODAY, make_view


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("audience")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


def read(running: Service, site: Service, part: str) -> str:
    viewer = signed_in_client(running, "viewer")
    answer = viewer.get(f"{site.url}/projects/{site.project.id}/readership{'/' + part if part else ''}")
    assert answer.status_code == 200
    return answer.text


@pytest.mark.deep
def test_sources_are_listed_with_their_kinds(running: Service) -> None:
    site = running.another_project()
    assert "No visits by people in this range" in read(running, site, "sources")
    site.desk.store.log_views(
        [make_view(site, "/a", 1)._replace(referrer="www.google.com"), make_view(site, "/a", 2),
         make_view(site, "/a", 3)._replace(referrer="chatgpt.com"), make_view(site, "/a", 4)._replace(referrer=HOSTILE),
         make_view(site, "/a", 5, TODAY - 400)._replace(referrer="old.example.org")]
    )  # fmt: skip
    text = read(running, site, "sources")
    assert '>google.com</th><td>Search</td><td class="figure">1</td><td class="figure">1</td>' in text
    assert '>No referrer</th><td>Direct</td><td class="figure">1</td>' in text
    assert ">chatgpt.com</th><td>AI</td>" in text
    assert HOSTILE not in text
    assert "old.example.org" not in text
    assert "old.example.org" in read(running, site, "sources?range=all")
    first_screen = read(running, site, "")
    for label, visitors in (("Search", 1), ("AI", 1), ("Direct", 1), ("Social", 0)):
        assert f"<dt>{label}</dt><dd>{visitors}</dd>" in first_screen
    assert read(running, site, "referrers.csv").startswith("referrer,kind,visitors,views\r\n")


def test_sections_lead_to_the_sections_below_them(running: Service) -> None:
    site = running.another_project()
    assert "No views in this range" in read(running, site, "sections")
    site.desk.store.log_views(
        [make_view(site, "/ja", 1), make_view(site, "/ja/guide/a", 1), make_view(site, "/ja/guide/b", 2),
         make_view(site, "/en", 2, kind=ASSISTANT, agent="Reader")]
    )  # fmt: skip
    text = read(running, site, "sections")
    assert "2 people, 1 AI, 2 in total, 4 views" in text
    assert "prefix=%2Fja" in text
    below = read(running, site, "sections?prefix=/ja/guide")
    assert "Sections of /ja/guide" in below
    assert '/ja/guide/a</a></th><td class="figure">1</td>' in below
    assert "/en<" not in below
    assert "No pages below this one" in read(running, site, "sections?prefix=/ja/guide/a")
    assert read(running, site, "sections.csv") == ("section,human,ai,total,views\r\n/ja,2,0,2,3\r\n/en,0,1,1,1\r\n")
