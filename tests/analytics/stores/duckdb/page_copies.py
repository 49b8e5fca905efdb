"""Helpers for tests of the copy of visitors by page. As a program, it copies a store's parts until it is killed."""

import sys
from pathlib import Path

import duckdb

from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.folding.page_visitors import CopySizes
from tests.analytics.stores.conformance.test_store import log_and_fold, make_view

ROW_GROUP = 122_880
LARGE_PARTS = CopySizes(min_views=2 * ROW_GROUP, views_per_part=2 * ROW_GROUP)
PAGES = 100
COPIED_VIEWS = """
    select project, page, agent, source, (time // 86400000)::usmallint, visitor from views
    where seq <= (select value from marks where name = 'visitors_copied') and visitor is not null
        and agent in (select id from scopes where sort = 2)
"""
ADD_VIEWS = """
    insert into views
    select
        $last + number, project, pages[1 + number % len(pages)], agent, kind, rule, time + number // 1000 * 3600000,
        number * 7919 % 50021, host, referrer, source
    from views, range(1, $count + 1) as numbers (number),
        (select list(id order by id) as pages from scopes where sort = 0)
    where seq = 1
"""


def fill_store(path: Path, parts: int) -> None:
    """Makes a store whose raw views have this many large parts. They are not in the index, only marked as folded."""
    store = DuckStore(path)
    log_and_fold(store, *(make_view(f"/{number}", visitor=number) for number in range(PAGES)))
    store.close()
    count = parts * LARGE_PARTS.views_per_part - PAGES
    with duckdb.connect(str(path)) as connection:
        connection.execute(ADD_VIEWS, {"last": PAGES, "count": count})
        connection.execute("insert into folds values ($last)", {"last": PAGES + count})
        connection.execute("update marks set value = $last where name = 'summarized'", {"last": PAGES + count})


def read_differences(path: Path) -> list[tuple[object, ...]]:
    """Returns the rows that only the copy or only the raw views up to the mark have, with how often they occur."""
    with duckdb.connect(str(path), read_only=True) as connection:
        extra = connection.execute(f"from page_visitors except all ({COPIED_VIEWS})").fetchall()
        return [*extra, *connection.execute(f"({COPIED_VIEWS}) except all from page_visitors").fetchall()]


def read_last_copied_number(path: Path) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        [(number,)] = connection.execute("select value from marks where name = 'visitors_copied'").fetchall()
    return int(number)


def copy_parts(path: Path) -> None:
    store = DuckStore(path, copy_sizes=LARGE_PARTS)
    print("open", flush=True)  # noqa: T201 - the test waits for it
    while store.backlog():
        store.fold()
    print("done", flush=True)  # noqa: T201 - the test reads it
    store.close()


if __name__ == "__main__":
    copy_parts(Path(sys.argv[1]))
