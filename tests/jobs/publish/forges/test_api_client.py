"""Every response of a forge becomes a validated value or a clear error; a token is sent to one host only."""

import time
from typing import Any

import pytest
from pydantic import BaseModel

from copydesk.jobs.job import Reason, RepositoryFailed
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forges.rest import api_client as forge_http
from copydesk.jobs.publish.forges.rest.api_client import ApiClient
from tests.jobs.publish.forges.stub import StubAnswer, StubServer, serve_stub

TOKEN = "tok_5e3c8a1f9b7d"


class StubThing(BaseModel):
    number: int


def api_client(served: StubServer, **options: Any) -> ApiClient:
    return ApiClient(f"{served.url}/api/v1", lambda: f"Bearer {TOKEN}", headers={}, **options)


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"", b"[]", b'{"number": "seven"}', b"[" * 100_000])
def test_unexpected_response_is_reported_in_one_sentence(body: bytes) -> None:
    with serve_stub(StubAnswer(200, body)) as served, pytest.raises(ForgeRefused, match="not from a forge's API"):
        api_client(served).request(StubThing, "GET", "/things/1")


def test_malformed_response_to_a_write_counts_as_unavailable() -> None:
    with serve_stub(StubAnswer(201, b"<html>")) as served, pytest.raises(ForgeUnavailable):
        api_client(served).request(StubThing, "POST", "/things", body={})


def test_endless_response_is_cut_off() -> None:
    endless = StubAnswer(200, b" " * (forge_http.MAX_RESPONSE_BYTES + 2_000_000))
    with serve_stub(endless) as served, pytest.raises(ForgeRefused, match="more than 16 MiB"):
        api_client(served).request(StubThing, "GET", "/things/1")


def test_redirect_to_another_host_is_not_followed_and_does_not_say_that_the_repository_moved() -> None:
    with serve_stub(StubAnswer(200, {"number": 1})) as elsewhere:
        moved = StubAnswer(301, {}, {"Location": f"{elsewhere.url}/things/1"})
        with serve_stub(moved) as served, pytest.raises(ForgeRefused, match=r"redirect to 127\.0\.0\.1:") as refused:
            api_client(served).request(StubThing, "GET", "/things/1")
        assert "moved" not in str(refused.value)
        assert refused.value.reason is Reason.REPOSITORY_ERROR
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("status", "location", "sentence"),
    [
        (301, "/api/v1/repositories/7", "has moved"),
        (307, "/api/v1/repositories/7", "has moved"),
        (308, "/api/v1/repositories/7", "has moved"),
        (302, "/users/sign_in", "answered 302 with a redirect, which Copydesk does not follow"),
        (304, "", "answered 304"),
        (301, "https://{host}/api/v1/things/1", "redirects to https://"),
    ],
)
def test_only_a_permanent_redirect_on_the_same_host_says_that_the_repository_moved(
    status: int, location: str, sentence: str
) -> None:
    with serve_stub(StubAnswer()) as served:
        target = location.format(host=served.url.removeprefix("http://"))
        served.answers = [StubAnswer(status, b"", {"Location": target})]
        with pytest.raises(ForgeRefused) as refused:
            api_client(served).request(StubThing, "GET", "/things/1")
    assert sentence in str(refused.value)
    assert ("has moved" in str(refused.value)) == (sentence == "has moved")


def test_pagination_is_bounded_and_stays_on_the_same_host() -> None:
    with serve_stub(StubAnswer(200, [{"number": 9}])) as elsewhere:
        following = {"Link": f'<{elsewhere.url}/things?page=2>; rel="next"'}
        with serve_stub(StubAnswer(200, [{"number": 1}], following), StubAnswer(200, [{"number": 2}])) as served:
            found = list(api_client(served).paginate(StubThing, "/things", {"limit": 1}))
        assert [thing.number for thing in found] == [1, 2]
        assert [asked.path for asked in served.requests] == [
            "/api/v1/things?limit=1&page=1",
            "/api/v1/things?limit=1&page=2",
        ]
        assert elsewhere.requests == []


def test_next_page_is_read_if_only_its_number_is_sent() -> None:
    pages = [
        StubAnswer(200, [{"number": number}], {"X-Next-Page": following}) for number, following in ((1, "2"), (2, ""))
    ]
    with serve_stub(*pages) as served:
        assert [thing.number for thing in api_client(served).paginate(StubThing, "/things", {})] == [1, 2]
    assert len(served.requests) == 2


def test_announced_page_without_items_ends_the_list() -> None:
    """GitLab announces a page after the last one of some lists."""
    pages = [StubAnswer(200, items, {"X-Next-Page": "2"}) for items in ([{"number": 1}], [])]
    with serve_stub(*pages) as served:
        assert [thing.number for thing in api_client(served).paginate(StubThing, "/things", {})] == [1]
    assert len(served.requests) == 2


def test_endless_pagination_is_stopped() -> None:
    with serve_stub(StubAnswer(200, [{"number": 1}], {"Link": '</things?page=2>; rel="next"'})) as served:
        assert len(list(api_client(served).paginate(StubThing, "/things", {}))) == forge_http.MAX_PAGES


@pytest.mark.parametrize(
    ("answer", "retry_after"),
    [
        (StubAnswer(500, b"oops"), None),
        (StubAnswer(503, b"", {"Retry-After": "7"}), 7),
        (StubAnswer(429, {"message": "Retry later"}, {"Retry-After": "3"}), 3),
        (StubAnswer(403, {"message": "You have exceeded a secondary rate limit."}, {"Retry-After": "60"}), 60),
        (StubAnswer(403, {"message": "API rate limit exceeded"}), 60),
        (StubAnswer(403, {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}), 60),
        (StubAnswer(429, {"message": "You have exceeded a secondary rate limit."}), 60),
        (StubAnswer(403, {"message": "You have triggered an abuse detection mechanism. Please wait."}), 60),
    ],
)
def test_transient_errors_count_as_unavailable(answer: StubAnswer, retry_after: float | None) -> None:
    with serve_stub(answer) as served, pytest.raises(ForgeUnavailable) as away:
        api_client(served).request(StubThing, "GET", "/things/1")
    assert away.value.retry_after == retry_after


def test_exhausted_rate_limit_says_when_it_resets() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 120)}
    with serve_stub(StubAnswer(403, {"message": "no"}, headers)) as served, pytest.raises(ForgeUnavailable) as away:
        api_client(served).request(StubThing, "GET", "/things/1")
    assert away.value.retry_after == pytest.approx(120, abs=3)


def test_unreachable_host_counts_as_unavailable() -> None:
    with serve_stub(StubAnswer()) as served:
        gone = api_client(served)
    with pytest.raises(ForgeUnavailable, match="cannot be reached"):
        gone.request(StubThing, "GET", "/things/1")


@pytest.mark.parametrize(
    ("status", "body", "reason", "sentence"),
    [
        (401, {"message": "Bad credentials"}, Reason.REPOSITORY_ERROR, "expired or been revoked: Bad credentials."),
        (403, {"message": "No"}, Reason.REPOSITORY_ERROR, "answered 403: No."),
        (404, {"message": "Not Found"}, Reason.REPOSITORY_ERROR, "answered 404: Not Found."),
        (
            422,
            {"message": "Validation Failed", "errors": [{"resource": "PullRequest", "message": "No commits"}]},
            Reason.PUBLISH_REFUSED,
            "422: Validation Failed; No commits.",
        ),
        (409, {"message": ["Another open merge request already exists"]}, Reason.PUBLISH_REFUSED, "409: Another open"),
        (400, {"message": {"title": ["is too long"]}}, Reason.PUBLISH_REFUSED, "400: title: is too long."),
        (400, {"error": "title is missing"}, Reason.PUBLISH_REFUSED, "400: title is missing."),
        (418, b"<html>teapot</html>", Reason.PUBLISH_REFUSED, "answered 418."),
    ],
)
def test_refusal_quotes_the_forges_message(status: int, body: Any, reason: Reason, sentence: str) -> None:
    with serve_stub(StubAnswer(status, body)) as served, pytest.raises(ForgeRefused) as refused:
        api_client(served).request(StubThing, "GET", "/things/1")
    assert sentence in str(refused.value)
    assert (refused.value.reason, refused.value.status) == (reason, status)


def test_refusal_names_the_missing_permission() -> None:
    refusal = StubAnswer(403, {"message": "No"}, {"X-Accepted-GitHub-Permissions": "pull_requests=write"})
    with serve_stub(refusal) as served, pytest.raises(ForgeRefused, match="requires pull_requests: write"):
        api_client(served).request(StubThing, "POST", "/pulls")


@pytest.mark.parametrize("said", [f"Bad token {TOKEN}", "Bad ghp_abcdefghijklmnop0123", "Bad glpat-abcdefgh12345678"])
@pytest.mark.parametrize("status", [401, 403, 422, 500])
def test_a_refusal_never_repeats_a_secret(status: int, said: str) -> None:
    with (
        serve_stub(StubAnswer(status, {"message": said})) as served,
        pytest.raises((ForgeRefused, ForgeUnavailable)) as refused,
    ):
        api_client(served).request(StubThing, "GET", "/things/1")
    assert "Bad" in str(refused.value)
    assert said.rpartition(" ")[2] not in str(refused.value)


def test_private_addresses_are_refused_if_the_project_forbids_them() -> None:
    with serve_stub(StubAnswer(200, {"number": 1})) as served:
        with pytest.raises(RepositoryFailed, match="private address"):
            api_client(served, allow_private=False)
        assert served.requests == []


def test_untrusted_certificate_is_refused_before_the_token_is_sent() -> None:
    with serve_stub(StubAnswer(200, {"number": 1})) as served:
        secure = ApiClient(served.url.replace("http:", "https:"), lambda: f"Bearer {TOKEN}", headers={})
        with pytest.raises((ForgeUnavailable, ForgeRefused)):
            secure.request(StubThing, "GET", "/things/1")
        assert served.requests == []
