"""The store on DuckDB. Logging continues during a fold; folds and maintenance run one at a time."""

import logging
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from functools import partial
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
from copydesk.analytics.stores.duckdb import corrections, maintenance
from copydesk.analytics.stores.duckdb.database import MEMORY_LIMIT, MIN_CHECKPOINT_BYTES, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.compaction import MAX_NEW_ROWS_OF_SECTIONS, compact_tables
from copydesk.analytics.stores.duckdb.folding.last_folded import count_unfolded_views, read_last_folded
from copydesk.analytics.stores.duckdb.folding.page_visitors import DEFAULT_COPY_SIZES, CopySizes, PageVisitors
from copydesk.analytics.stores.duckdb.folding.recent_folds import RecentFolds
from copydesk.analytics.stores.duckdb.folding.runs.run_merges import RunMerges
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import DEFAULT_RUN_SIZES, RunSizes
from copydesk.analytics.stores.duckdb.folding.view_summaries import MIN_SUMMED_VIEWS, ViewSummaries
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.ids.large_projects import LargeProjects
from copydesk.analytics.stores.duckdb.log.event_filter import MIN_CAPACITY_EVENTS
from copydesk.analytics.stores.duckdb.log.unfolded_views import UnfoldedViews
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from copydesk.analytics.stores.duckdb.reports import export, page_report, section_reports, site_reports
from copydesk.analytics.stores.duckdb.reports.hour_counter import MIN_LOADED_VIEWS, MIN_VIEWS_OF_DAY, HourCounter
from copydesk.analytics.stores.duckdb.reports.hour_report import HourReports
from copydesk.analytics.stores.duckdb.reports.visitor_report import VisitorReports
from copydesk.analytics.stores.duckdb.sections.section_indexer import MIN_INDEXED_VIEWS, SectionIndexer
from copydesk.analytics.stores.duckdb.sections.section_search import MIN_LARGE_VIEWS, SectionSearch
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
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

MAX_VIEWS_OF_SMALL_FOLD = 20_000
"""After a fold of so few views, short files of visits are merged early, because the next folds will be small too."""
MAX_CATCH_UP_SECONDS_PER_FOLD = 2.0
"""Reports wait for folds, so summing up and copying many views takes several."""


class DuckStore:
    def __init__(
        self,
        path: Path,
        memory_limit: int = MEMORY_LIMIT,
        threads: int = 1,
        min_checkpoint_bytes: int = MIN_CHECKPOINT_BYTES,
        run_sizes: RunSizes = DEFAULT_RUN_SIZES,
        min_summed_views: int = MIN_SUMMED_VIEWS,
        min_indexed_views: int = MIN_INDEXED_VIEWS,
        min_large_views: int = MIN_LARGE_VIEWS,
        min_filter_capacity: int = MIN_CAPACITY_EVENTS,
        min_views_of_day: int = MIN_VIEWS_OF_DAY,
        min_loaded_views: int = MIN_LOADED_VIEWS,
        copy_sizes: CopySizes = DEFAULT_COPY_SIZES,
    ) -> None:
        self._database = DuckDatabase(path, memory_limit, threads, min_checkpoint_bytes)
        unfolded_views = UnfoldedViews()
        self._large_projects = LargeProjects(min_large_views)
        self._view_log = ViewLog(
            self._database,
            unfolded_views=unfolded_views,
            large_projects=self._large_projects,
            min_filter_capacity=min_filter_capacity,
        )
        recent_folds = RecentFolds()
        self._index = VisitorIndex(self._database, run_sizes, unfolded_views, recent_folds)
        self._fold_lock = threading.Lock()
        self._backup_lock = threading.Lock()
        self._summaries = ViewSummaries(self._database, min_summed_views)
        self._page_visitors = PageVisitors(self._database, copy_sizes)
        self._visitor_reports = VisitorReports(self._database, recent_folds)
        self._hour_reports = HourReports(self._database)
        self._hour_counter = HourCounter(
            self._database, self._fold_lock, self._hour_reports.load_day, min_views_of_day, min_loaded_views
        )
        self._run_merges = RunMerges(self._index.visits, self._fold_lock)
        self._section_indexer = SectionIndexer(
            self._database,
            self._view_log,
            self._index,
            self._fold_lock,
            SectionSearch(self._database, min_large_views, self._large_projects),
            self._tidy_up_after_sections,
        )
        self._min_indexed_views = min_indexed_views
        self._may_be_behind = True
        """Whether folded views may wait to be summed up, or to be copied."""
        self._preparation: threading.Thread | None = None

    def log_views(self, views: Sequence[PageView]) -> LogResult:
        return self._view_log.write(views)

    def prepare_logging(self) -> None:
        """Loads what logging needs, and what the first fold needs, in a thread, so that no report waits for it."""
        self._view_log.prepare()
        if self._preparation is None:
            self._preparation = threading.Thread(target=self._prepare_folds, name="preparation", daemon=True)
            self._preparation.start()

    def ping(self) -> None:
        with self._database.read() as connection:
            connection.execute("select 1")

    def backlog(self) -> int:
        """Returns the number of views that are not folded; at least 1 while folded views wait to be summed up or
        copied, so that folds continue this."""
        return max(count_unfolded_views(self._database), int(self._is_behind()))

    def fold(self) -> int:
        with self._fold_lock:
            folded_views = 0
            for number, view_count in enumerate(self._index.fold_views(self._view_log.last_number)):
                folded_views += view_count
                self._sum_up_views(self._index.last_folded)
                self._tidy_up()
                if number > 0:  # a long fold, whose own arrays need memory
                    self._database.release_memory()
            self._catch_up()
            self._run_merges.start(is_early=folded_views <= MAX_VIEWS_OF_SMALL_FOLD)
            self._start_hour_counter()
            self._section_indexer.note_views(self._view_log.last_number)
            return folded_views

    def count_visitors_by_page(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        return self._visitor_reports.count_visitors_by_page(project_id, days, limit, offset, query)

    def count_views_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReportPage:
        return site_reports.count_views_by_page(self._database, project_id, days, limit, offset)

    def list_agents(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        return site_reports.list_agents(self._database, project_id, days, limit, offset)

    def list_missing_pages(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> MissingReport:
        return site_reports.list_missing_pages(self._database, project_id, days, limit, offset)

    def list_referrers(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReferrerReport:
        return site_reports.list_referrers(self._database, project_id, days, limit, offset)

    def list_sections(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: SectionQuery = TOP_SECTIONS,
    ) -> SectionReport:
        report, visitors = section_reports.list_sections(self._database, project_id, days, limit, offset, query)
        if visitors.read_views >= self._min_indexed_views:
            self._section_indexer.request(project_id, visitors.read_sections)
        return report

    def wait_for_filter(self) -> None:
        """Waits until the filter of known events is loaded, rebuilt or saved, if a thread does so."""
        self._view_log.wait_for_filter()

    def wait_for_sections(self) -> None:
        """Waits until the sections of large projects, and those that a report has asked for, are in the index, or could
        not be added to it."""
        self._section_indexer.wait()

    def wait_for_hours(self) -> None:
        """Waits until the finished days that a fold or a start has found are counted by hour, or could not be."""
        self._hour_counter.wait()

    def load_page(
        self,
        project_id: str,
        path: str,
        days: DayRange = ALL_DAYS,
        limits: RawViewLimits = DEFAULT_RAW_VIEW_LIMITS,
    ) -> PageDetail | None:
        return page_report.load_page(self._database, project_id, path, days, limits)

    def list_rules(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 1000, with_missing: bool = False
    ) -> Sequence[RuleRow]:
        return site_reports.list_rules(self._database, project_id, days, limit, with_missing)

    def load_timeseries(
        self, project_id: str, interval: Interval, days: DayRange = ALL_DAYS
    ) -> Sequence[TimeseriesPoint]:
        return site_reports.load_timeseries(self._database, project_id, interval, days)

    def count_site_totals(self, project_ids: Collection[str], days: DayRange = ALL_DAYS) -> Sequence[SiteTotals]:
        return site_reports.count_site_totals(self._database, project_ids, days)

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        return self._hour_reports.load_hours(project_id, first_at, end_at)

    def set_ai_classes(self, project_id: str, classes: Collection[str], timeout_seconds: float | None = None) -> None:
        with self._fold_lock:
            project = self._view_log.add_project(project_id)
            maintenance.set_ai_classes(
                self._index, self._database, project, sum(CLASS_BITS[kind] for kind in set(classes))
            )
            self._hour_counter.look_again()
            compact_tables(self._database, free_memory=self._index.visits.release_index)

    def rebuild_index(self) -> None:
        with self._fold_lock:
            maintenance.rebuild_index(self._index, self._database)
            compact_tables(self._database, free_memory=self._index.visits.release_index)

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        with self._fold_lock, self._view_log.change_of_views():
            return maintenance.delete_raw_views(self._database, before_day, project_ids)

    def withdraw_views(self, project_id: str, events: Sequence[int]) -> int:
        event_ids = [shorten_event_hash(event) for event in events]
        with self._fold_lock, self._index.change(), self._view_log.correction() as (connection, id_tables):
            project = id_tables.projects.get(project_id)
            return 0 if project is None else corrections.withdraw_views(self._index, connection, project, event_ids)

    def reclassify_views(self, project_id: str, changes: Sequence[Reclassification], version: str) -> Correction:
        with self._fold_lock, self._index.change(), self._view_log.correction() as (connection, id_tables):
            if project_id not in id_tables.projects or not changes:
                return Correction(0)
            return corrections.reclassify_views(self._index, connection, id_tables, project_id, changes, version)

    def forget_project(self, project_id: str) -> None:
        with (
            self._fold_lock,
            self._index.change(),
            self._view_log.project_removal(project_id) as (connection, project),
        ):
            self._section_indexer.forget_project(project_id)
            self._large_projects.discard(project_id)
            if project is not None:
                maintenance.forget_project(self._index, connection, project)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        with self._fold_lock, self._view_log.change_of_views():
            if (project := self._view_log.find_project(project_id)) is not None:
                maintenance.forget_visitor(self._index, self._database, project, visitor)

    def back_up(self, target: Path) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._backup_lock)
            with self._fold_lock:
                runs = stack.enter_context(self._index.visits.hold_runs())
            self._database.copy_to(target, partial(maintenance.complete_copy, runs))

    def find_export_range(self, project_id: str) -> DayRange | None:
        return export.find_export_range(self._database, project_id)

    def list_export_days(self, project_id: str, days: DayRange) -> Sequence[ExportDay]:
        return export.list_export_days(self._database, project_id, days)

    def export_day(self, project_id: str, dataset: str, day: int, file_format: ExportFormat, target: Path) -> int:
        return export.export_day(self._database, project_id, dataset, day, ExportFormat(file_format), target)

    def move_visits_into_table(self) -> None:
        """Moves the visits from their files into DuckDB's table, where a migration reads them.

        Files are merged no more, and the store should be closed.
        """
        self._section_indexer.stop()
        self._run_merges.stop()
        with self._fold_lock, self._index.change(), self._database.write(for_fold=True) as connection:
            self._index.visits.move_into_table(connection)

    def _prepare_folds(self) -> None:
        try:
            with self._fold_lock:
                self._index.prepare()
                self._start_hour_counter()
            self._section_indexer.note_views(self._view_log.last_number)
        except StoreUnavailable:
            log.warning("could not prepare folds; the next fold will retry", exc_info=True)

    def _is_behind(self) -> bool:
        """Returns whether folded views wait to be summed up or copied: the first copy has several parts, and a failed
        one is made later."""
        if self._may_be_behind:
            last_folded = self._read_last_folded()
            self._may_be_behind = self._summaries.are_behind(last_folded) or self._page_visitors.are_behind(last_folded)
        return self._may_be_behind

    def _catch_up(self) -> None:
        """Sums up folded views and copies their visitors: at least one part and for a limited time; the next folds do
        the rest."""
        deadline = time.monotonic() + MAX_CATCH_UP_SECONDS_PER_FOLD
        while self._is_behind():
            self._sum_up_views(self._read_last_folded())
            self._database.checkpoint()
            if time.monotonic() >= deadline:
                return

    def _read_last_folded(self) -> int:
        with self._database.read() as connection:
            return read_last_folded(connection)

    def _sum_up_views(self, folded: int) -> None:
        """Sums up folded views, and copies their visitors, if there are enough of them."""
        if self._summaries.are_behind(folded):
            with self._database.write() as connection:
                self._summaries.add_views(connection, folded)
        if self._page_visitors.are_behind(folded):
            self._index.visits.release_index()  # sorting a part needs memory
            self._page_visitors.copy_part(folded)
            self._may_be_behind = True  # more parts may be left

    def _start_hour_counter(self) -> None:
        if not self._is_behind():  # the sums tell which days have many views
            self._hour_counter.start(self._summaries.get_last_number())

    def _tidy_up(self, max_new_rows: int | None = None) -> None:
        """Compacts tables and merges files of visits if they are many, and makes a checkpoint if one is due."""
        is_due = self._index.has_many_new_rows() or max_new_rows is not None
        is_compacted = is_due and compact_tables(self._database, max_new_rows, self._index.visits.release_index)
        self._database.checkpoint(force=is_compacted)
        self._run_merges.catch_up()

    def _tidy_up_after_sections(self, is_done: bool) -> None:
        """Once all sections are indexed, compacts also what has grown little, because all days have new rows."""
        self._tidy_up(MAX_NEW_ROWS_OF_SECTIONS if is_done else None)
        self._run_merges.start()

    def close(self) -> None:
        if self._preparation is not None:
            self._preparation.join()
        self._hour_counter.stop()
        self._section_indexer.stop()
        self._run_merges.stop()
        if self._fold_lock.acquire(blocking=False):  # a fold that still runs keeps its files open until it fails
            self._index.visits.close()
            self._fold_lock.release()
        self._view_log.close()
        self._database.close()
