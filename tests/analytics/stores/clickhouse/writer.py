"""A separate server process: logs views whose events others log too, prints which it stored, and folds sometimes.

python -m tests.analytics.stores.clickhouse.writer <ClickHouse> <main database> <seed> <views>
"""

import random
import sys

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import migrate
from tests.analytics.stores.conformance.test_store import MONDAY, make_view

EVENTS = 400
VISITORS = 50


def main(url: str, main_url: str, seed: str, views: str) -> None:
    chance, database = random.Random(int(seed)), Database(main_url)
    migrate(database)
    store = ClickHouseStore(url, database)
    for _ in range(int(views) // 20):
        events = [chance.randrange(EVENTS) for _ in range(20)]
        logged = store.log_views([view_for_event(event) for event in events])
        stored = [event for position, event in enumerate(events) if position not in logged.duplicates]
        print(*stored, flush=True)  # noqa: T201 - for the test that started it
        if chance.random() < 0.3:
            store.fold()
    store.fold()
    store.close()
    database.close()


def view_for_event(event: int) -> PageView:
    return make_view(f"/{event % 7}", MONDAY + event % 5, visitor=event % VISITORS + 1, event=event)


if __name__ == "__main__":
    main(*sys.argv[1:])
