"""Applies a committed correction to the tables of a shard. Idempotent, as every plan is."""

from collections.abc import Mapping

from copydesk.analytics.stores.clickhouse.connection.node import Node
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLease, ShardPlan
from copydesk.analytics.stores.clickhouse.sql_files import load_sql

MARK_TABLE_APPLIED = "insert into carried select {number:UInt64}, {what:String}"
SELECT_MARK = "select max(number) from carried where what = {what:String}"
ROWS_OF_DAYS = "project = {project:String} and day in {days:Array(UInt16)}"
CORRECTION_TABLES = ("withdrawn_events", "new_classes", "corrected_views", "corrected_visits")
"""The tables that hold a correction until it is applied, partitioned by its number."""
OF_FOLD = "fold = {fold:UInt64}"
REPLACED_VISITS = f"""
    project = {{project:String}} and visitor in (select visitor from corrected_views where {OF_FOLD})
    and day in (select day from corrected_views where {OF_FOLD})
"""  # noqa: S608 - ours
WITHDRAWN_VIEWS = f"""
    project = {{project:String}} and event in (select assumeNotNull(event) from corrected_views where {OF_FOLD})
"""  # noqa: S608 - ours
RECLASSIFIED_VIEWS = f"""
    project = {{project:String}} and toUInt16(intDiv(at, 86400000)) in (select day from corrected_views where {OF_FOLD})
    and (rule, agent, operator, kind) in (
        select rule, agent, operator, kind from corrected_views where {OF_FOLD} and sign < 0
    )
"""  # noqa: S608 - ours
WITHDRAWN_EVENTS = f"""
    project = {{project:String}} and id in (select id from withdrawn_events where {OF_FOLD} and found = 1)
"""  # noqa: S608 - ours


def apply_correction(shard: Node, lease: ShardLease, plan: ShardPlan) -> None:
    """Deletes the corrected rows and inserts their replacements. Rows are deleted only once, before the inserts: a
    second deletion could delete replacements that look like rows that were replaced."""
    params = {"fold": lease.number, "project": plan["corrected"]}
    is_withdrawal = plan["withdraws"]
    _insert(shard, lease, "counts")
    shard.execute(MARK_TABLE_APPLIED, {"number": lease.number, "what": "counts"})
    _delete_once(shard, lease, "visits", REPLACED_VISITS, params)
    _insert(shard, lease, "visits")
    _delete_once(shard, lease, "views", WITHDRAWN_VIEWS if is_withdrawal else RECLASSIFIED_VIEWS, params)
    if is_withdrawal:
        shard.execute(f"alter table events delete where {WITHDRAWN_EVENTS}", params)
    else:
        _insert(shard, lease, "scopes")
        _insert(shard, lease, "views")
        shard.execute(MARK_TABLE_APPLIED, {"number": lease.number, "what": "views"})
    if days := plan.get("days", []):
        day_params = {**params, "days": days}
        _delete_once(shard, lease, "missing_referrers", ROWS_OF_DAYS, day_params)
        _insert(shard, lease, "missing_referrers", day_params)
        shard.execute(MARK_TABLE_APPLIED, {"number": lease.number, "what": "missing_referrers"})


def drop_correction(shard: Node, number: int) -> None:
    """Drops what a correction has staged."""
    for table in CORRECTION_TABLES:
        shard.execute(f"alter table {table} drop partition {number}")


def drop_stale_corrections(shard: Node, lease: ShardLease) -> None:
    """Drops what processes staged that died before they committed a correction."""
    for table in CORRECTION_TABLES:
        query = f"select distinct fold from {table} where fold <= (select max(number) from applied)"  # noqa: S608 - ours
        for (number,) in shard.query(query):
            lease.renew()
            shard.execute(f"alter table {table} drop partition {number}")


def _insert(shard: Node, lease: ShardLease, table: str, params: Mapping[str, object] | None = None) -> None:
    lease.renew()
    statement = load_sql(f"apply_corrected_{table}")
    shard.execute(statement, {**(params or {}), "fold": lease.number}, dedup_token=f"{lease.number}-corrected-{table}")


def _delete_once(shard: Node, lease: ShardLease, table: str, condition: str, params: dict[str, object]) -> None:
    lease.renew()
    mark = f"{table} deleted"
    [(number,)] = shard.query(SELECT_MARK, {"what": mark})
    if number < lease.number:
        shard.execute(f"alter table {table} delete where {condition}", params)
        shard.execute(MARK_TABLE_APPLIED, {"number": lease.number, "what": mark})
