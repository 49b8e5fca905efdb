"""Views that arrive together share a commit, and each request gets the result of its own views."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.analytics.ingest import collector as collect
from copydesk.analytics.ingest.collector import Collector, CollectorBusy, NumberedEvent, split_result, views_from_events
from copydesk.analytics.ingest.event_schema import EVENT_FIELDS, Event, validate_event
from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.page_view import Dropped, DropReason, PageView, VisitorClass
from copydesk.analytics.stores.base import LogResult
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.errors import StoreFull

NOW = 1_790_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore(tmp_path / "analytics.duckdb")
    yield opened
    opened.close()


def make_view(path: str = "/a", event: int | None = None) -> PageView:
    return PageView("prj_1", path, NOW, VisitorClass.HUMAN, "", "", "browser", "1", 7, "", "", 200, event)


def run_concurrently(keepers: Sequence[Awaitable[LogResult]]) -> list[Any]:
    async def all_at_once() -> list[Any]:
        return list(await asyncio.gather(*keepers, return_exceptions=True))

    return asyncio.run(all_at_once())


class CountingLog:
    """Counts the views of each call of a store's log."""

    def __init__(self, log: Callable[[Sequence[PageView]], LogResult]) -> None:
        self.log, self.calls = log, list[int]()

    def __call__(self, views: Sequence[PageView]) -> LogResult:
        self.calls.append(len(views))
        return self.log(views)


def test_concurrent_requests_share_a_commit(store: DuckStore) -> None:
    log, told = CountingLog(store.log_views), list[int]()
    collector = Collector(log, lambda: told.append(store.backlog()))
    kept = run_concurrently([collector.save([make_view(f"/{number}")]) for number in range(50)])
    assert kept == [LogResult(1)] * 50
    assert log.calls == [50]
    assert told == [50], "whoever counts is told once the views are there"


def test_requests_during_a_commit_form_the_next_commit(store: DuckStore) -> None:
    log = CountingLog(store.log_views)
    collector = Collector(log, lambda: None)

    async def one_by_one() -> None:
        keeping = []
        for number in range(30):
            keeping.append(asyncio.create_task(collector.save([make_view(f"/{number}")])))
            await asyncio.sleep(0.001)
        assert await asyncio.gather(*keeping) == [LogResult(1)] * 30

    asyncio.run(one_by_one())
    assert sum(log.calls) == 30
    assert log.calls[0] == 1, "nobody waits for company when nothing is under way"
    assert len(log.calls) < 15


@pytest.mark.deep
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(1, 12)), max_size=4), max_size=8))
@settings(deadline=None)
def test_each_request_gets_its_own_duplicates(tmp_path_factory: pytest.TempPathFactory, sent: Any) -> None:
    store = DuckStore(tmp_path_factory.mktemp("collect") / "analytics.duckdb")
    collector, known, expected = Collector(store.log_views, lambda: None), set[int](), []
    for events in sent:
        repeated = []
        for place, event in enumerate(events):
            if event is not None and event in known:
                repeated.append(place)
            known |= {event} - {None}
        expected.append(LogResult(len(events) - len(repeated), tuple(repeated)))
    assert (
        run_concurrently([collector.save([make_view(event=event) for event in events]) for events in sent]) == expected
    )
    assert store.backlog() == sum(logged.accepted for logged in expected)
    store.close()


@given(st.lists(st.integers(0, 5)), st.data())
def test_shares_of_a_commit_add_up_to_its_total(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    repeated = data.draw(st.sets(st.integers(0, total - 1))) if total else set()
    found = split_result(LogResult(total - len(repeated), tuple(repeated)), sizes)
    assert [logged.accepted + len(logged.duplicates) for logged in found] == sizes
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    assert {start + own for start, logged in zip(starts, found, strict=True) for own in logged.duplicates} == repeated


def test_failed_commit_fails_every_request(store: DuckStore) -> None:
    full = threading.Event()

    def log(views: Sequence[PageView]) -> LogResult:
        if full.is_set():
            raise StoreFull
        return store.log_views(views)

    collector = Collector(log, lambda: None)
    full.set()
    failed = run_concurrently([collector.save([make_view()]) for _ in range(5)])
    assert [type(outcome) for outcome in failed] == [StoreFull] * 5
    full.clear()
    assert run_concurrently([collector.save([make_view()])]) == [LogResult(1)]
    assert store.backlog() == 1


def test_request_that_cannot_be_stored_fails_alone(store: DuckStore) -> None:
    collector = Collector(store.log_views, lambda: None)
    wrong = make_view()._replace(path="\ud800")
    kept = run_concurrently(
        [collector.save([make_view()]), collector.save([wrong]), collector.save([make_view(), make_view()])]
    )
    assert kept[0] == LogResult(1)
    assert isinstance(kept[1], Exception)
    assert kept[2] == LogResult(2)
    assert store.backlog() == 3


def test_views_beyond_the_buffer_limit_are_refused_until_there_is_room(store: DuckStore) -> None:
    going, many = threading.Event(), [make_view()] * (collect.MAX_WAITING_VIEWS // 2)

    def log(views: Sequence[PageView]) -> LogResult:
        assert going.wait(10)
        return LogResult(len(views))

    collector = Collector(log, lambda: None)

    async def too_many() -> None:
        waiting = [asyncio.create_task(collector.save(many)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(CollectorBusy) as busy:
            await collector.save([make_view()])
        assert (busy.value.status, busy.value.headers["Retry-After"]) == (503, "1")
        going.set()
        await asyncio.gather(*waiting)
        assert await collector.save([make_view()]) == LogResult(1)

    asyncio.run(too_many())


def test_canceled_request_does_not_affect_others(store: DuckStore) -> None:
    collector = Collector(store.log_views, lambda: None)

    async def give_up() -> None:
        given_up, other = (asyncio.create_task(collector.save([make_view()])) for _ in range(2))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await other == LogResult(1)
        assert await collector.save([make_view()]) == LogResult(1)

    asyncio.run(give_up())


def test_stored_views_are_acknowledged_even_if_notifying_fails(store: DuckStore) -> None:
    def nobody() -> None:
        raise RuntimeError("nobody there")

    assert run_concurrently([Collector(store.log_views, nobody).save([make_view()])]) == [LogResult(1)]


def test_empty_request_makes_no_commit() -> None:
    def log(views: Sequence[PageView]) -> LogResult:
        raise AssertionError("there is nothing to log")

    assert run_concurrently([Collector(log, lambda: None).save([])]) == [LogResult(0)]


def test_unknown_fields_of_an_event_are_ignored() -> None:
    assert validate_event({"path": "/a", "colour": 1}) == Event(path="/a")
    assert validate_event({"path": 3, "x" * 1000: 1}) == Dropped(DropReason.BAD_FIELD, "path")


def test_dropped_events_do_not_change_the_numbers_of_others(site: SiteConfig) -> None:
    sent: list[NumberedEvent] = [
        (3, Event(path="/a")),
        (5, Dropped(DropReason.NOT_JSON)),
        (8, validate_event(None)),
        (9, Event(path="/b", status=403)),
    ]
    views, dropped = views_from_events(sent, site, NOW)
    assert [view.path for view in views] == ["/a"]
    assert [(number, drop.reason) for number, drop in dropped] == [
        (5, DropReason.NOT_JSON),
        (8, DropReason.NOT_AN_EVENT),
        (9, DropReason.NOT_SUCCESSFUL),
    ]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)
EVENT = st.dictionaries(st.sampled_from(sorted(EVENT_FIELDS)), JSON, max_size=6)


@pytest.mark.deep
@given(st.lists(st.one_of(EVENT, JSON), max_size=5))
def test_every_event_becomes_a_view_or_a_drop_reason(site: SiteConfig, sent: list[object]) -> None:
    views, dropped = views_from_events(enumerate(map(validate_event, sent)), site, NOW)
    assert len(views) + len(dropped) == len(sent)
    assert all(drop.message for _, drop in dropped)
