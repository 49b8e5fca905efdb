"""Moves the main database from one engine to another, in parts. If interrupted, run it again to resume."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    tuple_,
)

from copydesk.analytics.tables import view_batches, view_classes, view_folds, view_marks
from copydesk.core.db.migrate import (
    SCHEMA_VERSION,
    UNFINISHED_VERSION,
    read_schema_version,
    reject_newer_schema,
    upgrade_schema,
)
from copydesk.transfer.errors import MigrationFailed
from copydesk.transfer.exclusive_access import exclusive_connection, is_database_missing
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import ROWS_PER_BATCH, TABLES, RowCodec, compute_digest, stream_rows
from copydesk.transfer.table_contents import describe_contents, drop_tables

VIEW_TABLES = {view_batches, view_classes, view_folds, view_marks}
"""Tables that an analytics store writes. The views may be moved later, so these may change after the move."""
migration_progress = Table(
    "moving", MetaData(), Column("name", String(60), primary_key=True), Column("last", Text, nullable=False)
)
"""The key of the last copied row of each table. Written together with the rows; dropped when the move is complete."""


def check_database(source_url: str, target_url: str, progress: Progress) -> dict[str, int]:
    """Checks that the database can be moved, and writes nothing. Returns the row count of each table.

    No other process may use the source or the target, and the target must be empty and accept every row."""
    with ExitStack() as stack:
        if is_database_missing(target_url):
            stack.callback(Path(str(make_url(target_url).database)).unlink, missing_ok=True)
        source, target = _open_both(stack, source_url, target_url)
        with source.begin(), target.begin():
            reject_newer_schema(read_schema_version(source))
            _require_empty_target(target)
            row_counts = {}
            for name, table in TABLES.items():
                codec = RowCodec(table)
                row_counts[name] = _count_rows(source, table)
                progress.start_stage(name, row_counts[name])
                for row in stream_rows(source, codec.build_select()):
                    _validate_row(codec, row)
                    progress.advance(1)
            return row_counts


def move_database(source_url: str, target_url: str, progress: Progress, *, start_over: bool = False) -> dict[str, int]:
    """Moves all tables and verifies that both sides are equal. Returns the row count of each table."""
    with ExitStack() as stack:
        source, target = _open_both(stack, source_url, target_url)
        with source.begin():
            reject_newer_schema(read_schema_version(source))
        if row_counts := _find_finished_move(source, target):
            return row_counts
        with target.begin():
            _prepare_target(target, start_over)
        source_transaction = stack.enter_context(source.begin())
        if source.dialect.name == "postgresql":
            source.exec_driver_sql(f"lock table {', '.join(TABLES)} in share mode")
        with target.begin():
            last_keys = {row.name: json.loads(row.last) for row in target.execute(select(migration_progress))}
        for table in TABLES.values():
            _copy_table(source, target, table, last_keys.get(table.name), progress)
        row_counts = {name: _verify_table(source, target, table, progress) for name, table in TABLES.items()}
        with target.begin():
            migration_progress.drop(target)
            target.execute(text("update alembic_version set version_num = :head"), {"head": SCHEMA_VERSION})
            if target.dialect.name == "postgresql":
                target.exec_driver_sql(f"analyze {', '.join(TABLES)}")  # the planner needs statistics
        source_transaction.rollback()
        return row_counts


def _open_both(stack: ExitStack, source_url: str, target_url: str) -> tuple[Connection, Connection]:
    if source_url == target_url:
        raise MigrationFailed("The source and the target are the same database.")
    location = make_url(source_url).render_as_string(hide_password=True)
    no_database = MigrationFailed(
        f"There is no database to move at {location}. Check COPYDESK_DATA and COPYDESK_DATABASE_URL."
    )
    if is_database_missing(source_url):
        raise no_database
    source = stack.enter_context(exclusive_connection(source_url))
    with source.begin():
        if read_schema_version(source) is None:
            raise no_database
    return source, stack.enter_context(exclusive_connection(target_url))


def _find_finished_move(source: Connection, target: Connection) -> dict[str, int]:
    """Returns the row count of each table if the target already holds all rows, else an empty dictionary.

    That happens if a move was complete but was interrupted before it could report that."""
    with source.begin(), target.begin():
        if read_schema_version(target) != SCHEMA_VERSION or not describe_contents(target):
            return {}
        row_counts = {}
        for table in (table for table in TABLES.values() if table not in VIEW_TABLES):
            source_digest = compute_digest(source, RowCodec(table))
            target_digest = compute_digest(target, RowCodec(table))
            if source_digest != target_digest:
                return {}
            row_counts[table.name] = target_digest.rows
        return row_counts


def _prepare_target(target: Connection, start_over: bool) -> None:
    """Creates empty tables, or keeps those of a move to resume. Marks the target as unfinished until the move ends."""
    version = read_schema_version(target)
    if version == UNFINISHED_VERSION and not start_over:
        if not inspect(target).has_table(migration_progress.name):
            raise MigrationFailed(
                "The target holds an unfinished 'copydesk restore'. Run that again, or discard it with --start-over."
            )
        return
    if version != UNFINISHED_VERSION:
        _require_empty_target(target)
    drop_tables(target)
    upgrade_schema(target)
    migration_progress.create(target)
    target.execute(text("update alembic_version set version_num = :unfinished"), {"unfinished": UNFINISHED_VERSION})


def _require_empty_target(target: Connection) -> None:
    version = read_schema_version(target)
    if version != UNFINISHED_VERSION:
        reject_newer_schema(version)
        if version is not None and (contents := describe_contents(target)):
            raise MigrationFailed(f"The target is not empty: it holds {contents}. Use an empty database.")


def _copy_table(
    source: Connection, target: Connection, table: Table, last_key: Sequence[Any] | None, progress: Progress
) -> None:
    codec = RowCodec(table)
    key_indexes = [place for place, column in enumerate(codec.columns) if column.primary_key]
    keys = [codec.columns[place] for place in key_indexes]
    progress.start_stage(table.name, _count_rows(source, table))
    with target.begin():
        progress.advance(_count_rows(target, table))
    while True:
        query = codec.build_select().order_by(*keys).limit(ROWS_PER_BATCH)
        if last_key is not None:
            query = query.where(tuple_(*keys) > tuple_(*last_key))
        batch = source.execute(query).all()
        if not batch:
            return
        for row in batch:
            _validate_row(codec, row)
        last_key = [batch[-1][place] for place in key_indexes]
        with target.begin():
            codec.insert_rows(target, batch)
            target.execute(delete(migration_progress).where(migration_progress.c.name == table.name))
            target.execute(insert(migration_progress).values(name=table.name, last=json.dumps(last_key)))
        progress.advance(len(batch))


def _verify_table(source: Connection, target: Connection, table: Table, progress: Progress) -> int:
    progress.start_stage(f"comparing {table.name}")
    codec = RowCodec(table)
    source_digest = compute_digest(source, codec)
    with target.begin():
        target_digest = compute_digest(target, codec)
    if source_digest != target_digest:
        raise MigrationFailed(
            f"The table {table.name} differs: {source_digest.rows:,} rows in the source,"
            f" {target_digest.rows:,} in the target."
            " The source has changed since the move began. Run it again with --start-over."
        )
    return source_digest.rows


def _count_rows(tx: Connection, table: Table) -> int:
    return int(tx.execute(select(func.count()).select_from(table)).scalar_one())


def _validate_row(codec: RowCodec, row: Sequence[Any]) -> None:
    if fault := codec.find_fault(row):
        raise MigrationFailed(
            f"PostgreSQL cannot store {codec.describe_row(row)}: {fault}. Fix it in the source first."
        )
