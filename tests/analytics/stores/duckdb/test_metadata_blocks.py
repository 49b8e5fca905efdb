"""A checkpoint that is killed while it writes does not damage the store."""

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.metadata_blocks import HEADERS_BYTES, get_copy_path, restore_metadata_blocks
from copydesk.analytics.stores.report_rows import ReportPage
from copydesk.core.errors import StoreUnavailable
from tests.analytics.stores.duckdb.writer import make_batch

pytestmark = pytest.mark.deep

BLOCK_BYTES = 262_144
BATCHES = 40
FILL_AND_DIE = f"""
import os, sys
from pathlib import Path
from copydesk.analytics.stores.duckdb import DuckStore
from tests.analytics.stores.duckdb.writer import make_batch
store = DuckStore(Path(sys.argv[1]))
for number in range({BATCHES}):
    store.log_views(make_batch(number))
    if number == {BATCHES // 2}:
        store.fold()
        store._database.checkpoint(force=True)
store.fold()
os._exit(0)
"""
"""Leaves a file whose last changes are in the write-ahead log."""
CHECKPOINT_AND_KEEP_COPY = """
import os, sys
from pathlib import Path
from copydesk.analytics.stores.duckdb.database import DuckDatabase
database = DuckDatabase(Path(sys.argv[1]))
Path.unlink = lambda path, missing_ok: None
database.checkpoint(force=True)
os._exit(0)
"""
LOCK_AND_WAIT = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
input()
"""


def run(script: str, path: Path) -> None:
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


def ask(path: Path) -> ReportPage:
    store = DuckStore(path)
    store.fold()
    report = store.count_visitors_by_page("docs", DayRange(), 50, 0)
    store.close()
    return report


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Path, ReportPage]:
    """A store as it is after a kill in the middle of a checkpoint's writes: half of each overwritten block is new.

    Returns its path and what it should report.
    """
    path = tmp_path / "analytics.duckdb"
    run(FILL_AND_DIE, path)
    finished = tmp_path / "finished"
    finished.mkdir()
    for name in (path.name, f"{path.name}.wal"):
        shutil.copy(tmp_path / name, finished)
    run(CHECKPOINT_AND_KEEP_COPY, finished / path.name)
    shutil.copy(get_copy_path(finished / path.name), tmp_path)
    before, after = path.read_bytes(), (finished / path.name).read_bytes()
    assert before[:HEADERS_BYTES] != after[:HEADERS_BYTES], "the checkpoint did not finish"
    content, torn_blocks = bytearray(before), 0
    for start in range(HEADERS_BYTES, len(before), BLOCK_BYTES):
        old, new = before[start : start + BLOCK_BYTES], after[start : start + BLOCK_BYTES]
        if old != new:
            content[start : start + 8] = new[:8]  # the checksum is at the beginning
            torn_blocks += 1
    assert torn_blocks, "the checkpoint overwrote nothing in place"
    path.write_bytes(content)
    return path, ask(finished / path.name)


def test_duckdb_alone_cannot_open_a_file_with_a_torn_block(torn: tuple[Path, ReportPage]) -> None:
    path, _ = torn
    with pytest.raises(duckdb.Error, match="checksum"):
        duckdb.connect(str(path))


def test_torn_blocks_are_put_back_and_nothing_is_lost(torn: tuple[Path, ReportPage]) -> None:
    path, wanted = torn
    assert ask(path) == wanted
    assert wanted.totals.total > 0
    assert not get_copy_path(path).exists()


@pytest.mark.parametrize("harm", ["cut", "changed", "empty"])
def test_copy_that_is_not_whole_is_not_used(torn: tuple[Path, ReportPage], harm: str) -> None:
    path, _ = torn
    copy = get_copy_path(path)
    content = copy.read_bytes()
    copy.write_bytes({"cut": content[:-1], "changed": content[:-1] + b"x", "empty": b""}[harm])
    before = path.read_bytes()
    assert not restore_metadata_blocks(path)
    assert path.read_bytes() == before


def test_copy_of_another_database_is_not_used(torn: tuple[Path, ReportPage], tmp_path: Path) -> None:
    path, _ = torn
    other = tmp_path / "other.duckdb"
    DuckStore(other).close()
    shutil.copy(get_copy_path(path), get_copy_path(other))
    before = other.read_bytes()
    assert not restore_metadata_blocks(other)
    assert other.read_bytes() == before


def test_database_that_another_process_uses_is_left_alone(torn: tuple[Path, ReportPage]) -> None:
    path, _ = torn
    command = [sys.executable, "-c", LOCK_AND_WAIT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdin is not None
        assert owner.stdout.readline() == "locked\n"
        before = path.read_bytes()
        assert not restore_metadata_blocks(path)
        assert path.read_bytes() == before
        owner.stdin.write("\n")


def test_checkpoint_that_cannot_save_the_blocks_is_refused_and_views_stay(tmp_path: Path) -> None:
    path = tmp_path / "analytics.duckdb"
    store = DuckStore(path)
    store.log_views(make_batch(0))
    store.fold()
    get_copy_path(path).mkdir()  # the copy cannot be written
    with pytest.raises(StoreUnavailable):
        store._database.checkpoint(force=True)
    store.close()
    assert path.with_name(f"{path.name}.wal").exists()
    get_copy_path(path).rmdir()
    assert ask(path).totals.total > 0
