"""The batches of views that exist and are not yet folded. The main database has them, so that all processes agree."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text, update

from copydesk.analytics.stores.base import CLASS_BITS, DEFAULT_AI_CLASSES
from copydesk.analytics.tables import view_batches, view_classes, view_marks
from copydesk.core.clock import SECOND
from copydesk.core.db.database import Database
from copydesk.core.errors import StoreUnavailable

INCREMENT_BATCH_NUMBER = text("""
    insert into view_marks (name, value) values ('batch', 1)
    on conflict (name) do update set value = view_marks.value + 1
    returning value
""")
"""The row stays locked until the commit, so batches are numbered in the order of their commits."""
UPSERT_AI_MASK = text("""
    insert into view_classes (project_id, ai) values (:project, :ai)
    on conflict (project_id) do update set ai = excluded.ai
""")
SELECT_PENDING_BATCHES = select(view_batches.c.batch).distinct()
SELECT_LAST_BATCH_NUMBER = select(func.max(view_marks.c.value)).where(view_marks.c.name == "batch")
MAX_BATCH_AGE_MS = 300 * SECOND
"""A batch must be committed within this time. Older rows without a committed batch never get one and can be dropped."""
DEFAULT_AI_MASK = sum(CLASS_BITS[kind] for kind in DEFAULT_AI_CLASSES)


class BatchTooLate(StoreUnavailable):
    message = "Storing these page views took too long. Nothing from this request was stored."


@dataclass(frozen=True)
class BatchSnapshot:
    """The last batch number and the ids of batches that are not yet folded, at one moment."""

    last_number: int
    pending_ids: frozenset[int]


@dataclass(frozen=True)
class PendingBatch:
    number: int
    id: int
    rows: int


class ViewBatches:
    def __init__(self, database: Database) -> None:
        self.database = database

    def begin_batch(self) -> tuple[int, BatchSnapshot]:
        """Returns a new batch id and a snapshot.

        The first 48 bits of the id are the database's time in milliseconds.
        """
        now, snapshot = self.read_timed_snapshot()
        return now << 80 | secrets.randbits(80), snapshot

    def read_timed_snapshot(self) -> tuple[int, BatchSnapshot]:
        """Returns the database's time in milliseconds and a snapshot."""
        with self.database.read() as tx:
            return int(tx.execute(select(self.database.now)).scalar_one()), self.read_snapshot(tx)

    def read_snapshot(self, tx: Connection) -> BatchSnapshot:
        last_number = tx.execute(SELECT_LAST_BATCH_NUMBER).scalar() or 0
        return BatchSnapshot(
            last_number, frozenset(int(batch, 16) for batch in tx.execute(SELECT_PENDING_BATCHES).scalars())
        )

    def allocate_number(self, tx: Connection) -> int:
        """Returns the next batch number. Blocks commits of other batches until this transaction ends."""
        return int(tx.execute(INCREMENT_BATCH_NUMBER).scalar_one())

    def reject_late(self, tx: Connection, batch_id: int) -> None:
        if tx.execute(select(self.database.now)).scalar_one() - (batch_id >> 80) > MAX_BATCH_AGE_MS:
            raise BatchTooLate

    def add_batch(self, tx: Connection, number: int, batch_id: int, row_counts: Mapping[int, int]) -> None:
        """Adds a batch with its number of rows per shard. The batch exists once the transaction is committed."""
        batch_columns = {"number": number, "batch": f"{batch_id:032x}"}
        if row_counts:
            tx.execute(
                insert(view_batches),
                [{**batch_columns, "shard": shard, "rows": count} for shard, count in row_counts.items()],
            )

    def count_pending_views(self) -> int:
        with self.database.read() as tx:
            return int(tx.execute(select(func.sum(view_batches.c.rows))).scalar() or 0)

    def read_last_number(self) -> int:
        with self.database.read() as tx:
            return int(tx.execute(SELECT_LAST_BATCH_NUMBER).scalar() or 0)

    def list_for_shard(
        self, shard: int, upto: int | None = None, fold: int | None = None, limit: int | None = None
    ) -> list[PendingBatch]:
        """Returns batches of a shard, oldest first: unclaimed ones up to a number (`upto`), or those that a fold
        claimed."""
        query = select(view_batches).where(view_batches.c.shard == shard).order_by(view_batches.c.number).limit(limit)
        if upto is not None:
            query = query.where(view_batches.c.number <= upto, view_batches.c.fold.is_(None))
        if fold is not None:
            query = query.where(view_batches.c.fold == fold)
        with self.database.read() as tx:
            return [PendingBatch(row.number, int(row.batch, 16), row.rows) for row in tx.execute(query)]

    def read_ai_masks(self) -> dict[str, int]:
        """Returns the masks of AI classes of projects that changed the default."""
        with self.database.read() as tx:
            return {row.project_id: row.ai for row in tx.execute(select(view_classes))}

    def read_ai_mask(self, project: str) -> int:
        query = select(view_classes.c.ai).where(view_classes.c.project_id == project)
        with self.database.read() as tx:
            ai_mask = tx.execute(query).scalar()
        return DEFAULT_AI_MASK if ai_mask is None else int(ai_mask)


def claim_batches(tx: Connection, shard: int, fold: int, batches: Iterable[PendingBatch]) -> None:
    """Assigns batches to a fold, so that no other fold counts them."""
    params = [{"of": batch.number} for batch in batches]
    tx.execute(
        update(view_batches)
        .where(view_batches.c.shard == shard, view_batches.c.number == bindparam("of"))
        .values(fold=fold),
        params,
    )


def delete_folded_batches(tx: Connection, shard: int, fold: int) -> None:
    tx.execute(delete(view_batches).where(view_batches.c.shard == shard, view_batches.c.fold == fold))


def update_row_counts(tx: Connection, shard: int, row_counts: Mapping[int, int]) -> None:
    """Stores how many rows each batch has left, and deletes batches without rows."""
    for batch_id, count in row_counts.items():
        condition = (view_batches.c.shard == shard) & (view_batches.c.batch == f"{batch_id:032x}")
        statement = update(view_batches).values(rows=count) if count else delete(view_batches)
        tx.execute(statement.where(condition))


def set_ai_mask(tx: Connection, project: str, ai_mask: int) -> None:
    tx.execute(UPSERT_AI_MASK, {"project": project, "ai": ai_mask})


def clear_ai_mask(tx: Connection, project: str) -> None:
    tx.execute(delete(view_classes).where(view_classes.c.project_id == project))
