"""The store on ClickHouse. Any number of processes log and read at once; whatever changes numbers takes turns."""

from collections.abc import Collection, Sequence
from pathlib import Path

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import (
    ALWAYS,
    BITS,
    MOST_FIRST,
    AgentRow,
    Choice,
    Interval,
    Logged,
    Moment,
    Page,
    Range,
    RuleRow,
)
from copydesk.analytics.stores.clickhouse import backup as copying
from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import Trying
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster, cluster_at
from copydesk.analytics.stores.clickhouse.connection.url import address_of
from copydesk.analytics.stores.clickhouse.folding.batches import Batches
from copydesk.analytics.stores.clickhouse.folding.fold import fold
from copydesk.analytics.stores.clickhouse.folding.shard_lease import Turns
from copydesk.analytics.stores.clickhouse.maintenance import Upkeep
from copydesk.analytics.stores.clickhouse.reports import Reports
from copydesk.analytics.stores.clickhouse.schema import prepare
from copydesk.analytics.stores.clickhouse.view_log import Log
from copydesk.core.db.database import Database


class ClickHouseStore:
    """Nothing is connected before the first call: a server that is away makes that call fail, and no other."""

    def __init__(self, url: str, database: Database, cluster: Cluster | None = None) -> None:
        """The main database must be migrated; it stays the caller's to close."""
        self._database = database
        self._cluster = cluster or cluster_at(address_of(url))
        self._batches, self._turns = Batches(database), Turns(database)
        self._preparing, self._is_prepared = Trying(), False
        self._log = Log(self._cluster, self._batches)
        self._reports = Reports(self._cluster, self._batches)
        self._upkeep = Upkeep(self._cluster, self._batches, self._turns)

    def log(self, views: Sequence[View]) -> Logged:
        self._prepare()
        return self._log.write(views)

    def ping(self) -> None:
        self._prepare()
        self._cluster.reader.ask("select 1")

    def backlog(self) -> int:
        """At least one while something is decided and not carried out, so that somebody folds."""
        return max(self._batches.backlog(), len(self._turns.plans()))

    def fold(self) -> int:
        self._prepare()
        return fold(self._cluster, self._batches, self._turns)

    def visitors(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0, choice: Choice = MOST_FIRST
    ) -> Page:
        self._prepare()
        return self._reports.visitors(project_id, days, limit, offset, choice)

    def views(self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0) -> Page:
        self._prepare()
        return self._reports.views(project_id, days, limit, offset)

    def agents(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        self._prepare()
        return self._reports.agents(project_id, days, limit, offset)

    def rules(self, project_id: str, days: Range = ALWAYS, limit: int = 1000) -> Sequence[RuleRow]:
        self._prepare()
        return self._reports.rules(project_id, days, limit)

    def timeseries(self, project_id: str, interval: Interval, days: Range = ALWAYS) -> Sequence[Moment]:
        self._prepare()
        return self._reports.timeseries(project_id, interval, days)

    def count_as_ai(self, project_id: str, kinds: Collection[str], patience: float | None = None) -> None:
        self._prepare()
        self._upkeep.count_as_ai(project_id, sum(BITS[kind] for kind in set(kinds)), patience)

    def rebuild(self) -> None:
        self._prepare()
        self._upkeep.rebuild()

    def drop_views(self, before: int, projects: Collection[str] | None = None) -> int:
        self._prepare()
        return self._upkeep.drop_views(before, projects)

    def forget(self, project_id: str) -> None:
        self._prepare()
        self._upkeep.forget(project_id)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        self._prepare()
        self._upkeep.forget_visitor(project_id, visitor)

    def back_up(self, target: Path) -> None:
        self._prepare()
        copying.back_up(self._cluster, self._batches, self._turns, target)

    def restore(self, source: Path) -> None:
        """Into a store that is empty; what the main database says of batches and choices is replaced too."""
        self._prepare()
        copying.restore(self._cluster, self._batches, self._turns, source)

    def close(self) -> None:
        self._cluster.close()

    def _prepare(self) -> None:
        if not self._is_prepared:
            with self._preparing.alone():
                if not self._is_prepared:
                    prepare(self._cluster, self._database)
                    self._is_prepared = True
