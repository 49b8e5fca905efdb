"""Which batches of views exist, and which of them are counted: agreed on in the main database, one commit at a time."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text, update

from copydesk.analytics.stores.base import AI, BITS
from copydesk.analytics.tables import view_batches, view_classes, view_marks
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.errors import StoreDown

NUMBER = text("""
    insert into view_marks (name, value) values ('batch', 1)
    on conflict (name) do update set value = view_marks.value + 1
    returning value
""")
"""The row stays locked until the commit, so that batches are numbered in the order in which they come to exist."""
CHOOSE = text("""
    insert into view_classes (project_id, ai) values (:project, :ai)
    on conflict (project_id) do update set ai = excluded.ai
""")
PENDING = select(view_batches.c.batch).distinct()
LAST = select(func.max(view_marks.c.value)).where(view_marks.c.name == "batch")
OLDEST = 300 * SECOND
"""A batch must come to exist within this time, so that what never will can be told and dropped."""
AI_BY_DEFAULT = sum(BITS[kind] for kind in AI)


class TooLate(StoreDown):
    message = "Storing these page views took too long; nothing from this request was stored."


@dataclass(frozen=True)
class Known:
    """What exists at a moment: the last number given out, and the batches that are not counted yet."""

    last: int
    batches: frozenset[int]


@dataclass(frozen=True)
class Batch:
    number: int
    id: int
    rows: int


class Batches:
    def __init__(self, database: Database) -> None:
        self.database = database

    def begin(self) -> tuple[int, Known]:
        """A new batch's id, which begins with the database's time, and what is known at that time."""
        now, known = self.moment()
        return now << 80 | secrets.randbits(80), known

    def moment(self) -> tuple[int, Known]:
        """The database's time, and what is known at it."""
        with self.database.read() as tx:
            return int(tx.execute(select(self.database.now)).scalar_one()), self.known(tx)

    def known(self, tx: Connection) -> Known:
        last = tx.execute(LAST).scalar() or 0
        return Known(last, frozenset(int(batch, 16) for batch in tx.execute(PENDING).scalars()))

    def number(self, tx: Connection) -> int:
        """The next batch's; no other can come to exist before this transaction ends."""
        return int(tx.execute(NUMBER).scalar_one())

    def refuse_late(self, tx: Connection, batch: int) -> None:
        if tx.execute(select(self.database.now)).scalar_one() - (batch >> 80) > OLDEST:
            raise TooLate

    def add(self, tx: Connection, number: int, batch: int, rows: Mapping[int, int]) -> None:
        """Makes a batch exist, with so many rows in each shard, once the transaction is committed."""
        named = {"number": number, "batch": f"{batch:032x}"}
        if rows:
            tx.execute(
                insert(view_batches), [{**named, "shard": shard, "rows": count} for shard, count in rows.items()]
            )

    def backlog(self) -> int:
        with self.database.read() as tx:
            return int(tx.execute(select(func.sum(view_batches.c.rows))).scalar() or 0)

    def last(self) -> int:
        with self.database.read() as tx:
            return int(tx.execute(LAST).scalar() or 0)

    def of(self, shard: int, upto: int | None = None, fold: int | None = None, most: int | None = None) -> list[Batch]:
        """A shard's, oldest first: those up to a number, or those of a fold."""
        asked = select(view_batches).where(view_batches.c.shard == shard).order_by(view_batches.c.number).limit(most)
        if upto is not None:
            asked = asked.where(view_batches.c.number <= upto, view_batches.c.fold.is_(None))
        if fold is not None:
            asked = asked.where(view_batches.c.fold == fold)
        with self.database.read() as tx:
            return [Batch(row.number, int(row.batch, 16), row.rows) for row in tx.execute(asked)]

    def masks(self) -> dict[str, int]:
        """What counts as AI in the projects that chose."""
        with self.database.read() as tx:
            return {row.project_id: row.ai for row in tx.execute(select(view_classes))}

    def mask(self, project: str) -> int:
        asked = select(view_classes.c.ai).where(view_classes.c.project_id == project)
        with self.database.read() as tx:
            found = tx.execute(asked).scalar()
        return AI_BY_DEFAULT if found is None else int(found)


def claim(tx: Connection, shard: int, fold: int, batches: Iterable[Batch]) -> None:
    """These are counted by this fold and no other."""
    numbers = [{"of": batch.number} for batch in batches]
    tx.execute(
        update(view_batches)
        .where(view_batches.c.shard == shard, view_batches.c.number == bindparam("of"))
        .values(fold=fold),
        numbers,
    )


def counted(tx: Connection, shard: int, fold: int) -> None:
    tx.execute(delete(view_batches).where(view_batches.c.shard == shard, view_batches.c.fold == fold))


def recounted(tx: Connection, shard: int, rows: Mapping[int, int]) -> None:
    """So many rows are left in these batches; one of which nothing is left is none."""
    for batch, count in rows.items():
        mine = (view_batches.c.shard == shard) & (view_batches.c.batch == f"{batch:032x}")
        changed = update(view_batches).values(rows=count) if count else delete(view_batches)
        tx.execute(changed.where(mine))


def choose(tx: Connection, project: str, ai: int) -> None:
    tx.execute(CHOOSE, {"project": project, "ai": ai})


def unchoose(tx: Connection, project: str) -> None:
    tx.execute(delete(view_classes).where(view_classes.c.project_id == project))
