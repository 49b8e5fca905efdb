"""Shared analytics over real HTTP: each link shows its parts of one project, and nothing else to anyone."""

import re
from collections.abc import Iterator, Sequence

import httpx2 as httpx
import pytest

from copydesk.analytics.interactions.searches import NewSearch
from copydesk.core import audit_log, clock
from copydesk.core.ids import random_text
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.readership.test_missing_pages import make_missing
from tests.web.dashboard.readership.test_pages import ASSISTANT, HOSTILE, TODAY, log_views, make_view

ALL_PARTS = ("overview", "pages", "agents", "missing", "searches")
PATHS = {"overview": "", "pages": "", "agents": "/agents", "missing": "/missing", "searches": "/searches"}
EVIDENCE = {
    "overview": 'id="tile-visitors"',
    "pages": "/guide-of-pages",
    "agents": "ReaderBot",
    "missing": "/gone-for-good",
    "searches": "how to brew",
}
"""A text that only this part shows."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("shared")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, share_per_address=1_000_000) as service:
        yield service


@pytest.fixture(scope="module")
def site(running: Service) -> Service:
    site = running.another_project("Handbook")
    log_views(
        site,
        *(make_view(site, "/guide-of-pages", visitor) for visitor in (1, 2, 3)),
        make_view(site, "/guide-of-pages", 9, kind=ASSISTANT, agent="ReaderBot"),
        make_view(site, HOSTILE, 4),
        make_missing(site, "/gone-for-good", 5, "/secret-referrer"),
    )
    site.desk.searches.add_all(site.project.id, [NewSearch("how to brew", clock.now())])
    site.desk.feedback.add(site.project.id, "/guide-of-pages", False, "a private comment", clock.now())
    return site


def create_link(site: Service, parts: Sequence[str] = ALL_PARTS, expires_in: int | None = None) -> str:
    """Returns the path of a new link."""
    created = site.desk.sharing.links.create(site.project.id, parts=parts, expires_in=expires_in, actor="test")
    return f"/share/{created.token}"


@pytest.fixture(scope="module")
def visitor(running: Service) -> Iterator[httpx.Client]:
    """A browser without a session."""
    with httpx.Client(base_url=running.url, headers={"Accept": "text/html"}, timeout=60) as client:
        yield client


def without_request_id(response: httpx.Response) -> str:
    return response.text.replace(response.headers["x-request-id"], "")


@pytest.mark.deep
def test_link_shows_the_numbers_of_the_api(site: Service, visitor: httpx.Client) -> None:
    text = visitor.get(create_link(site)).text
    totals = site.client.visitors()["totals"]
    tiles = dict(re.findall(r'id="tile-(\w+)">.*?class="value">([^<]*)', text))
    assert (tiles["visitors"], tiles["human"], tiles["ai"]) == (
        str(totals["total"]),
        str(totals["human"]),
        str(totals["ai"]),
    )
    assert tiles["views"] == str(site.client.views()["totals"]["total"])
    assert '>/guide-of-pages</th><td class="figure">3</td><td class="figure">1</td><td class="figure">4</td>' in text


@pytest.mark.parametrize("part", ALL_PARTS)
def test_link_shows_only_its_own_parts(site: Service, visitor: httpx.Client, part: str) -> None:
    link = create_link(site, [part])
    front = visitor.get(link)
    assert front.status_code == 200
    assert EVIDENCE[part] in front.text
    for other in ALL_PARTS:
        if other != part:
            assert EVIDENCE[other] not in front.text, other
            if PATHS[other]:
                assert visitor.get(link + PATHS[other]).status_code == 404
    for path in ("/badge.svg", "/number.json"):
        assert visitor.get(link + path).status_code == 404


@pytest.mark.deep
def test_pages_contain_nothing_private_and_no_form(site: Service, visitor: httpx.Client) -> None:
    link = create_link(site)
    for path in ("", "/agents", "/missing", "/searches"):
        answer = visitor.get(link + path)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        for private in ("<form", "<input", "a private comment", "/secret-referrer", site.project.id,
                        site.project.site_id, str(site.repository), "csrf", "/projects/"):  # fmt: skip
            assert private not in answer.text, (path, private)
        assert HOSTILE not in answer.text


@pytest.mark.deep
def test_headers_keep_the_token_from_other_sites_and_search_engines(site: Service, visitor: httpx.Client) -> None:
    link = create_link(site)
    for path in (link, f"{link}/agents", f"{link}?range=bad", "/share/wrong"):
        headers = visitor.get(path).headers
        assert headers["referrer-policy"] == "no-referrer", path
        assert headers["x-robots-tag"] == "noindex"
        assert headers["cache-control"] == "private, no-store"
    policy = visitor.get(link).headers["content-security-policy"]
    assert "form-action 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    text = visitor.get(link).text
    assert '<meta name="referrer" content="no-referrer">' in text
    assert re.findall(r'(?:href|src)="https?://', text) == [], "no link leads to another site"


@pytest.mark.deep
def test_revoked_expired_and_wrong_links_get_the_same_404(site: Service, visitor: httpx.Client) -> None:
    created = site.desk.sharing.links.create(site.project.id, parts=ALL_PARTS, actor="test")
    link = f"/share/{created.token}"
    etag = visitor.get(link).headers.get("etag", '"x"')
    site.desk.sharing.links.revoke(site.project.id, created.link.id, actor="test")
    expired = create_link(site, expires_in=1)
    wrong = f"/share/{random_text(32)}"
    for path in ("", "/agents", "/missing", "/searches", "/badge.svg", "/number.json"):
        answers = [
            visitor.get(address + path, headers={"If-None-Match": etag})
            for address in (link, expired, wrong, "/share/x", f"/share/{'a' * 5000}", "/share/%00", "/share/é")
        ]
        assert {answer.status_code for answer in answers} == {404}, path
        assert len({without_request_id(answer) for answer in answers}) == 1, path
        assert len({tuple(sorted(answer.headers)) for answer in answers}) == 1, path


def test_path_tricks_lead_nowhere(running: Service, site: Service, visitor: httpx.Client) -> None:
    link = create_link(site, ["overview"])
    token = link.rpartition("/")[2]
    for path in (
        f"{link}/", f"{link}//agents", f"{link}%2Fagents", f"{link}/%61gents", f"{link};/agents", f"{link}/agents/",
        f"{link}/../{token}/agents", f"/share//{token}", f"/share/{token.swapcase()}", f"/share/{token} ",
        f"/share/{token}%00", f"/SHARE/{token}", f"{link}/feedback", f"{link}/questions", f"{link}/visitors.csv",
        f"/projects/{site.project.id}/readership?token={token}",
    ):  # fmt: skip
        answer = visitor.get(httpx.URL(running.url).copy_with(raw_path=path.encode()))
        assert answer.status_code in (303, 400, 404), path
        assert "tile-visitors" not in answer.text
        assert "ReaderBot" not in answer.text


@pytest.mark.deep
def test_parameters_cannot_select_another_project(running: Service, site: Service, visitor: httpx.Client) -> None:
    other = running.another_project("Other")
    log_views(other, make_view(other, "/of-the-other-project", 1))
    link = create_link(site)
    plain = visitor.get(link).text
    for query in ("projectId", "project_id", "project", "token", "site", "parts", "part"):
        assert visitor.get(link, params={query: other.project.id}).text == plain
    assert "/of-the-other-project" not in plain


def test_token_is_not_an_api_key_or_a_session(running: Service, site: Service, visitor: httpx.Client) -> None:
    token = create_link(site).rpartition("/")[2]
    path = f"/v1/analytics/{site.project.id}/visitors"
    assert visitor.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert visitor.post(f"/share/{token}", data={"name": "x"}).status_code == 405


def test_only_the_digest_of_a_token_is_stored(site: Service) -> None:
    token = create_link(site).rpartition("/")[2]
    with site.desk.database.read() as tx:
        rows = tx.exec_driver_sql("select * from share_links").all()
        audits = tx.exec_driver_sql("select * from audit").all()
    assert token not in repr(rows) + repr(audits)


@pytest.mark.deep
def test_ranges_and_pages_work_and_errors_are_explained(site: Service, visitor: httpx.Client) -> None:
    link = create_link(site)
    log_views(site, make_view(site, "/long-ago", 77, TODAY - 400))
    assert "/long-ago" in visitor.get(link, params={"range": "all"}).text
    assert "/long-ago" not in visitor.get(link).text
    for query in ({"range": "days", "from": "x", "to": "y"}, {"range": "forever"}, {"page": "0"}, {"page": "401"}):
        assert visitor.get(link, params=query).status_code == 400, query


def test_last_use_is_recorded(site: Service, visitor: httpx.Client) -> None:
    created = site.desk.sharing.links.create(site.project.id, actor="test")
    assert site.desk.sharing.links.get(site.project.id, created.link.id).last_used_at is None
    visitor.get(f"/share/{created.token}")
    used_at = site.desk.sharing.links.get(site.project.id, created.link.id).last_used_at
    assert used_at is not None
    assert clock.now() - used_at < clock.HOUR


def test_requests_are_limited_per_address_before_the_token_is_looked_up(
    running: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serve(
        tmp_path_factory.mktemp("limited"), repository=running.repository, with_worker=False, share_per_address=3
    ) as service:
        for number in range(5):
            answer = httpx.get(f"{service.url}/share/{random_text(32)}", timeout=60)
            assert answer.status_code == (404 if number < 3 else 429)
        assert "COPYDESK_SHARE_PER_ADDRESS" in answer.json()["error"]
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.deep
def test_administrator_creates_and_revokes_a_link_on_the_dashboard(
    running: Service, site: Service, visitor: httpx.Client
) -> None:
    admin = signed_in_client(running, "admin")
    path = f"/projects/{site.project.id}/sharing"
    page = admin.get(path).text
    fields = {"token": csrf_token_from_html(page), "id": page.split('name="id" value="')[1].split('"')[0]}
    form = {**fields, "name": "Sponsors", "expiry": "30", "use": "pages", "part": ["overview", "missing"]}
    headers = {"Origin": site.url}
    created = admin.post(path, data=form, headers=headers)
    assert created.status_code == 201
    match = re.search(r'value="(http[^"]+/share/[0-9A-Za-z]{32})"', created.text)
    assert match
    assert visitor.get(match[1]).status_code == 200
    assert admin.post(path, data=form, headers=headers).status_code == 409, "a reload creates no second link"
    listed = admin.get(path).text
    assert "Sponsors" in listed
    assert match[1].rpartition("/")[2] not in listed
    link = next(each for each in site.desk.sharing.links.list_for_project(site.project.id) if each.name == "Sponsors")
    revoked = admin.post(f"{path}/{link.id}/revoke", data=fields, headers=headers, follow_redirects=True)
    assert "Revoked Sponsors" in revoked.text
    assert visitor.get(match[1]).status_code == 404
    actions = [
        (entry["action"], entry["actor"]) for entry in audit_log.list_entries(site.desk.database, site.project.id)
    ]
    assert actions[:2] == [("share.revoked", "admin@example.org"), ("share.created", "admin@example.org")]
    assert "revoked the link Sponsors" in admin.get(f"/projects/{site.project.id}/audit").text


def test_badge_snippets_are_shown_once_and_escape_the_name(running: Service) -> None:
    hostile = running.another_project('A](x) "><script>')
    admin = signed_in_client(running, "admin")
    path = f"/projects/{hostile.project.id}/sharing"
    page = admin.get(path).text
    fields = {"token": csrf_token_from_html(page), "id": page.split('name="id" value="')[1].split('"')[0]}
    text = admin.post(path, data={**fields, "expiry": "none", "use": "badge"}, headers={"Origin": running.url}).text
    assert "badge.svg?metric=visitors&amp;days=30" in text
    assert r"![Visitors of A\](x)" in text
    assert "&amp;quot;&gt;&amp;lt;script&gt;" in text, "escaped for the snippet, and again for this page"
    assert "<script>alert" not in text


def test_api_and_client_create_list_and_revoke(site: Service, visitor: httpx.Client) -> None:
    created = site.client.create_share(["pages"], name="API", expires_in_days=2)
    assert visitor.get(created["url"]).status_code == 200
    listed = next(each for each in site.client.list_shares() if each["id"] == created["id"])
    assert (listed["parts"], listed["name"], "url" in listed) == (["pages"], "API", False)
    site.client.revoke_share(created["id"])
    assert visitor.get(created["url"]).status_code == 404
    address = f"/v1/analytics/{site.project.id}/shares"
    for body in ({"parts": ["jobs"]}, {"parts": ["badge", "pages"]}, {"expiresInDays": 0}, {"name": "a\nb"}):
        assert site.http.post(address, json=body).status_code == 400, body
    assert site.http.delete(f"{address}/share_00000000000000000000000000").status_code == 404
