"""Corrections of folded views on all shards: withdrawing some, or giving them another class."""

from collections import Counter
from collections.abc import Iterator, Sequence

from copydesk.analytics.stores.base import CLASS_BITS, Correction, Reclassification
from copydesk.analytics.stores.clickhouse.connection.node import LONG_TIMEOUT_SECONDS, Node
from copydesk.analytics.stores.clickhouse.folding.apply_correction import drop_correction
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease
from copydesk.analytics.stores.clickhouse.folding.visitor_index import assign_number, stage_changes
from copydesk.analytics.stores.clickhouse.maintenance import Maintenance
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.analytics.stores.errors import RawViewsDeleted

MAX_VIEWS_PER_CORRECTION = 500_000
"""How many views are reclassified at once, in whole days: each staging table gets them as one block."""
EVENT_COLUMNS = {"fold": "UInt64", "id": "UInt64", "found": "UInt8"}
CLASS_COLUMNS = {
    "fold": "UInt64", "rule": "String", "agent": "String", "operator": "String", "kind": "UInt8",
    "new_rule": "String", "new_agent": "String", "new_operator": "String", "new_kind": "UInt8", "new_version": "String",
}  # fmt: skip
WITHDRAWN_CONDITION = "event in (select id from withdrawn_events where fold = {fold:UInt64})"
RECLASSIFIED_CONDITION = """
    (rule, agent, operator, kind) in (select rule, agent, operator, kind from new_classes where fold = {fold:UInt64})
"""
SELECT_DAYS = """
    select toUInt16(intDiv(at, 86400000)) as day, count() from views
    where project = {project:String} and $condition group by day
"""
SELECT_COUNTED_DAYS = """
    select day, sum(n) from counts where project = {project:String} and sort in (1, 3) group by day
"""
SELECT_FOUND_EVENTS = f"""
    select distinct assumeNotNull(event) from views where project = {{project:String}} and {WITHDRAWN_CONDITION}
"""  # noqa: S608 - ours
LeasedShards = list[tuple[Node, ShardLease]]


class Corrections:
    """Corrects views that are folded. The caller folds before, so that these are all views that were logged.

    A correction is staged first. Staged rows are deleted when it is applied or not needed, never after an error: its
    plan may be committed.
    """

    def __init__(self, batches: ViewBatches, maintenance: Maintenance) -> None:
        self._batches = batches
        self._maintenance = maintenance

    def withdraw_views(self, project: str, event_ids: Sequence[int]) -> int:
        """Deletes the views of these events, and the events. Returns how many views."""
        with self._maintenance.lease_all_shards() as leased_shards:
            _stage_events(leased_shards, event_ids, is_found=False)
            days = _count_by_day(leased_shards, project, WITHDRAWN_CONDITION)
            incomplete_days = _find_incomplete_days(leased_shards, project, days)
            if incomplete_days or not days:
                _drop_staged(leased_shards, [lease.number for _, lease in leased_shards])
            if incomplete_days:
                raise RawViewsDeleted.for_days(incomplete_days)
            if days:
                _stage_found_events(leased_shards, project)
                self._correct(leased_shards, project, "correct_withdraw", {}, sorted(days), withdraws=True)
            return sum(days.values())

    def reclassify_views(self, project: str, changes: Sequence[Reclassification], version: str) -> Correction:
        """Gives views another class, except on days of which raw views were deleted. Some days may be corrected and
        others not if the process dies; a second call corrects the others."""
        with self._maintenance.lease_all_shards() as leased_shards:
            class_numbers = [lease.number for _, lease in leased_shards]
            _stage_classes(leased_shards, changes, version)
            days = _count_by_day(leased_shards, project, RECLASSIFIED_CONDITION)
            skipped_days = _find_incomplete_days(leased_shards, project, days)
            for day in skipped_days:
                del days[day]
            for chosen_days in _split_days(days):
                for shard, lease in leased_shards:
                    assign_number(shard, lease)
                self._correct(
                    leased_shards,
                    project,
                    "correct_reclassify",
                    {"days": chosen_days},
                    chosen_days,
                    withdraws=False,
                    class_numbers=class_numbers,
                )
            _drop_staged(leased_shards, class_numbers)
            return Correction(sum(days.values()), tuple(skipped_days))

    def _correct(
        self,
        leased_shards: LeasedShards,
        project: str,
        select_views: str,
        params: dict[str, object],
        days: list[int],
        *,
        withdraws: bool,
        class_numbers: Sequence[int] = (),
    ) -> None:
        """Stages the views, visits and changes of the index on each shard, then commits and applies them."""
        masks = {project: self._batches.read_ai_mask(project)}
        for (shard, lease), class_number in zip(leased_shards, class_numbers or [0] * len(leased_shards), strict=True):
            shard_params = {**params, "project": project, "fold": lease.number, "classes": class_number}
            for statement in (select_views, "correct_visits"):
                lease.renew()
                shard.execute(load_sql(statement), shard_params, dedup_token=f"{lease.number}-{statement}")
            stage_changes(shard, lease, load_sql("correct_links"), masks, params=shard_params)
        self._maintenance.commit_and_apply(leased_shards, {"corrected": project, "withdraws": withdraws, "days": days})


def _stage_events(leased_shards: LeasedShards, event_ids: Sequence[int], *, is_found: bool) -> None:
    for shard, lease in leased_shards:
        columns = {
            "fold": [lease.number] * len(event_ids),
            "id": event_ids,
            "found": [int(is_found)] * len(event_ids),
        }
        shard.insert(
            "withdrawn_events", columns, list(EVENT_COLUMNS.values()), f"{lease.number}-events-{int(is_found)}"
        )


def _stage_found_events(leased_shards: LeasedShards, project: str) -> None:
    """Stages the events that have a raw view on any shard, for all shards: an event may be on another shard than its
    view. Events without a raw view stay, because the numbers still include their views."""
    found_events: set[int] = set()
    for shard, lease in leased_shards:
        params = {"project": project, "fold": lease.number}
        found_events.update(event for (event,) in shard.query(SELECT_FOUND_EVENTS, params, LONG_TIMEOUT_SECONDS))
    _stage_events(leased_shards, sorted(found_events), is_found=True)


def _stage_classes(leased_shards: LeasedShards, changes: Sequence[Reclassification], version: str) -> None:
    rows = [
        (
            *(change.rule, change.agent, change.operator, CLASS_BITS[change.kind]),
            *(change.new_rule, change.new_agent, change.new_operator, CLASS_BITS[change.new_kind], version),
        )
        for change in changes
    ]
    for shard, lease in leased_shards:
        values = zip(*((lease.number, *row) for row in rows), strict=True)
        columns = dict(zip(CLASS_COLUMNS, values, strict=True))
        shard.insert("new_classes", columns, list(CLASS_COLUMNS.values()), f"{lease.number}-classes")


def _count_by_day(leased_shards: LeasedShards, project: str, condition: str) -> Counter[int]:
    return _sum_by_day(leased_shards, SELECT_DAYS.replace("$condition", condition), project)


def _find_incomplete_days(leased_shards: LeasedShards, project: str, days: Counter[int]) -> list[int]:
    """Returns the days of which raw views were deleted: they have fewer raw views than counted views."""
    if not days:
        return []
    raw_days = _sum_by_day(leased_shards, SELECT_DAYS.replace("$condition", "true"), project)
    counted_days = _sum_by_day(leased_shards, SELECT_COUNTED_DAYS, project)
    return sorted(day for day in days if raw_days[day] != counted_days[day])


def _sum_by_day(leased_shards: LeasedShards, query: str, project: str) -> Counter[int]:
    totals: Counter[int] = Counter()
    for shard, lease in leased_shards:
        params = {"project": project, "fold": lease.number}
        totals.update({day: int(count) for day, count in shard.query(query, params, LONG_TIMEOUT_SECONDS)})
    return totals


def _split_days(days: Counter[int]) -> Iterator[list[int]]:
    """Yields days such that each group has at most MAX_VIEWS_PER_CORRECTION views, or is one day."""
    chosen_days: list[int] = []
    for day in sorted(days):
        if chosen_days and sum(days[chosen] for chosen in chosen_days) + days[day] > MAX_VIEWS_PER_CORRECTION:
            yield chosen_days
            chosen_days = []
        chosen_days.append(day)
    if chosen_days:
        yield chosen_days


def _drop_staged(leased_shards: LeasedShards, numbers: Sequence[int]) -> None:
    for (shard, _), number in zip(leased_shards, numbers, strict=True):
        drop_correction(shard, number)
