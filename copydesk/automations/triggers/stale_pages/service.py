"""Stale pages as one part of the desk: data for runs of automations, the report for people, and its computation."""

from copydesk.automations.reader_signals import ReaderSignals
from copydesk.automations.triggers.looks import ListRepositories
from copydesk.automations.triggers.stale_pages.computation import COMPUTE_TICK_SECONDS, ReportComputation
from copydesk.automations.triggers.stale_pages.finder import ComparePages, StalePageFinder
from copydesk.automations.triggers.stale_pages.reports import StaleReports
from copydesk.automations.triggers.stale_pages.run_data import StaleRunData
from copydesk.core.db.database import Database
from copydesk.jobs.execution.worker import PeriodicTask


class StalePages:
    def __init__(
        self,
        database: Database,
        signals: ReaderSignals,
        list_repositories: ListRepositories,
        compare: ComparePages,
    ) -> None:
        finder = StalePageFinder(database, list_repositories, compare)
        self.reports = StaleReports(database)
        self.computation = ReportComputation(database, self.reports, signals, finder)
        self.prepare_run = StaleRunData(database, signals, finder).prepare_run

    def list_tasks(self) -> list[PeriodicTask]:
        return [PeriodicTask("stale pages", COMPUTE_TICK_SECONDS, self.computation.tick)]
