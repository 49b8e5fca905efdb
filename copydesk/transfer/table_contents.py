"""The tables of a database as a whole: what they hold, that they are dropped, and that they are filled."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection, func, inspect, select, text

from copydesk.transfer.row_codec import TABLES

T = TypeVar("T")
CONTENT_LABELS = {"projects": "projects", "people": "people", "jobs": "jobs", "feedback": "remarks of readers"}


def describe_contents(tx: Connection) -> str:
    """What would be missed, in words; empty when nobody would miss anything. A first start leaves a few rows too."""
    existing = set(inspect(tx).get_table_names())
    counts = {
        label: tx.execute(select(func.count()).select_from(TABLES[name])).scalar_one()
        for name, label in CONTENT_LABELS.items()
        if name in existing
    }
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)


def drop_tables(tx: Connection) -> None:
    """All of ours, also those of an older schema or of a move."""
    for table in reversed(TABLES.values()):
        table.drop(tx, checkfirst=True)
    for name in ("moving", "alembic_version"):
        tx.execute(text(f"drop table if exists {name}"))


def split_into_batches(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
