"""Rate limits in memory: separate for each owner, bounded, and shared by processes with the same database."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from copydesk.core.db.database import Database
from copydesk.core.rate_limits.in_memory import MAX_OWNERS, LocalRateLimiter, SharedRateLimiter
from copydesk.core.rate_limits.limits import RateLimit, TooManyRequests
from tests.support.processes import free_port

QUOTA = 100
EXPORTS = RateLimit("exports", QUOTA, 60_000)
TELLER = ThreadPoolExecutor(max_workers=1)


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


def is_refused(rate: SharedRateLimiter, owner: str = "a") -> bool:
    """Takes one from the limit; waits until other processes know of it."""
    try:
        rate.consume(owner)
    except TooManyRequests:
        return True
    finally:
        TELLER.submit(int).result()
    return False


def test_rate_limit_is_per_owner() -> None:
    rate = LocalRateLimiter(RateLimit("views", 3, 60_000))
    for owner in ("a", "b") * 3:
        rate.consume(owner)
    with pytest.raises(TooManyRequests) as refused:
        rate.consume("a")
    assert refused.value.headers["RateLimit-Policy"] == '"views";q=3;w=60'
    assert refused.value.headers["RateLimit"] == f'"views";r=0;t={refused.value.headers["Retry-After"]}'
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    rate.consume("c")


def test_rate_limit_resets_with_its_window() -> None:
    rate = LocalRateLimiter(RateLimit("views", 1, 20))
    rate.consume("a")
    threading.Event().wait(0.03)
    rate.consume("a")


def test_rate_limit_tracks_a_bounded_number_of_owners() -> None:
    rate = LocalRateLimiter(RateLimit("views", 1, 60_000))
    for owner in range(MAX_OWNERS * 2 + 10):
        rate.consume(owner)
        assert len(rate._uses_by_owner) <= MAX_OWNERS


def test_one_process_admits_the_quota_and_reports_the_remaining(database: Database) -> None:
    rate = SharedRateLimiter(EXPORTS, database, TELLER)
    left = [rate.consume("a")["RateLimit"].split(";")[1] for _ in range(QUOTA)]
    assert left == [f"r={number}" for number in reversed(range(QUOTA))]
    with pytest.raises(TooManyRequests):
        rate.consume("a")
    rate.consume("b")


def test_processes_together_exceed_the_quota_by_at_most_a_twentieth_each(database: Database) -> None:
    rates = [SharedRateLimiter(EXPORTS, database, TELLER) for _ in range(3)]
    taken = 0
    while not all(refusals := [is_refused(rate) for rate in rates]):
        taken += refusals.count(False)
    assert QUOTA <= taken <= QUOTA + len(rates) * QUOTA // 20


def test_uses_during_a_synchronization_are_counted(database: Database) -> None:
    rate = SharedRateLimiter(EXPORTS, database, TELLER)
    is_refused(rate)
    with database.write():  # SQLite has one writer, so the next synchronization waits
        for _ in range(10):
            rate.consume("a")
        threading.Event().wait(0.2)  # until the synchronization has begun
        for _ in range(QUOTA - 11):
            rate.consume("a")
    assert is_refused(rate)
    assert is_refused(rate), "also when it is synchronized"


def test_late_process_admits_one_request_beyond_the_quota(database: Database) -> None:
    first, late = SharedRateLimiter(EXPORTS, database, TELLER), SharedRateLimiter(EXPORTS, database, TELLER)
    assert [is_refused(first) for _ in range(QUOTA + 1)] == [False] * QUOTA + [True]
    assert [is_refused(late) for _ in range(3)] == [False, True, True]


def test_shared_window_ends_for_all_processes(database: Database) -> None:
    for window in (400, 3_000, 20_000):  # milliseconds; a busy machine needs longer windows for the first four lines
        limit, began = RateLimit(f"exports-{window}", 1, window), time.monotonic()
        first, second = SharedRateLimiter(limit, database, TELLER), SharedRateLimiter(limit, database, TELLER)
        outcomes = is_refused(first), is_refused(second), is_refused(second)
        if time.monotonic() - began < window / 1000:
            break
    assert outcomes == (False, False, True), "the second came late, and lets one through"
    threading.Event().wait(window / 1000 + 0.1)
    assert not is_refused(second)


def test_late_reports_are_not_charged_to_the_next_window(database: Database) -> None:
    for window in (300, 3_000, 20_000):  # milliseconds; a busy machine needs longer windows for nine calls
        rate = SharedRateLimiter(RateLimit(f"exports-{window}", 10, window), database, TELLER)
        held_up = threading.Event()
        TELLER.submit(held_up.wait, 60)
        for _ in range(9):
            rate.consume("a")
        threading.Event().wait(window / 1000 + 0.05)
        held_up.set()
        began = time.monotonic()
        outcomes = [is_refused(rate) for _ in range(9)]
        if time.monotonic() - began < window / 1000:
            break
    assert outcomes == [False] * 9


def test_limit_holds_per_process_while_the_database_is_unavailable() -> None:
    away = Database(f"postgresql+psycopg://desk@127.0.0.1:{free_port()}/desk")
    try:
        rate = SharedRateLimiter(RateLimit("exports", 3, 60_000), away, TELLER)
        assert [is_refused(rate) for _ in range(5)] == [False] * 3 + [True] * 2
    finally:
        away.close()
