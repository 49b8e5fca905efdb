"""Moves the views of an embedded store to ClickHouse, in parts. If interrupted, run it again to resume."""

from pathlib import Path

from sqlalchemy import delete, insert, select

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster, build_cluster
from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
from copydesk.analytics.stores.clickhouse.folding.batches import DEFAULT_AI_MASK, set_ai_mask
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.database import DuckDatabase as EmbeddedDatabase
from copydesk.analytics.stores.duckdb.folding.compaction import merge_missing_referrers
from copydesk.analytics.stores.duckdb.ids.scopes import SECTION_SCOPE
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.analytics.tables import view_marks
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.runtime.batches import split_into_batches
from copydesk.transfer.backup.analytics_copy import inspect_duckdb_file
from copydesk.transfer.clickhouse_target import is_target_empty, require_empty_target
from copydesk.transfer.errors import MigrationFailed
from copydesk.transfer.exclusive_access import exclusive_analytics_access
from copydesk.transfer.migrate.analytics_tables import MOVED_TABLES, ROWS_PER_PART, load_sql
from copydesk.transfer.progress import Progress

NAMES_PER_BATCH = 100
MARK_PREFIX = "moved_"
"""Prefix of the marks in the main database that count a table's finished parts. Deleted when the move is complete."""
STARTED_MARK = "begun"
HOST_SORT = 6
"""Scopes of this sort and all above are referring hosts."""


def move_views(data_folder: Path, url: str, database: Database, progress: Progress) -> dict[str, int]:
    """Moves the views from the folder's file to ClickHouse, and rebuilds the visitor index there.

    `database` is the new main database. Verifies that both sides are equal, and returns the row count of each table."""
    _require_views(data_folder)
    cluster = build_cluster(parse_clickhouse_url(url))
    with exclusive_analytics_access(data_folder):
        target_store = ClickHouseStore(url, database, cluster)
        target_store.fold()  # creates the tables
        if not _read_marks(database) or is_target_empty(cluster):
            _prepare_source(data_folder, progress)
        source_file = EmbeddedDatabase(data_folder / DUCKDB_FILE)
        try:
            merge_missing_referrers(source_file)  # ClickHouse merges such rows, too, so the copies would differ
            with source_file.write() as source:  # writes only a temporary table
                _require_visits_in_table(source)
                _copy_tables(source, cluster, database, progress)
                _copy_ai_classes(source, database)
                progress.start_stage("building the visitor index")
                target_store.rebuild_index()
                return _verify_copy(source, cluster.reader, database, progress)
        finally:
            source_file.close()
            target_store.close()


def check_views(data_folder: Path, url: str) -> dict[str, int]:
    """Checks that the views can be moved: no process has the file open, and ClickHouse is available and empty.

    Returns the row count of each table."""
    _require_views(data_folder)
    cluster = build_cluster(parse_clickhouse_url(url))
    try:
        with exclusive_analytics_access(data_folder):
            require_empty_target(cluster)
            _, counts = inspect_duckdb_file(data_folder / DUCKDB_FILE)
            return {table.name: counts.get(table.name, 0) for table in MOVED_TABLES}
    finally:
        cluster.close()


def _prepare_source(data_folder: Path, progress: Progress) -> None:
    """Folds new views, and moves all visits into the table.

    Not repeated when a move is resumed, because its parts are ranges of row numbers.
    """
    progress.start_stage("folding new views")
    store = DuckStore(data_folder / DUCKDB_FILE)
    try:
        store.fold()
        while store.backlog():  # summing up many views takes several folds
            store.fold()
        store.move_visits_into_table()
    finally:
        store.close()


def _require_visits_in_table(source: DuckConnection) -> None:
    if source.execute("select 1 from visit_runs limit 1").fetchall():
        raise MigrationFailed(
            "Views were counted since the move began. Empty the database in ClickHouse, then start again."
        )


def _require_views(data_folder: Path) -> None:
    if not (data_folder / DUCKDB_FILE).exists():
        raise MigrationFailed(f"There are no views to move in {data_folder}.")


def _copy_tables(source: DuckConnection, cluster: Cluster, database: Database, progress: Progress) -> None:
    """Copies the parts that are not marked as finished. If the target is empty in spite of marks, starts over.

    ClickHouse recognizes an insert that is repeated, because its mark was not saved, by its token."""
    finished_parts = _read_marks(database)
    if not finished_parts:
        require_empty_target(cluster)
    if not finished_parts or is_target_empty(cluster):
        finished_parts = _reset_marks(database)
    _load_scope_hashes(source, cluster.reader)
    for table in MOVED_TABLES:
        first_part = finished_parts.get(table.name, 0)
        part_count = table.count_parts(source)
        progress.start_stage(table.name, part_count * ROWS_PER_PART)
        progress.advance(first_part * ROWS_PER_PART)
        for number in range(first_part, part_count):
            for shard, columns in table.read_part(source, number, len(cluster.shards)):
                token = f"{MARK_PREFIX}{finished_parts[STARTED_MARK]}-{table.name}-{number}-{shard}"
                cluster.shards[shard].insert(table.name, columns, list(table.columns.values()), token)
            _save_mark(database, table.name, number + 1)
            progress.advance(ROWS_PER_PART)


def _load_scope_hashes(source: DuckConnection, reader: Node) -> None:
    """Stores the hashes that identify pages, sites, agents and sources in ClickHouse, in a temporary table.

    Sections have none, so they are not moved: ClickHouse counts them from the visits of their pages.
    """
    source.execute("create or replace temp table hashes (id integer not null, hash ubigint not null)")
    query = (
        "select scopes.id, sort, name, path, agent, operator, kind from scopes join projects on projects.id = project"
        " where sort <> $1"
    )
    for batch in split_into_batches(source.execute(query, [SECTION_SCOPE]).fetchall(), NAMES_PER_BATCH):
        ids, sorts, projects, paths, agents, operators, kinds = map(list, zip(*batch, strict=True))
        params = {"projects": projects, "paths": paths, "agents": agents, "operators": operators, "kinds": kinds}
        [by_sort] = reader.query(load_sql("hashes"), params)
        rows = [
            (scope, by_sort[min(sort, HOST_SORT)][index])
            for index, (scope, sort) in enumerate(zip(ids, sorts, strict=True))
        ]
        source.executemany("insert into hashes values ($1, $2)", rows)


def _copy_ai_classes(source: DuckConnection, database: Database) -> None:
    rows = source.execute("select name, ai from projects where ai <> $1", [DEFAULT_AI_MASK]).fetchall()
    with database.write() as tx:
        for project, ai in rows:
            set_ai_mask(tx, project, ai)


def _verify_copy(source: DuckConnection, reader: Node, database: Database, progress: Progress) -> dict[str, int]:
    row_counts = {}
    for table in MOVED_TABLES:
        progress.start_stage(f"comparing {table.name}")
        source_sum = table.sum_source(source)
        target_sum = table.sum_target(reader)
        if source_sum != target_sum:
            raise MigrationFailed(
                f"The {table.name} differ: {source_sum[0]:,} rows in the source, {target_sum[0]:,} in ClickHouse."
                " Data has changed since the move began. Empty the database in ClickHouse, then start again."
            )
        row_counts[table.name] = source_sum[0]
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name.startswith(MARK_PREFIX)))
    return row_counts


def _reset_marks(database: Database) -> dict[str, int]:
    """Deletes the marks and stores the start time, which is part of the tokens.

    ClickHouse may still remember the tokens of an earlier attempt."""
    started_at = clock.now()
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name.startswith(MARK_PREFIX)))
        tx.execute(insert(view_marks).values(name=MARK_PREFIX + STARTED_MARK, value=started_at))
    return {STARTED_MARK: started_at}


def _read_marks(database: Database) -> dict[str, int]:
    with database.read() as tx:
        rows = tx.execute(select(view_marks).where(view_marks.c.name.startswith(MARK_PREFIX)))
        return {row.name.removeprefix(MARK_PREFIX): row.value for row in rows}


def _save_mark(database: Database, name: str, value: int) -> None:
    with database.write() as tx:
        tx.execute(delete(view_marks).where(view_marks.c.name == MARK_PREFIX + name))
        tx.execute(insert(view_marks).values(name=MARK_PREFIX + name, value=value))
