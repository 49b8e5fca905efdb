"""Keeps the index of visitors: folds the batches of a shard by staging changes, committing a plan and applying it.

`reports.count_visitors_by_page` counts from it.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.errors import ReplicaLagging
from copydesk.analytics.stores.clickhouse.connection.node import (
    MAX_BATCHES_PER_STATEMENT,
    MAX_PROJECTS_PER_STATEMENT,
    Node,
)
from copydesk.analytics.stores.clickhouse.folding.apply_plan import apply_plan, count_inbox_rows, read_last_number
from copydesk.analytics.stores.clickhouse.folding.batches import (
    DEFAULT_AI_MASK,
    MAX_BATCH_AGE_MS,
    PendingBatch,
    ViewBatches,
    claim_batches,
)
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease, ShardLeases
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.core.clock import SECOND

MAX_VIEWS_PER_FOLD = 250_000
"""Views per fold: enough to share the cost of looking up their visitors, few enough to bound the memory."""
MAX_REPLICA_LAG_SECONDS = 5.0
INSERT_STAGED = "insert into staged (fold, project, sort, scope, day, prev, human, ai, total)"
SELECT_INBOX_PROJECTS = "select distinct project from inbox where batch in {batches:Array(UInt128)}"
SELECT_INBOX_PARTITIONS = (
    "select distinct toUInt64(partition) from system.parts where database = currentDatabase() and table = 'inbox'"
)
SELECT_STALE_FOLDS = "select distinct fold from staged where fold <= (select max(number) from applied)"
PARTITION_MS = 600 * SECOND
"""The inbox is partitioned by ten minutes of batch time, and dropped by partition."""


def fold_shards(cluster: Cluster, batches: ViewBatches, shard_leases: ShardLeases) -> int:
    """Counts the views that were logged before this call. Returns how many."""
    upto = batches.read_last_number()
    plans = shard_leases.read_committed_plans()
    views = 0
    for shard_number, replicas in enumerate(cluster.shards):
        if shard_number not in plans and not batches.list_for_shard(shard_number, limit=1):
            continue
        with shard_leases.acquire([shard_number]) as [lease]:
            shard = cluster.pin_synced_replica(replicas)
            views += resume_plan(shard, batches, lease)
            while selected := _select_for_one_fold(
                batches.list_for_shard(shard_number, upto=upto, limit=MAX_BATCHES_PER_STATEMENT)
            ):
                _wait_for_replica(shard, selected)
                assign_number(shard, lease)
                params = {"batches": [batch.id for batch in selected]}
                stage_changes(
                    shard, lease, load_sql("fold_visits"), _read_needed_masks(shard, batches, params), params=params
                )
                with batches.database.write() as tx:
                    claim_batches(tx, shard_number, lease.number, selected)
                    lease.commit_plan(tx, {})
                views += apply_plan(shard, batches, lease)
            drop_stale_partitions(shard, batches, lease)
    return views


def resume_plan(shard: Node, batches: ViewBatches, lease: ShardLease) -> int:
    """Applies a plan that an earlier lease committed and did not finish. Returns how many views it counted."""
    return 0 if lease.committed_plan is None else apply_plan(shard, batches, lease)


def assign_number(shard: Node, lease: ShardLease) -> None:
    """Assigns the lease a number that ClickHouse has not seen either: the main database may be restored from an older
    backup."""
    lease.advance_number(read_last_number(shard))


def stage_changes(
    shard: Node,
    lease: ShardLease,
    visits_query: str,
    masks: Mapping[str, int],
    old_masks: Mapping[str, int] | None = None,
    params: Mapping[str, Any] | None = None,
    part: int = 0,
) -> None:
    """Stages the changes of the index for changed visits (`visits_query`) or changed AI masks (`old_masks` to `masks`).

    Runs one statement per group of projects, because a statement can take only a limited number of masks.
    """
    query = f"{INSERT_STAGED} {load_sql('links').replace('$visits', visits_query)}"
    groups = 1 + len(masks) // MAX_PROJECTS_PER_STATEMENT
    for group in range(groups):
        projects = sorted(project for project in masks if crc32(project.encode()) % groups == group)
        staging_params = {
            "fold": lease.number,
            "groups": groups,
            "group": group,
            "ai": DEFAULT_AI_MASK,
            "chosen": projects,
            "ai_now": [masks[project] for project in projects],
            "ai_was": [
                (masks if old_masks is None else old_masks).get(project, DEFAULT_AI_MASK) for project in projects
            ],
        }
        shard.execute(
            query,
            {**staging_params, **(params or {}), "part": part},
            dedup_token=f"{lease.number}-staged-{part}-{group}",
        )


def _read_needed_masks(shard: Node, batches: ViewBatches, params: Mapping[str, Any]) -> dict[str, int]:
    """Returns the AI masks that a fold needs: of all projects, or, if there are too many for one statement, only of
    those in these batches."""
    masks = batches.read_ai_masks()
    if len(masks) < MAX_PROJECTS_PER_STATEMENT:
        return masks
    return {project: masks[project] for (project,) in shard.query(SELECT_INBOX_PROJECTS, params) if project in masks}


def _select_for_one_fold(batches: Sequence[PendingBatch]) -> list[PendingBatch]:
    """Returns the first batches that fit into one fold, at least one."""
    selected: list[PendingBatch] = []
    rows = 0
    for batch in batches:
        rows += batch.rows
        if selected and rows > MAX_VIEWS_PER_FOLD:
            break
        selected.append(batch)
    return selected


def _wait_for_replica(shard: Node, batches: Sequence[PendingBatch]) -> None:
    """Waits until the replica has all rows of the batches. Raises ReplicaLagging on a timeout."""
    expected = {batch.id: batch.rows for batch in batches}
    deadline = time.monotonic() + MAX_REPLICA_LAG_SECONDS
    while count_inbox_rows(shard, list(expected)) != expected:
        if time.monotonic() > deadline:
            raise ReplicaLagging
        time.sleep(0.2)


def drop_stale_partitions(shard: Node, batches: ViewBatches, lease: ShardLease) -> None:
    """Drops inbox partitions that have no pending batch and cannot get one: their rows are folded, or their process
    died before it committed the batch. Also drops staged rows of leases that ended before they committed a plan."""
    now, snapshot = batches.read_timed_snapshot()
    pending_times = {batch >> 80 for batch in snapshot.pending_ids}
    for (partition,) in shard.query(SELECT_INBOX_PARTITIONS):
        start = partition * PARTITION_MS
        end = (partition + 1) * PARTITION_MS
        if end + 2 * MAX_BATCH_AGE_MS < now and not any(start <= created_at < end for created_at in pending_times):
            lease.renew()
            shard.execute(f"alter table inbox drop partition {partition}")
    for (number,) in shard.query(SELECT_STALE_FOLDS):
        lease.renew()
        shard.execute(f"alter table staged drop partition {number}")
