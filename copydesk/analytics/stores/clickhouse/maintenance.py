"""Maintenance on all shards: rebuilding the index, changing AI classes, deleting projects, visitors and raw views."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import (
    LONG_TIMEOUT_SECONDS,
    MAX_PROJECTS_PER_STATEMENT,
    Node,
    split_into_chunks,
)
from copydesk.analytics.stores.clickhouse.folding.apply_correction import drop_stale_corrections
from copydesk.analytics.stores.clickhouse.folding.apply_plan import VISITOR_CONDITION, apply_plan
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches, clear_ai_mask, set_ai_mask
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease, ShardLeases, ShardPlan
from copydesk.analytics.stores.clickhouse.folding.visitor_index import (
    INSERT_STAGED,
    assign_number,
    drop_stale_partitions,
    resume_plan,
    stage_changes,
)
from copydesk.core.clock import DAY

VISITS_PER_PART = 1_000_000
"""How many visits are linked at once."""
VISITS_TEMPLATE = (
    "select project, sort, scope, visitor, day, {before} as before, {after} as after from visits where {which}"
)
IN_PART = "visitor % {parts:UInt64} = {part:UInt64}"
SELECT_PROJECT_VISITS = VISITS_TEMPLATE.format(
    before="bits", after="bits", which=f"{IN_PART} and project = {{project:String}}"
)
SELECT_ALL_VISITS = VISITS_TEMPLATE.format(before="0", after="bits", which=IN_PART)
SELECT_VISITOR_VISITS = VISITS_TEMPLATE.format(before="bits", after="0", which=VISITOR_CONDITION)
STAGE_NEGATED_INDEX = f"""
    {INSERT_STAGED}
    select {{fold:UInt64}}, project, sort, scope, day, prev, -sum(human), -sum(ai), -sum(total) from firsts
    group by project, sort, scope, day, prev
"""  # noqa: S608 - ours
BEFORE_TIME = "at < {time:Int64}"
DatabaseChange = Callable[[Connection], None]


class Maintenance:
    def __init__(self, cluster: Cluster, batches: ViewBatches, shard_leases: ShardLeases) -> None:
        self._cluster = cluster
        self._batches = batches
        self._shard_leases = shard_leases

    def rebuild_index(self) -> None:
        with self.lease_all_shards() as leased_shards:
            masks = self._batches.read_ai_masks()
            for shard, lease in leased_shards:
                for part in range(parts := count_parts(shard)):
                    stage_changes(shard, lease, SELECT_ALL_VISITS, masks, params={"parts": parts}, part=part)
                shard.execute(STAGE_NEGATED_INDEX, {"fold": lease.number}, dedup_token=f"{lease.number}-current")
            self.commit_and_apply(leased_shards, {})

    def set_ai_classes(self, project: str, ai_mask: int, timeout_seconds: float | None) -> None:
        """Sets the classes that count as AI and updates the index.

        If they are unchanged, costs only two look-ups: whether the mask is stored, and whether its change is applied.
        """
        if self._batches.read_ai_mask(project) == ai_mask and not self._has_pending_ai_change(project):
            return
        with self.lease_all_shards(timeout_seconds) as leased_shards:
            old_mask = self._batches.read_ai_mask(project)
            if old_mask == ai_mask:
                return
            for shard, lease in leased_shards:
                params = {"project": project, "parts": (parts := count_parts(shard, project))}
                for part in range(parts):
                    stage_changes(
                        shard, lease, SELECT_PROJECT_VISITS, {project: ai_mask}, {project: old_mask}, params, part
                    )
            self.commit_and_apply(leased_shards, {"chosen": project}, lambda tx: set_ai_mask(tx, project, ai_mask))

    def forget_project(self, project: str) -> None:
        with self.lease_all_shards() as leased_shards:
            plan: ShardPlan = {"project": project, "upto": self._batches.read_last_number()}
            self.commit_and_apply(leased_shards, plan, lambda tx: clear_ai_mask(tx, project))
        for shard_number in range(len(self._cluster.shards)):
            with self._lease_shard(shard_number) as (shard, lease):
                self._drop_leftovers(shard, lease)

    def forget_visitor(self, project: str, visitor: int) -> None:
        with self.lease_all_shards() as leased_shards:
            masks = {project: self._batches.read_ai_mask(project)}
            for shard, lease in leased_shards:
                stage_changes(
                    shard, lease, SELECT_VISITOR_VISITS, masks, params={"project": project, "visitor": visitor}
                )
            self.commit_and_apply(
                leased_shards, {"project": project, "visitor": visitor, "upto": self._batches.read_last_number()}
            )

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None) -> int:
        """Deletes raw views of days before this day, and stale partitions. Folds drop these too, but a store without
        new views has no folds.

        Needs the lease of a shard, because corrections read its raw views.
        """
        deleted = 0
        for shard_number in range(len(self._cluster.shards)):
            with self._lease_shard(shard_number) as (shard, lease):
                deleted += _delete_raw_views(shard, before_day, project_ids)
                self._drop_leftovers(shard, lease)
        return deleted

    def _has_pending_ai_change(self, project: str) -> bool:
        return any(plan.get("chosen") == project for plan in self._shard_leases.read_committed_plans().values())

    def _drop_leftovers(self, shard: Node, lease: ShardLease) -> None:
        drop_stale_partitions(shard, self._batches, lease)
        drop_stale_corrections(shard, lease)

    @contextmanager
    def _lease_shard(self, shard_number: int) -> Iterator[tuple[Node, ShardLease]]:
        """Acquires the lease of one shard and applies its pending plan."""
        with self._shard_leases.acquire([shard_number]) as [lease]:
            shard = self._cluster.pin_synced_replica(self._cluster.shards[shard_number])
            resume_plan(shard, self._batches, lease)
            yield shard, lease

    @contextmanager
    def lease_all_shards(self, timeout_seconds: float | None = None) -> Iterator[list[tuple[Node, ShardLease]]]:
        """Acquires the leases of all shards, applies pending plans, and assigns each lease a new number."""
        shards = self._cluster.shards
        with self._shard_leases.acquire(range(len(shards)), timeout_seconds) as leases:
            leased_shards = []
            for replicas, lease in zip(shards, leases, strict=True):
                shard = self._cluster.pin_synced_replica(replicas)
                resume_plan(shard, self._batches, lease)
                assign_number(shard, lease)
                leased_shards.append((shard, lease))
            yield leased_shards

    def commit_and_apply(
        self, leased_shards: list[tuple[Node, ShardLease]], plan: ShardPlan, change: DatabaseChange = lambda _: None
    ) -> None:
        """Commits the plan for all shards in one transaction, then applies it."""
        with self._batches.database.write() as tx:
            for _, lease in leased_shards:
                lease.commit_plan(tx, plan)
            change(tx)
        for shard, lease in leased_shards:
            apply_plan(shard, self._batches, lease)


def _delete_raw_views(shard: Node, before_day: int, project_ids: Collection[str] | None) -> int:
    deleted = 0
    condition = BEFORE_TIME if project_ids is None else f"{BEFORE_TIME} and project in {{projects:Array(String)}}"
    for chunk in split_into_chunks(sorted(project_ids or ()), MAX_PROJECTS_PER_STATEMENT):
        params = {"time": before_day * DAY, "projects": chunk}
        query = f"select count() from views where {condition}"  # noqa: S608
        [(view_count,)] = shard.query(query, params, LONG_TIMEOUT_SECONDS)
        if view_count:
            shard.execute(f"alter table views delete where {condition}", params)
        deleted += view_count
    return deleted


def count_parts(shard: Node, project: str | None = None) -> int:
    """Returns the number of parts such that each has about VISITS_PER_PART visits, which bounds the memory."""
    condition = "" if project is None else " where project = {project:String}"
    [(visit_count,)] = shard.query(f"select count() from visits{condition}", {"project": project or ""})  # noqa: S608 - ours
    return 1 + int(visit_count) // VISITS_PER_PART
