"""A store for all processes of a machine. Calls go to the file if this process owns it, otherwise to its owner."""

import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import (
    ALL_DAYS,
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
    Store,
)
from copydesk.analytics.stores.errors import StoreInUse
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
from copydesk.analytics.stores.shared.client import StoreClient, StoreServerLost, StoreServerUnavailable
from copydesk.analytics.stores.shared.server import SOCKET_FILE, StoreServer
from copydesk.analytics.stores.shared.spool import reserve_spool_file
from copydesk.core.errors import StoreUnavailable

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

SERVER_TIMEOUT_SECONDS = 8.0
"""How long the server may be silent or missing. The successor of a killed server must replay its write-ahead log
first."""
RETRY_SECONDS = 0.02


class SharedStore:
    """A store that opens or connects at its first call. When the owner ends, the process with the next call becomes the
    owner."""

    def __init__(self, folder: Path, timeout_seconds: float = SERVER_TIMEOUT_SECONDS) -> None:
        self._folder = folder
        self._timeout_seconds = timeout_seconds
        self._client = StoreClient(folder / SOCKET_FILE, timeout_seconds)
        self._open_lock = threading.Lock()
        self._server: StoreServer | None = None
        self._closed = False

    def log_views(self, views: Sequence[PageView]) -> LogResult:
        """Stores views. If the owner is killed during the call, views without an event are not resent: they might count
        twice."""
        return self._call_with_retry(Store.log_views, views, repeatable=all(view.event is not None for view in views))

    def prepare_logging(self) -> None:
        self._call_with_retry(Store.prepare_logging)

    def ping(self) -> None:
        self._call_with_retry(Store.ping)

    def backlog(self) -> int:
        return self._call_with_retry(Store.backlog)

    def fold(self) -> int:
        return self._call_with_retry(Store.fold)

    def count_visitors_by_page(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        return self._call_with_retry(Store.count_visitors_by_page, project_id, days, limit, offset, query)

    def count_views_by_page(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReportPage:
        return self._call_with_retry(Store.count_views_by_page, project_id, days, limit, offset)

    def list_agents(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        rows, has_more = self._call_with_retry(Store.list_agents, project_id, days, limit, offset)
        return rows, has_more

    def list_missing_pages(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> MissingReport:
        return self._call_with_retry(Store.list_missing_pages, project_id, days, limit, offset)

    def list_referrers(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> ReferrerReport:
        return self._call_with_retry(Store.list_referrers, project_id, days, limit, offset)

    def list_sections(
        self,
        project_id: str,
        days: DayRange = ALL_DAYS,
        limit: int = 50,
        offset: int = 0,
        query: SectionQuery = TOP_SECTIONS,
    ) -> SectionReport:
        return self._call_with_retry(Store.list_sections, project_id, days, limit, offset, query)

    def load_page(
        self,
        project_id: str,
        path: str,
        days: DayRange = ALL_DAYS,
        limits: RawViewLimits = DEFAULT_RAW_VIEW_LIMITS,
    ) -> PageDetail | None:
        return self._call_with_retry(Store.load_page, project_id, path, days, limits)

    def list_rules(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 1000, with_missing: bool = False
    ) -> Sequence[RuleRow]:
        return self._call_with_retry(Store.list_rules, project_id, days, limit, with_missing)

    def load_timeseries(
        self, project_id: str, interval: Interval, days: DayRange = ALL_DAYS
    ) -> Sequence[TimeseriesPoint]:
        return self._call_with_retry(Store.load_timeseries, project_id, interval, days)

    def count_site_totals(self, project_ids: Collection[str], days: DayRange = ALL_DAYS) -> Sequence[SiteTotals]:
        return self._call_with_retry(Store.count_site_totals, frozenset(project_ids), days)

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        return self._call_with_retry(Store.load_hours, project_id, first_at, end_at)

    def set_ai_classes(self, project_id: str, classes: Collection[str], timeout_seconds: float | None = None) -> None:
        self._call_with_retry(Store.set_ai_classes, project_id, frozenset(classes))

    def rebuild_index(self) -> None:
        self._call_with_retry(Store.rebuild_index)

    def delete_raw_views(self, before_day: int, project_ids: Collection[str] | None = None) -> int:
        return self._call_with_retry(
            Store.delete_raw_views, before_day, None if project_ids is None else frozenset(project_ids)
        )

    def withdraw_views(self, project_id: str, events: Sequence[int]) -> int:
        return self._call_with_retry(Store.withdraw_views, project_id, list(events))

    def reclassify_views(self, project_id: str, changes: Sequence[Reclassification], version: str) -> Correction:
        return self._call_with_retry(Store.reclassify_views, project_id, list(changes), version)

    def forget_project(self, project_id: str) -> None:
        self._call_with_retry(Store.forget_project, project_id)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        self._call_with_retry(Store.forget_visitor, project_id, visitor)

    def back_up(self, target: Path) -> None:
        """Writes a copy. Not retried if the owner is killed, because the incomplete copy would already exist."""
        self._call_with_retry(Store.back_up, target.absolute(), repeatable=False)

    def find_export_range(self, project_id: str) -> DayRange | None:
        return self._call_with_retry(Store.find_export_range, project_id)

    def list_export_days(self, project_id: str, days: DayRange) -> Sequence[ExportDay]:
        return self._call_with_retry(Store.list_export_days, project_id, days)

    def export_day(self, project_id: str, dataset: str, day: int, file_format: ExportFormat, target: Path) -> int:
        """Writes a dataset to a file. The owner writes it in the data folder, from where this process moves it: the
        owner may lack permission for the target, or have other folders, as in a container."""
        with reserve_spool_file(self._folder.absolute(), target) as spool_file:
            row_count = self._call_with_retry(Store.export_day, project_id, dataset, day, file_format, spool_file)
            shutil.move(spool_file, target)
        return row_count

    def close(self) -> None:
        with self._open_lock:
            self._closed = True
            server = self._server
            self._server = None
        if server is not None:
            server.close()
        self._client.close()

    def _call_with_retry(
        self, method: Callable[[Store, *Arguments], T], *arguments: *Arguments, repeatable: bool = True
    ) -> T:
        deadline = 0.0
        while True:
            try:
                result: T = self._call_once(method.__name__, arguments)
                return result
            except (StoreServerUnavailable, StoreServerLost, StoreInUse) as error:
                if isinstance(error, StoreServerLost) and not repeatable:
                    raise
                deadline = deadline or time.monotonic() + self._timeout_seconds
                if self._closed or time.monotonic() > deadline:
                    raise (StoreUnavailable() if isinstance(error, StoreServerUnavailable) else error) from None
                time.sleep(RETRY_SECONDS)

    def _call_once(self, method_name: str, arguments: Sequence[object]) -> Any:
        if self._closed:
            raise StoreServerUnavailable
        if (server := self._server) is None:
            try:
                return self._client.call(method_name, arguments)
            except StoreServerUnavailable:
                server = self._become_server()
        return server.call(method_name, arguments)

    def _become_server(self) -> StoreServer:
        """Tries to become the owner.

        Of several threads and processes one succeeds; the others connect to it on retry.
        """
        with self._open_lock:
            if self._closed:
                raise StoreServerUnavailable
            if self._server is None:
                self._server = StoreServer(self._folder)
                self._client.close()
            return self._server
