"""Applies the committed plan of a shard. Idempotent: this process or its successor may apply it again."""

from collections.abc import Sequence

from copydesk.analytics.stores.clickhouse.connection.node import Node, split_into_chunks
from copydesk.analytics.stores.clickhouse.folding.apply_correction import (
    CORRECTION_TABLES,
    MARK_TABLE_APPLIED,
    apply_correction,
    drop_correction,
)
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches, update_row_counts
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease, ShardPlan
from copydesk.analytics.stores.clickhouse.sql_files import load_sql

FOLDED_TABLES = ("visits", "counts", "events", "scopes", "views", "missing_referrers")
SUMMED_TABLES = ("firsts", "counts", "views", "missing_referrers")
"""Tables where inserting twice would count twice; in the others, equal rows replace each other. Each is marked as
applied in `carried`: after a power failure, a server may have the inserted rows and not their deduplication token."""
SELECT_LAST_NUMBER = "select greatest({})".format(
    ", ".join(
        [f"(select max(number) from {table})" for table in ("applied", "carried")]  # noqa: S608 - ours
        + [f"(select max(fold) from {table})" for table in ("staged", *CORRECTION_TABLES)]  # noqa: S608 - ours
    )
)
PROJECT_TABLES = ("views", "visits", "firsts", "counts", "events", "scopes", "missing_referrers")
COUNT_INBOX_ROWS = "select batch, count() from inbox where batch in {batches:Array(UInt128)} group by batch"
VISITOR_CONDITION = "project = {project:String} and visitor = {visitor:UInt64}"
BATCH_CONDITION = "batch in {batches:Array(UInt128)}"


def read_last_number(shard: Node) -> int:
    """Returns the greatest fold number in ClickHouse, applied or not."""
    [(number,)] = shard.query(SELECT_LAST_NUMBER)
    return int(number)


def apply_plan(shard: Node, batches: ViewBatches, lease: ShardLease) -> int:
    """Applies the committed plan of the lease. Returns how many views it counted."""
    plan = lease.committed_plan
    assert plan is not None, "the lease has a committed plan"
    claimed = batches.list_for_shard(lease.shard, fold=lease.number)
    params = {"fold": lease.number, "batches": [batch.id for batch in claimed]}
    for table in ("firsts", *(FOLDED_TABLES if claimed else ())):
        lease.renew()
        shard.execute(load_sql(f"apply_{table}"), params, dedup_token=f"{lease.number}-{table}")
        if table in SUMMED_TABLES:
            shard.execute(MARK_TABLE_APPLIED, {"number": lease.number, "what": table})
    if "corrected" in plan:
        apply_correction(shard, lease, plan)
    if "project" in plan:
        lease.renew()
        pending = [batch.id for batch in batches.list_for_shard(lease.shard, upto=plan["upto"])]
        if "visitor" in plan:
            _forget_visitor(shard, plan, pending)
        else:
            _forget_project(shard, plan, pending)
        with batches.database.write() as tx:
            update_row_counts(tx, lease.shard, count_inbox_rows(shard, pending))
    shard.execute("insert into applied select {number:UInt64}", {"number": lease.number})
    lease.mark_applied()
    shard.execute(f"alter table staged drop partition {lease.number}")
    if "corrected" in plan:
        drop_correction(shard, lease.number)
    return sum(batch.rows for batch in claimed)


def count_inbox_rows(shard: Node, batch_ids: Sequence[int]) -> dict[int, int]:
    """Returns how many rows of each batch this node has."""
    row_counts = dict.fromkeys(batch_ids, 0)
    for chunk in split_into_chunks(batch_ids):
        row_counts.update((batch, rows) for batch, rows in shard.query(COUNT_INBOX_ROWS, {"batches": chunk}))
    return row_counts


def _forget_visitor(shard: Node, plan: ShardPlan, pending: Sequence[int]) -> None:
    shard.execute(f"alter table visits delete where {VISITOR_CONDITION}", plan)
    shard.execute(f"alter table views update visitor = 0 where {VISITOR_CONDITION}", plan)
    for chunk in split_into_chunks(pending):
        shard.execute(
            f"alter table inbox update visitor = 0 where {VISITOR_CONDITION} and {BATCH_CONDITION}",
            {**plan, "batches": chunk},
        )


def _forget_project(shard: Node, plan: ShardPlan, pending: Sequence[int]) -> None:
    for table in PROJECT_TABLES:
        shard.execute(f"alter table {table} delete where project = {{project:String}}", plan)
    for chunk in split_into_chunks(pending):
        shard.execute(
            f"alter table inbox delete where project = {{project:String}} and {BATCH_CONDITION}",
            {**plan, "batches": chunk},
        )
