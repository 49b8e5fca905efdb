"""One store for several processes that come, go, are killed or are paused."""

import os
import socket
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, LogResult, PageQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.errors import DayOutOfRange, StoreInUse
from copydesk.analytics.stores.report_rows import Counts
from copydesk.analytics.stores.shared import SharedStore
from copydesk.analytics.stores.shared.client import StoreServerLost, StoreServerSilent, StoreVersionMismatch
from copydesk.core.clock import DAY
from copydesk.core.errors import StoreUnavailable
from tests.analytics.stores.shared.neighbor import BATCH_VIEWS, MONDAY, NeighborProcess, make_view, start_neighbors


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SharedStore]:
    opened = SharedStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[NeighborProcess]:
    """A process that owns the store of the folder."""
    with start_neighbors(tmp_path) as [neighbour]:
        neighbour.ask("backlog")
        yield neighbour


def count_views(store: SharedStore, path: str | None = None) -> int:
    store.fold()
    page = store.count_views_by_page("docs")
    return page.totals.total if path is None else next((r.count.total for r in page.rows if r.path == path), 0)


@pytest.mark.deep
def test_every_process_sees_views_logged_by_others(owner: NeighborProcess, store: SharedStore) -> None:
    assert owner.ask("log_views", [make_view("/a", 1, 7)]) == LogResult(1)
    assert store.log_views([make_view("/a", 2), make_view("/b", 1, 7)]) == LogResult(1, (1,))
    assert store.fold() == 2
    for page in (store.count_visitors_by_page("docs"), owner.ask("count_visitors_by_page", "docs")):
        assert page.totals == Counts(2, 0, 2)


@pytest.mark.deep
def test_guest_gets_the_same_answers_as_the_owner(owner: NeighborProcess, store: SharedStore, tmp_path: Path) -> None:
    store.set_ai_classes("docs", {"search", "training"})
    store.log_views([make_view("/ä", 2**63 - 1, 2**128 - 1), make_view("/b", None, day=MONDAY + 1)])
    store.log_views([make_view("/ä", 5)._replace(kind=VisitorClass.TRAINING, agent="Gatherer")])
    store.fold()
    for name, *arguments in (
        ("count_visitors_by_page", "docs", DayRange(MONDAY, MONDAY + 1), 1, 0),
        ("count_views_by_page", "docs", ALL_DAYS, 1, 1),
        ("count_visitors_by_page", "docs", ALL_DAYS, 1, 0, PageQuery("Ä", "path", False)),
        ("list_agents", "docs"),
        ("list_rules", "docs"),
        ("load_timeseries", "docs", "week"),
        ("count_site_totals", ["docs", "other"]),
        ("load_hours", "docs", MONDAY * DAY, (MONDAY + 2) * DAY),
        ("backlog",),
        ("fold",),
    ):
        assert getattr(store, name)(*arguments) == owner.ask(name, *arguments), name
    assert store.count_views_by_page("docs").totals == Counts(2, 1, 3)
    assert [each.views.total for each in store.count_site_totals({"docs"})] == [3]
    store.rebuild_index()
    store.forget_visitor("docs", 2**63 - 1)
    assert store.count_visitors_by_page("docs").totals == Counts(0, 1, 1)
    assert store.delete_raw_views(MONDAY + 1) == 2
    store.back_up(tmp_path / "copy.duckdb")
    store.forget_project("docs")
    assert count_views(store) == 0
    assert DuckStore(tmp_path / "copy.duckdb").count_views_by_page("docs").totals.total == 3


@pytest.mark.deep
def test_guest_gets_the_owners_exception(owner: NeighborProcess, store: SharedStore) -> None:
    with pytest.raises(DayOutOfRange, match="between 1970-01-02 and"):
        store.log_views([make_view(), make_view(day=0)])
    assert store.backlog() == 0
    assert store.log_views([]) == LogResult(0)


@pytest.mark.deep
def test_stores_opened_concurrently_in_one_process_are_shared(tmp_path: Path) -> None:
    stores = [SharedStore(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(len(stores)) as pool:
        logged = list(pool.map(lambda store: store.log_views([make_view(event=7), make_view()]), stores))
    assert sorted(one.accepted for one in logged) == [1, 1, 1, 2]
    assert count_views(stores[0]) == 5
    for store in stores:
        store.close()


@pytest.mark.deep
def test_processes_that_start_at_once_agree_on_an_owner(tmp_path: Path, store: SharedStore) -> None:
    with start_neighbors(tmp_path, 4) as all_of_them:
        for number, neighbour in enumerate(all_of_them):
            neighbour.begin("log_views", [make_view(visitor=number + 1, event=number), make_view(event=99)])
        logged = [neighbour.answer() for neighbour in all_of_them]
        assert sorted(one.accepted for one in logged) == [1, 1, 1, 2]
        assert count_views(store) == 5


@pytest.mark.deep
def test_calls_succeed_while_ownership_is_handed_over(tmp_path: Path) -> None:
    """Checks that no view is lost or counted twice although views carry no event ids, and that no call fails."""
    owner, guest = SharedStore(tmp_path), SharedStore(tmp_path)
    owner.backlog()
    over = threading.Event()
    calls = Counter[SharedStore]()

    def go_on(store: SharedStore) -> tuple[int, bool]:
        kept = 0
        while not over.is_set():
            try:
                kept += store.log_views([make_view() for _ in range(BATCH_VIEWS)]).accepted
            except StoreUnavailable:
                return kept, False
            calls[store] += 1
        return kept, True

    def wait_for_calls(*stores: SharedStore) -> None:
        """Returns after some more calls of each store."""
        before, deadline = calls.copy(), time.monotonic() + 60
        while any(calls[store] < before[store] + 20 for store in stores):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with ThreadPoolExecutor(4) as pool:
        closing = [pool.submit(go_on, owner) for _ in range(2)]
        going_on = [pool.submit(go_on, guest) for _ in range(2)]
        wait_for_calls(owner, guest)
        owner.close()
        wait_for_calls(guest)
        over.set()
    done = [each.result() for each in closing + going_on]
    assert [lasted for _, lasted in done] == [False, False, True, True]
    assert all(kept > 0 for kept, _ in done)
    assert count_views(guest) == sum(kept for kept, _ in done)
    guest.close()


@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.drill)])
@pytest.mark.deep
def test_nothing_is_lost_or_counted_twice_when_owners_are_killed(
    tmp_path: Path, store: SharedStore, count: int
) -> None:
    with start_neighbors(tmp_path, count) as loaders:
        said = {loader: Counter[str]() for loader in loaders}
        for number, loader in enumerate(loaders):
            loader.begin("go on logging", f"/{number}")
        for killed, loader in enumerate(loaders):
            for alive in loaders[killed:]:  # the remaining processes continue with the new owner
                kept = said[alive]["kept"]
                while said[alive]["kept"] < kept + 20:
                    said[alive][alive.answer()] += 1
            loader.kill()
        for number, loader in enumerate(loaders):
            with suppress(EOFError):
                while True:
                    said[loader][loader.answer()] += 1
            views, seen = count_views(store, f"/{number}"), said[loader]
            assert views % BATCH_VIEWS == 0, "a call was carried out in part"
            assert seen["kept"] * BATCH_VIEWS <= views <= seen["sent"] * BATCH_VIEWS
            assert seen["sent"] <= seen["kept"] + seen["unknown"] + 1
            assert seen["unknown"] < count, "only a kill makes a call uncertain"


@pytest.mark.parametrize("event", [5, None])
@pytest.mark.deep
def test_a_call_whose_owner_is_killed_is_repeated_only_if_it_cannot_count_twice(
    owner: NeighborProcess, store: SharedStore, event: int | None
) -> None:
    store.backlog()
    owner.pause()
    with ThreadPoolExecutor(1) as pool:
        logging = pool.submit(store.log_views, [make_view(event=event)])
        time.sleep(0.4)  # the owner has the call and cannot respond anymore
        owner.kill()
        if event is None:
            with pytest.raises(StoreServerLost):
                logging.result()
        else:
            assert logging.result() == LogResult(1)
    assert count_views(store) == (0 if event is None else 1)


@pytest.mark.deep
def test_a_socket_that_a_killed_owner_left_is_replaced(
    tmp_path: Path, owner: NeighborProcess, store: SharedStore
) -> None:
    owner.kill()
    assert (tmp_path / "analytics.sock").exists()
    store.log_views([make_view()])
    with start_neighbors(tmp_path) as [guest]:
        assert guest.ask("backlog") == 1
    store.close()
    assert not (tmp_path / "analytics.sock").exists()


@pytest.mark.deep
def test_calls_to_a_paused_owner_time_out_and_are_not_executed_later(tmp_path: Path, owner: NeighborProcess) -> None:
    guest = SharedStore(tmp_path, timeout_seconds=1)
    guest.log_views([make_view()])
    owner.pause()
    begun = time.monotonic()
    for views in ([make_view()], [make_view() for _ in range(5000)]):  # the second fills the socket
        with pytest.raises(StoreServerSilent):
            guest.log_views(views)
    assert time.monotonic() - begun < 60
    owner.resume()
    assert owner.ask("backlog") == 1
    guest.log_views([make_view()])
    assert count_views(guest) == 2
    guest.close()


@pytest.mark.deep
def test_guest_waits_for_a_long_call_while_the_owner_is_alive(tmp_path: Path, owner: NeighborProcess) -> None:
    guest = SharedStore(tmp_path, timeout_seconds=2)
    guest.log_views([make_view(f"/{number % 50}", 1 + number % 9000) for number in range(20_000)])
    assert guest.fold() == 20_000
    guest.close()


@pytest.mark.deep
def test_malformed_request_does_not_affect_other_guests(
    tmp_path: Path, owner: NeighborProcess, store: SharedStore
) -> None:
    lines = []
    for data in (b"", b"\x00", b"\xff\xff\xff\xffhalf of it", struct.pack(">I", 3) + b"{]}", struct.pack(">I", 9)):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(str(tmp_path / "analytics.sock"))
        line.sendall(data)
        lines.append(line)
    hidden = b'["close"]'
    lines[-1].sendall(hidden)
    assert store.log_views([make_view()]) == LogResult(1)
    for line in lines:
        line.close()
    assert owner.ask("backlog") == 1


def test_owner_of_another_version_is_reported(tmp_path: Path, store: SharedStore) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "analytics.sock"))
        listener.listen()

        def greet() -> None:
            with listener.accept()[0] as line:
                line.sendall(struct.pack(">I", 12) + b"copydesk 0.0")

        threading.Thread(target=greet).start()
        with pytest.raises(StoreVersionMismatch, match="another version"):
            store.backlog()


def test_only_its_user_can_reach_the_socket(tmp_path: Path, store: SharedStore) -> None:
    before = os.umask(0)
    try:
        store.backlog()
    finally:
        os.umask(before)
    for name in ("analytics.sock", "analytics.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_socket_works_in_a_folder_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 30) / ("longer " * 20)
    folder.mkdir(parents=True)
    owner, guest = SharedStore(folder), SharedStore(folder)
    owner.log_views([make_view()])
    assert guest.backlog() == 1
    guest.close()
    owner.close()
    assert not (folder / "analytics.sock").exists()


@pytest.mark.deep
def test_file_locked_by_another_program_is_reported_as_in_use(tmp_path: Path, owner: NeighborProcess) -> None:
    (tmp_path / "analytics.sock").unlink()
    (tmp_path / "analytics.lock").unlink()  # as if the owner were a program that uses neither file
    store = SharedStore(tmp_path, timeout_seconds=0.3)
    with pytest.raises(StoreInUse):
        store.backlog()
    store.close()


def test_a_closed_store_stays_closed(tmp_path: Path, store: SharedStore) -> None:
    store.backlog()
    store.close()
    with pytest.raises(StoreUnavailable):
        store.backlog()
    DuckStore(tmp_path / "analytics.duckdb").close()
