"""The tables of a database as a whole: what they hold, that they are dropped, and that they are filled."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection, func, inspect, select, text

from copydesk.transfer.row_codec import TABLES

T = TypeVar("T")
TOLD = {"projects": "projects", "people": "people", "jobs": "jobs", "feedback": "remarks of readers"}


def told(tx: Connection) -> str:
    """What would be missed, in words; empty when nobody would miss anything. A first start leaves a few rows too."""
    there = set(inspect(tx).get_table_names())
    counts = {
        words: tx.execute(select(func.count()).select_from(TABLES[name])).scalar_one()
        for name, words in TOLD.items()
        if name in there
    }
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)


def drop_tables(tx: Connection) -> None:
    """All of ours, also those of an older schema or of a move."""
    for table in reversed(TABLES.values()):
        table.drop(tx, checkfirst=True)
    for name in ("moving", "alembic_version"):
        tx.execute(text(f"drop table if exists {name}"))


def parts(of: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    rest = iter(of)
    while part := list(islice(rest, size)):
        yield part
