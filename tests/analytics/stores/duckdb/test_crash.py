"""A killed process loses no acknowledged view and counts none twice."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import ALL_DAYS, TOP_SECTIONS, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from tests.analytics.stores.conformance.model import ReferenceStore
from tests.analytics.stores.duckdb.page_copies import read_differences, read_last_copied_number
from tests.analytics.stores.duckdb.writer import BATCH_VIEWS, MIN_FILTER_CAPACITY, SMALL_COPIES, make_batch

pytestmark = pytest.mark.deep

MIN_BATCHES = 3
"""A writer that is killed while it writes has acknowledged at least so many batches, however busy the machine is."""


def run_and_kill_writer(path: Path, number: int, seconds: float, *, writing: bool) -> int:
    """Runs a writer from this batch on and kills it after `seconds` from its start, or from its first batches.

    Returns the number after the last acknowledged batch.
    """
    command = [sys.executable, "-m", "tests.analytics.stores.duckdb.writer", str(path), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = [writer.stdout.readline() for _ in range(MIN_BATCHES if writing else 0)]
        time.sleep(seconds)
        writer.kill()
        said = "".join(first) + writer.communicate()[0]
    whole = said[: said.rfind("\n") + 1].split()
    return int(whole[-1]) + 1 if whole else number


def kill_repeatedly(path: Path, rounds: int, seed: int) -> None:
    chance, acknowledged = random.Random(seed), 0
    for number in range(rounds):
        # Kills while the writer opens, recovers, logs, folds or writes back. In two of three rounds the test waits
        # until the writer has written, which may take long on a busy machine.
        writing = number % 3 != 2
        seconds = chance.uniform(0, 0.6) if writing else chance.uniform(0.2, 0.9)
        acknowledged = run_and_kill_writer(path, acknowledged, seconds, writing=writing)
        if chance.random() < 0.5:
            continue  # the next writer recovers from two crashes
        store = DuckStore(path, min_filter_capacity=MIN_FILTER_CAPACITY)
        store.fold()
        total = store.count_views_by_page("docs").totals.total
        store.close()
        assert total % BATCH_VIEWS == 0, "a batch was kept in part"
        assert acknowledged * BATCH_VIEWS <= total <= (acknowledged + 1) * BATCH_VIEWS
    store, model = (
        DuckStore(path, min_filter_capacity=MIN_FILTER_CAPACITY, copy_sizes=SMALL_COPIES),
        ReferenceStore(),
    )
    for number in range(acknowledged + 1):
        views = make_batch(number)
        store.log_views(views)
        model.log_views(views)
    store.fold()
    model.fold()
    found, wanted = (
        store.count_visitors_by_page("docs", ALL_DAYS, 50, 0),
        model.count_visitors_by_page("docs", ALL_DAYS, 50, 0),
    )
    assert (found.totals, list(found.rows)) == (wanted.totals, list(wanted.rows))
    for query in (TOP_SECTIONS, *(SectionQuery(f"/{number}", 2) for number in range(7))):
        section, wanted_section = (each.list_sections("docs", ALL_DAYS, 50, 0, query) for each in (store, model))
        assert (section.totals, list(section.rows)) == (wanted_section.totals, list(wanted_section.rows))
    for page in ("/0/0/0", "/3/1/1", "/6/0/2"):
        assert store.load_page("docs", page) == model.load_page("docs", page, ALL_DAYS)
    store.close()
    assert read_last_copied_number(path) > 0
    assert read_differences(path) == []
    assert acknowledged >= MIN_BATCHES * (rounds * 2 // 3), "the writers hardly got to write"


def test_every_acknowledged_batch_is_counted_once_after_kills(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "analytics.duckdb", rounds=6, seed=time.time_ns())


@pytest.mark.drill
def test_every_acknowledged_batch_is_counted_once_after_two_hundred_kills(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "analytics.duckdb", rounds=200, seed=time.time_ns())
