"""A process that logs numbered batches, prints which were acknowledged, and folds in between, until it is killed."""

import itertools
import sys
import threading
from pathlib import Path

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import RunSizes
from copydesk.core.clock import DAY

BATCH_VIEWS = 20
MIN_FILTER_CAPACITY = 64
SMALL_COPIES = CopySizes(min_views=100, views_per_part=60)
SHORT_RUNS = RunSizes(recent=50, merged_runs=2, part=30, moved=100)


def make_batch(number: int) -> list[PageView]:
    """Makes the same batch for the same number. Days vary, visitors return, some as both human and AI."""
    return [
        PageView(
            "docs",
            f"/{event % 7}/{event % 2}/{event % 3}",
            (20_458 + event * 31 % 60) * DAY,
            VisitorClass.ASSISTANT if event % 5 == 0 else VisitorClass.HUMAN,
            "",
            "",
            "rule",
            "1",
            1 + event * 17 % 101,
            "",
            "",
            200,
            event,
        )
        for event in range(number * BATCH_VIEWS, (number + 1) * BATCH_VIEWS)
    ]


def log_batches(path: Path, number: int) -> None:
    store = DuckStore(
        path,
        min_checkpoint_bytes=50_000,
        run_sizes=SHORT_RUNS,
        min_indexed_views=0,
        min_large_views=1_000,
        min_filter_capacity=MIN_FILTER_CAPACITY,
        copy_sizes=SMALL_COPIES,
    )
    threading.Thread(target=_keep_folding, args=(store,), daemon=True).start()
    while True:
        store.log_views(make_batch(number))
        print(number, flush=True)  # noqa: T201 - this is the acknowledgement
        number += 1


def _keep_folding(store: DuckStore) -> None:
    """Folds, and asks for sections that are not in the index yet, so that they are added to it."""
    for number in itertools.count():
        store.fold()
        store.list_sections("docs", query=SectionQuery(f"/{number % 7}", 2))


if __name__ == "__main__":
    log_batches(Path(sys.argv[1]), int(sys.argv[2]))
