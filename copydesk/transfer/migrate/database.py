"""The main database goes from one engine to another, in parts: killed at any moment, it goes on where it was."""

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
from copydesk.core.db.migrate import HEAD, UNFINISHED, bring_up, refuse_newer, schema_of
from copydesk.transfer.errors import CannotMove
from copydesk.transfer.exclusive_access import alone, is_missing
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import AT_ONCE, TABLES, Lines, rows, tally
from copydesk.transfer.table_contents import drop_tables, told

OF_VIEWS = {view_batches, view_classes, view_folds, view_marks}
"""What a store of views writes, which may be moved after the rest."""
moving = Table("moving", MetaData(), Column("name", String(60), primary_key=True), Column("last", Text, nullable=False))
"""How far each table is, by the key of the last row; written together with the rows, and dropped when all is done."""


def check(source_url: str, target_url: str, progress: Progress) -> dict[str, int]:
    """Whether it could be moved: nobody at either, the target empty, and every row such as the target takes. Nothing is
    written. The rows of each table."""
    with ExitStack() as opened:
        if is_missing(target_url):
            opened.callback(Path(str(make_url(target_url).database)).unlink, missing_ok=True)
        source, target = _both(opened, source_url, target_url)
        with source.begin(), target.begin():
            if schema_of(source) != HEAD:
                raise CannotMove("The database is of an older version: start Copydesk on it once, and stop it again.")
            _refuse_full(target)
            found = {}
            for name, table in TABLES.items():
                lines = Lines(table)
                found[name] = _count(source, table)
                progress.begin(name, found[name])
                for row in rows(source, lines.chosen()):
                    _refuse_fault(lines, row)
                    progress.advance(1)
            return found


def move(source_url: str, target_url: str, progress: Progress, *, start_over: bool = False) -> dict[str, int]:
    """The rows of each table, once they are the same on both sides."""
    with ExitStack() as opened:
        source, target = _both(opened, source_url, target_url)
        with source.begin():
            bring_up(source)
        if found := _moved_before(source, target):
            return found
        with target.begin():
            _prepare(target, start_over)
        held = opened.enter_context(source.begin())
        if source.dialect.name == "postgresql":
            source.exec_driver_sql(f"lock table {', '.join(TABLES)} in share mode")
        with target.begin():
            reached = {row.name: json.loads(row.last) for row in target.execute(select(moving))}
        for table in TABLES.values():
            _copy(source, target, table, reached.get(table.name), progress)
        found = {name: _compared(source, target, table, progress) for name, table in TABLES.items()}
        with target.begin():
            moving.drop(target)
            target.execute(text("update alembic_version set version_num = :head"), {"head": HEAD})
            if target.dialect.name == "postgresql":
                target.exec_driver_sql(f"analyze {', '.join(TABLES)}")  # else the first queries are planned blindly
        held.rollback()
        return found


def _both(opened: ExitStack, source_url: str, target_url: str) -> tuple[Connection, Connection]:
    if source_url == target_url:
        raise CannotMove("Both addresses are the same database.")
    missing = CannotMove("There is no database to move: COPYDESK_DATA and COPYDESK_DATABASE_URL say where it is.")
    if is_missing(source_url):
        raise missing
    source = opened.enter_context(alone(source_url))
    with source.begin():
        if schema_of(source) is None:
            raise missing
    return source, opened.enter_context(alone(target_url))


def _moved_before(source: Connection, target: Connection) -> dict[str, int]:
    """The rows of each table, where all of them are there already: then the move was only not known to have ended."""
    with source.begin(), target.begin():
        if schema_of(target) != HEAD or not told(target):
            return {}
        found = {}
        for table in (table for table in TABLES.values() if table not in OF_VIEWS):
            there, here = tally(source, Lines(table)), tally(target, Lines(table))
            if there != here:
                return {}
            found[table.name] = here.rows
        return found


def _prepare(target: Connection, start_over: bool) -> None:
    """From here on until all is done, the target says that it is not whole."""
    version = schema_of(target)
    if version == UNFINISHED and not start_over:
        if not inspect(target).has_table(moving.name):
            raise CannotMove("A 'copydesk restore' has not ended there: run it again, or give it up with --start-over.")
        return
    if version != UNFINISHED:
        _refuse_full(target)
    drop_tables(target)
    bring_up(target)
    moving.create(target)
    target.execute(text("update alembic_version set version_num = :unfinished"), {"unfinished": UNFINISHED})


def _refuse_full(target: Connection) -> None:
    version = schema_of(target)
    if version != UNFINISHED:
        refuse_newer(version)
        if version is not None and (what := told(target)):
            raise CannotMove(f"There is something in the target: {what}. Name an empty database.")


def _copy(source: Connection, target: Connection, table: Table, last: Sequence[Any] | None, progress: Progress) -> None:
    lines = Lines(table)
    places = [place for place, column in enumerate(lines.columns) if column.primary_key]
    keys = [lines.columns[place] for place in places]
    progress.begin(table.name, _count(source, table))
    with target.begin():
        progress.advance(_count(target, table))
    while True:
        wanted = lines.chosen().order_by(*keys).limit(AT_ONCE)
        if last is not None:
            wanted = wanted.where(tuple_(*keys) > tuple_(*last))
        part = source.execute(wanted).all()
        if not part:
            return
        for row in part:
            _refuse_fault(lines, row)
        last = [part[-1][place] for place in places]
        with target.begin():
            lines.insert(target, part)
            target.execute(delete(moving).where(moving.c.name == table.name))
            target.execute(insert(moving).values(name=table.name, last=json.dumps(last)))
        progress.advance(len(part))


def _compared(source: Connection, target: Connection, table: Table, progress: Progress) -> int:
    progress.begin(f"comparing {table.name}")
    lines = Lines(table)
    there = tally(source, lines)
    with target.begin():
        here = tally(target, lines)
    if there != here:
        raise CannotMove(
            f"The table {table.name} is not the same on both sides ({there.rows:,} rows, and {here.rows:,}):"
            " the source has changed since the move began. Run it again with --start-over."
        )
    return there.rows


def _count(tx: Connection, table: Table) -> int:
    return int(tx.execute(select(func.count()).select_from(table)).scalar_one())


def _refuse_fault(lines: Lines, row: Sequence[Any]) -> None:
    if fault := lines.fault(row):
        raise CannotMove(f"{lines.name_of(row)} cannot be kept by PostgreSQL: {fault}. Mend it in the source first.")
