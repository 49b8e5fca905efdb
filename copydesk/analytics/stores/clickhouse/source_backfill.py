"""Finds where the views came from that an earlier version has stored, and counts it.

Starts from the beginning if it was interrupted, and deletes what the interrupted one has counted.
"""

import secrets
from collections.abc import Callable

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.clickhouse.connection.node import LONG_TIMEOUT_SECONDS, Node, split_into_chunks
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches
from copydesk.analytics.stores.clickhouse.folding.visitor_index import stage_changes
from copydesk.analytics.stores.clickhouse.maintenance import IN_PART, VISITS_TEMPLATE, Maintenance, count_parts
from copydesk.analytics.stores.names.referrer_hosts import ReferrerHostLimit

REFERRERS_PER_STATEMENT = 500
SELECT_REFERRERS = """
    select project, host, referrer, min(at) from views where not missing
    group by project, host, referrer order by min(at), project, host, referrer
"""
SET_SOURCES = """
    alter table views update
        source = transform(concat(host, ' ', referrer), {keys:Array(String)}, {hosts:Array(String)}, ''),
        source_kind = transform(concat(host, ' ', referrer), {keys:Array(String)}, {kinds:Array(UInt8)}, toUInt8(0))
    where project = {project:String} and not missing and concat(host, ' ', referrer) in {keys:Array(String)}
"""
INSERT_VISITS = """
    insert into visits
    select project, visitor, target.1 as sort, target.2 as scope, toUInt16(intDiv(at, 86400000)) as day,
        groupBitOr(kind)
    from views array join visited as target
    where visitor != 0 and target.1 >= 5
    group by project, visitor, sort, scope, day
"""
INSERT_COUNTS = """
    insert into counts
    select project, target.1 as sort, target.2 as scope, toUInt16(intDiv(at, 86400000)) as day, kind, count()
    from views array join visited as target
    where target.1 >= 5
    group by project, sort, scope, day, kind
"""
INSERT_SCOPES = """
    insert into scopes
    select project, target.1 as sort, target.2 as scope, any(target.3), '', '', any(source_kind)
    from views array join visited as target
    where target.1 >= 5
    group by project, sort, scope
"""
SELECT_SOURCE_VISITS = VISITS_TEMPLATE.format(before="0", after="bits", which=f"{IN_PART} and sort >= 5")


class SourceBackfill:
    def __init__(self, batches: ViewBatches, maintenance: Maintenance) -> None:
        self._batches = batches
        self._maintenance = maintenance

    def count_sources(self, is_done: Callable[[], bool] = lambda: False) -> None:
        """Finds and counts the sources of all stored views, unless another process has done it in the meantime."""
        host_limit = ReferrerHostLimit()
        with self._maintenance.lease_all_shards() as leased_shards:
            if is_done():
                return
            masks = self._batches.read_ai_masks()
            for shard, lease in leased_shards:
                _set_sources(shard, host_limit)
                for table in ("visits", "counts", "scopes", "firsts"):
                    lease.renew()
                    shard.execute(f"alter table {table} delete where sort >= 5")
                for statement in (INSERT_VISITS, INSERT_COUNTS, INSERT_SCOPES):
                    lease.renew()
                    shard.execute(statement, dedup_token=secrets.token_hex(16))
                for part in range(parts := count_parts(shard)):
                    stage_changes(shard, lease, SELECT_SOURCE_VISITS, masks, params={"parts": parts}, part=part)
            self._maintenance.commit_and_apply(leased_shards, {})


def _set_sources(shard: Node, host_limit: ReferrerHostLimit) -> None:
    sources: dict[str, list[tuple[str, str, int]]] = {}
    for project, host, referrer, at in shard.query(SELECT_REFERRERS, timeout_seconds=LONG_TIMEOUT_SECONDS):
        view = PageView(project, "/", at, VisitorClass.HUMAN, "", "", "", "", None, host, referrer, 200, None)
        if (source := host_limit.find_source(view, lambda _: ())) is not None:
            sources.setdefault(project, []).append((f"{host} {referrer}", source.host, int(source.kind)))
    for project, project_sources in sources.items():
        for chunk in split_into_chunks(project_sources, REFERRERS_PER_STATEMENT):
            keys, hosts, kinds = (list(column) for column in zip(*chunk, strict=True))
            shard.execute(SET_SOURCES, {"project": project, "keys": keys, "hosts": hosts, "kinds": kinds})
