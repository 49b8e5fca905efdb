"""The Python client's analytics methods, against a served Copydesk."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.core.clock import DAY
from copydesk_client import ApiError, Client, Unreachable, connection
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.webhook_receiver import receive_webhooks, send_raw

FIRST = (date(2026, 3, 1) - date(1970, 1, 1)).days


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("client")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service) -> Service:
    return running.another_project()


def log_view(site: Service, path: str, visitor: int, on: int = FIRST, agent: str = "Browser") -> None:
    site.desk.store.log_views([_make_view(site, path, visitor, on, agent)])


def _make_view(site: Service, path: str, visitor: int, on: int = FIRST, agent: str = "Browser") -> PageView:
    return PageView(
        site.project.id, path, on * DAY, VisitorClass.HUMAN, agent, "", "test", "1", visitor, "", "", 200, None
    )


@pytest.mark.deep
def test_every_report_has_a_client_method(site: Service) -> None:
    log_view(site, "/", 1)
    site.desk.feedback.add(site.project.id, "/", True, None, FIRST * DAY)
    one = {"human": 1, "ai": 0, "total": 1}
    client = site.client
    assert client.visitors() == {"totals": one, "visitors": [{"path": "/", **one}], "hasMore": False}
    assert client.views() == {"totals": one, "views": [{"path": "/", **one}], "hasMore": False}
    assert client.agents()["agents"][0]["class"] == "human"
    site.desk.store.log_views([_make_view(site, "/gone", 1)._replace(status=404)])
    assert client.missing("2026-03-01", "2026-03-02")["missing"] == list(client.rows("missing"))
    assert client.missing()["missing"][0]["lastSeenAt"] == "2026-03-01T00:00:00.000Z"
    assert client.timeseries(interval="month")["timeseries"] == [{"date": "2026-03-01", **one, "views": one}]
    assert client.feedback()["feedback"][0]["helpful"] is True
    assert client.feedback_by_page()["feedback"][0]["total"] == 1


@pytest.mark.parametrize(
    "second",
    [
        "2026-03-02",
        date(2026, 3, 2),
        datetime(2026, 3, 2, 12, tzinfo=UTC),
        datetime(2026, 3, 3, 1, 0, 0, 5, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_days_may_be_text_dates_or_datetimes(site: Service, second: str | date) -> None:
    log_view(site, "/one", 1)
    log_view(site, "/two", 1, FIRST + 1)
    assert [row["path"] for row in site.client.visitors(second)["visitors"]] == ["/two"]
    assert [row["path"] for row in site.client.visitors(None, second)["visitors"]] == ["/one"]


@pytest.mark.deep
def test_rows_are_fetched_in_several_requests(site: Service) -> None:
    site.desk.store.log_views([_make_view(site, f"/{n}", 1, agent=f"Agent {n}") for n in range(251)])
    for n in range(101):
        site.desk.feedback.add(site.project.id, f"/{n}", True, None, FIRST * DAY)
    client = site.client
    assert {row["path"] for row in client.rows("visitors")} == {f"/{n}" for n in range(251)}
    assert len(list(client.rows("views"))) == 251
    assert len({row["agent"] for row in client.rows("agents", "2026-03-01", "2026-03-02")}) == 251
    assert len({row["id"] for row in client.rows("feedback")}) == 101
    assert len({row["path"] for row in client.rows("feedback/by-page")}) == 101
    assert list(client.rows("visitors", "2026-03-02")) == []


@pytest.mark.deep
def test_events_are_sent_in_several_requests(site: Service) -> None:
    events = [{"path": f"/{n % 10}", "visitorId": str(n), "eventId": f"e{n}"} for n in range(1_500)]
    events[1_200] = {"path": "/logo.png"}
    taken = site.client.send_events(iter(events))
    assert (taken["accepted"], taken["duplicates"]) == (1_499, 0)
    assert [(dropped["index"], dropped["reason"]) for dropped in taken["dropped"]] == [(1_200, "not_a_page")]
    assert site.client.visitors()["totals"] == {"human": 1_499, "ai": 0, "total": 1_499}
    again = site.client.send_events(events)
    assert (again["accepted"], again["duplicates"]) == (0, 1_499)
    assert site.client.send_events([]) == {"accepted": 0, "duplicates": 0, "dropped": []}


@pytest.mark.parametrize(
    ("events", "attempts"), [([{"eventId": "1"}, {"eventId": "2"}], 4), ([{"eventId": "1"}, {}], 1), ([{}], 1)]
)
def test_events_are_sent_again_only_if_each_has_an_id(
    events: list[dict[str, str]], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=lambda seconds: None))
    with (
        receive_webhooks(lambda _: send_raw(b"")) as broken,
        Client(f"http://127.0.0.1:{broken.port}", "key", "project") as client,
        pytest.raises(Unreachable),
    ):
        client.send_events(events)
    assert len(broken.requests) == attempts


def test_refusal_raises_an_error_with_status_and_code(site: Service) -> None:
    with pytest.raises(ApiError, match="limit") as refused:
        site.client.visitors(limit=0)
    assert (refused.value.status, refused.value.code) == (400, "invalid_request")
    reader = Client(site.url, site.new_key(scopes=["read"]), site.project.id)
    with reader, pytest.raises(ApiError) as refused:
        reader.send_events([{"path": "/"}])
    assert (refused.value.status, refused.value.code) == (403, "scope_missing")
