"""A torn log, a damaged log, a full disk, a second process."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import LogResult
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import DEFAULT_RUN_SIZES, RunSizes
from copydesk.analytics.stores.errors import StoreDamaged, StoreFull, StoreInUse
from tests.analytics.stores.duckdb.writer import BATCH_VIEWS, SHORT_RUNS, make_batch

pytestmark = pytest.mark.deep

BATCHES = 10


@pytest.fixture
def torn_store(tmp_path: Path) -> tuple[Path, list[int]]:
    """Returns a store after a crash, and the length of its log after each batch."""
    running = tmp_path / "running"
    running.mkdir()
    store, sizes = DuckStore(running / "a.duckdb"), []
    for number in range(BATCHES):
        store.log_views(make_batch(number))
        sizes.append((running / "a.duckdb.wal").stat().st_size)
    shutil.copytree(running, tmp_path / "crashed")
    store.close()
    return tmp_path / "crashed" / "a.duckdb", sizes


@pytest.mark.parametrize("missing", [1, 7, 100])
def test_log_truncated_in_its_last_batch_keeps_all_earlier_batches(
    torn_store: tuple[Path, list[int]], missing: int
) -> None:
    path, sizes = torn_store
    os.truncate(f"{path}.wal", sizes[-1] - missing)
    store = DuckStore(path)
    assert store.backlog() == (BATCHES - 1) * BATCH_VIEWS
    assert store.log_views(make_batch(BATCHES - 1)) == LogResult(BATCH_VIEWS)
    assert store.log_views(make_batch(0)) == LogResult(0, tuple(range(BATCH_VIEWS)))
    assert store.fold() == BATCHES * BATCH_VIEWS
    store.close()


def test_a_log_damaged_in_the_middle_is_refused_and_left_alone(torn_store: tuple[Path, list[int]]) -> None:
    path, sizes = torn_store
    log = bytearray(Path(f"{path}.wal").read_bytes())
    log[sizes[4] + 40] ^= 255
    Path(f"{path}.wal").write_bytes(log)
    with pytest.raises(StoreDamaged):
        DuckStore(path)
    assert Path(f"{path}.wal").read_bytes() == log


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Limits the files of this process to this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("sizes", [DEFAULT_RUN_SIZES, SHORT_RUNS], ids=["recent visits", "runs"])
def test_full_disk_raises_store_full_and_loses_nothing(tmp_path: Path, sizes: RunSizes) -> None:
    store, accepted = DuckStore(tmp_path / "a.duckdb", run_sizes=sizes), 0
    with limit_file_size(40_000):
        for _ in range(3):
            with pytest.raises(StoreFull):
                for number in range(accepted, 1000):
                    store.log_views(make_batch(number))
                    accepted += 1
        assert store.backlog() == accepted * BATCH_VIEWS
        with pytest.raises(StoreFull):
            store.fold()
    assert accepted > 0
    assert store.log_views(make_batch(accepted)) == LogResult(BATCH_VIEWS)
    assert store.fold() == (accepted + 1) * BATCH_VIEWS
    store.close()
    store = DuckStore(tmp_path / "a.duckdb")
    assert store.count_views_by_page("docs").totals.total == (accepted + 1) * BATCH_VIEWS
    store.close()


def test_second_process_gets_an_error_that_the_store_is_in_use(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb")
    writer = [sys.executable, "-m", "tests.analytics.stores.duckdb.writer", str(tmp_path / "a.duckdb"), "0"]
    second = subprocess.run(writer, capture_output=True, text=True, check=False)
    store.close()
    assert StoreInUse.__name__ in second.stderr


def test_readers_and_writer_continue_during_folds_and_checkpoints(tmp_path: Path) -> None:
    store = DuckStore(tmp_path / "a.duckdb", min_checkpoint_bytes=20_000)
    done, failures = threading.Event(), list[BaseException]()

    def until_done(act: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                act()
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        page, seen = store.count_visitors_by_page("docs"), store.count_views_by_page("docs").totals.total
        assert seen % BATCH_VIEWS == 0
        assert page.totals.total <= 101
        time.sleep(0.01)

    threads = [threading.Thread(target=until_done, args=(act,)) for act in (store.fold, read, read)]
    for thread in threads:
        thread.start()
    for number in range(40):
        assert store.log_views(make_batch(number)) == LogResult(BATCH_VIEWS)
    done.set()
    for thread in threads:
        thread.join()
    store.fold()
    assert failures == []
    assert store.count_views_by_page("docs").totals.total == 40 * BATCH_VIEWS
    store.close()
