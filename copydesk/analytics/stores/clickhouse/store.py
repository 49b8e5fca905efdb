"""The store on ClickHouse. Processes log and read concurrently; folds and maintenance take turns with shard leases."""

from collections.abc import Collection, Sequence
from pathlib import Path

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import (
    ALL_DAYS,
    CLASS_BITS,
    DEFAULT_PAGE_QUERY,
    DEFAULT_RAW_VIEW_LIMITS,
    TOP_SECTIONS,
    Correction,
    DayRange,
    Interval,
    LogResult,
    PageQuery,
    RawViewLimits,
    Reclassification,
    SectionQuery,
    shorten_event_hash,
)
from copydesk.analytics.stores.clickhouse import backup, export
from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import CircuitBreaker
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster, build_cluster
from copydesk.analytics.stores.clickhouse.connection.url import parse_clickhouse_url
from copydesk.analytics.stores.clickhouse.corrections import Corrections
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches
from copydesk.analytics.stores.clickhouse.folding.shard_lease import ShardLeases
from copydesk.analytics.stores.clickhouse.folding.visitor_index import fold_shards
from copydesk.analytics.stores.clickhouse.maintenance import Maintenance
from copydesk.analytics.stores.clickhouse.reports import Reports
from copydesk.analytics.stores.clickhouse.schema import prepare_schema
from copydesk.analytics.stores.clickhouse.view_log import ViewLog
from copydesk.analytics.stores.export_format import ExportDay, ExportFormat
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    HourlyReport,
    MissingReport,
    PageDetail,
    ReferrerReport,
    ReportPage,
    RuleRow,
    SectionReport,
    SiteTotals,
    TimeseriesPoint,
)
from copydesk.core.db.database import Database


class ClickHouseStore:
    """A store that connects at its first call.

    If ClickHouse is unavailable, that call fails, and later calls try again.
    """

    def __init__(self, url: str, database: Database, cluster: Cluster | None = None) -> None:
        """The main database must be migrated. The caller closes it."""
        self._database = database
        self._cluster = cluster or build_cluster(parse_clickhouse_url(url))
        self._batches, self._shard_leases = ViewBatches(database), ShardLeases(database)
        self._schema_breaker = CircuitBreaker()
        self._is_schema_ready = False
        self._view_log = ViewLog(self._cluster, self._batches)
        self._reports = Reports(self._cluster, self._batches)
        self._maintenance = Maintenance(self._cluster, self._batches, self._shard_leases)
        self._corrections = Corrections(self._batches, self._maintenance)

    def log_views(self, views: Sequence[PageView]) -> LogResult:
        self._ensure_schema()
        return self._view_log.write(views)

    def prepare_logging(self) -> None:
        """Does nothing: ClickHouse looks events up by itself."""

    def ping(self) -> None:
        self._ensure_schema()
        self._cluster.reader.query("select 1")

    def backlog(self) -> int:
        """Returns the number of pending views; at least 1 while a committed plan is not applied, so that a fold applies
        it."""
        return max(self._batches.count_pending_views(), len(self._shard_leases.read_committed_plans()))

    def fold(self) -> int:
        self._ensure_schema()
        return fold_shards(self._cluster, self._batches, self._shard_leases)

    def count_visitors_by_page(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        self._ensure_schema()
        return self._reports.count_visitors_by_page(project_id, days, limit, offset, query)

    def count_views_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReportPage:
        self._ensure_schema()
        return self._reports.count_views_by_page(project_id, days, limit, offset)

    def list_agents(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        self._ensure_schema()
        return self._reports.list_agents(project_id, days, limit, offset)

    def list_missing_pages(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> MissingReport:
        self._ensure_schema()
        return self._reports.list_missing_pages(project_id, days, limit, offset)

    def list_referrers(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReferrerReport:
        self._ensure_schema()
        return self._reports.list_referrers(project_id, days, limit, offset)

    def list_sections(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: SectionQuery = TOP_SECTIONS,
    ) -> SectionReport:
        self._ensure_schema()
        return self._reports.list_sections(project_id, days, limit, offset, query)

    def load_page(
        self,
        project_id: str,
        path: str,
        days: DayRange = ALL_DAYS,
        limits: RawViewLimits = DEFAULT_RAW_VIEW_LIMITS,
    ) -> PageDetail | None:
        self._ensure_schema()
        return self._reports.load_page(project_id, path, days, limits)

    def list_rules(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 1000, with_missing: bool = False
    ) -> Sequence[RuleRow]:
        self._ensure_schema()
        return self._reports.list_rules(project_id, days, limit, with_missing)

    def load_timeseries(
        self, project_id: str, interval: Interval, days: DayRange = ALL_DAYS
    ) -> Sequence[TimeseriesPoint]:
        self._ensure_schema()
        return self._reports.load_timeseries(project_id, interval, days)

    def count_site_totals(self, project_ids: Collection[str], days: DayRange = ALL_DAYS) -> Sequence[SiteTotals]:
        self._ensure_schema()
        return self._reports.count_site_totals(project_ids, days)

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        self._ensure_schema()
        return self._reports.load_hours(project_id, first_at, end_at)

    def set_ai_classes(self, project_id: str, classes: Collection[str], timeout_seconds: float | None = None) -> None:
        self._ensure_schema()
        self._maintenance.set_ai_classes(project_id, sum(CLASS_BITS[kind] for kind in set(classes)), timeout_seconds)

    def rebuild_index(self) -> None:
        self._ensure_schema()
        self._maintenance.rebuild_index()

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        self._ensure_schema()
        return self._maintenance.delete_raw_views(before_day, project_ids)

    def withdraw_views(self, project_id: str, events: Sequence[int]) -> int:
        if not events:
            return 0
        self.fold()
        return self._corrections.withdraw_views(project_id, sorted(set(map(shorten_event_hash, events))))

    def reclassify_views(self, project_id: str, changes: Sequence[Reclassification], version: str) -> Correction:
        if not changes:
            return Correction(0)
        self.fold()
        return self._corrections.reclassify_views(project_id, changes, version)

    def forget_project(self, project_id: str) -> None:
        self._ensure_schema()
        self._maintenance.forget_project(project_id)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        self._ensure_schema()
        self._maintenance.forget_visitor(project_id, visitor)

    def back_up(self, target: Path) -> None:
        self._ensure_schema()
        backup.back_up(self._cluster, self._batches, self._shard_leases, target)

    def find_export_range(self, project_id: str) -> DayRange | None:
        self._ensure_schema()
        return export.find_export_range(self._cluster, project_id)

    def list_export_days(self, project_id: str, days: DayRange) -> Sequence[ExportDay]:
        self._ensure_schema()
        return export.list_export_days(self._cluster, self._batches, project_id, days)

    def export_day(self, project_id: str, dataset: str, day: int, file_format: ExportFormat, target: Path) -> int:
        self._ensure_schema()
        return export.export_day(self._cluster, self._batches, project_id, dataset, day, file_format, target)

    def restore(self, source: Path) -> None:
        """Restores a backup into an empty store. Replaces the batches and AI classes in the main database."""
        self._ensure_schema()
        backup.restore(self._cluster, self._batches, self._shard_leases, source)

    def close(self) -> None:
        self._cluster.close()

    def _ensure_schema(self) -> None:
        if not self._is_schema_ready:
            with self._schema_breaker.guard():
                if not self._is_schema_ready:
                    prepare_schema(self._cluster, self._database)
                    self._is_schema_ready = True
