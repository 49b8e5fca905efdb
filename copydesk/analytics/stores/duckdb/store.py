"""The store on DuckDB. Logging goes on while folding does; folds, and whatever rewrites what they wrote, take turns."""

import threading
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
from copydesk.analytics.stores.duckdb import maintenance as upkeep
from copydesk.analytics.stores.duckdb import reports
from copydesk.analytics.stores.duckdb.database import MEMORY, WRITE_BACK_FROM, Database
from copydesk.analytics.stores.duckdb.fold import backlog, fold
from copydesk.analytics.stores.duckdb.view_log import Log


class DuckStore:
    def __init__(
        self, path: Path, memory: str = MEMORY, threads: int = 1, write_back_from: int = WRITE_BACK_FROM
    ) -> None:
        self._database = Database(path, memory, threads, write_back_from)
        self._log = Log(self._database)
        self._turn = threading.Lock()

    def log(self, views: Sequence[View]) -> Logged:
        return self._log.write(views)

    def ping(self) -> None:
        with self._database.read() as connection:
            connection.execute("select 1")

    def backlog(self) -> int:
        return backlog(self._database)

    def fold(self) -> int:
        with self._turn:
            counted = 0
            for views in fold(self._database, self._log.last):
                counted += views
                tidied = upkeep.tidy(self._database)
                self._database.write_back(at_once=tidied)
            return counted

    def visitors(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0, choice: Choice = MOST_FIRST
    ) -> Page:
        return reports.visitors(self._database, project_id, days, limit, offset, choice)

    def views(self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0) -> Page:
        return reports.views(self._database, project_id, days, limit, offset)

    def agents(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        return reports.agents(self._database, project_id, days, limit, offset)

    def rules(self, project_id: str, days: Range = ALWAYS, limit: int = 1000) -> Sequence[RuleRow]:
        return reports.rules(self._database, project_id, days, limit)

    def timeseries(self, project_id: str, interval: Interval, days: Range = ALWAYS) -> Sequence[Moment]:
        return reports.timeseries(self._database, project_id, interval, days)

    def count_as_ai(self, project_id: str, kinds: Collection[str], patience: float | None = None) -> None:
        with self._turn:
            project = self._log.add_project(project_id)
            upkeep.count_as_ai(self._database, project, sum(BITS[kind] for kind in set(kinds)))

    def rebuild(self) -> None:
        with self._turn:
            upkeep.rebuild(self._database)

    def drop_views(self, before: int, projects: Collection[str] | None = None) -> int:
        with self._turn:
            return upkeep.drop_views(self._database, before, projects)

    def forget(self, project_id: str) -> None:
        with self._turn, self._log.forgetting(project_id) as (connection, project):
            if project is not None:
                upkeep.forget(connection, project)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        with self._turn:
            if (project := self._log.project(project_id)) is not None:
                upkeep.forget_visitor(self._database, project, visitor)

    def back_up(self, target: Path) -> None:
        self._database.copy_to(target)

    def close(self) -> None:
        self._log.close()
        self._database.close()
