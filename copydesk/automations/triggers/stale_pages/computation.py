"""Computes the reports of stale pages that people requested. Every worker has one, which computes one at a time."""

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from copydesk.automations.reader_signals import ReaderSignals
from copydesk.automations.triggers.looks import WatchedRepository
from copydesk.automations.triggers.stale_pages.finder import StalePageFinder
from copydesk.automations.triggers.stale_pages.reports import (
    ClaimedReport,
    CommitEntry,
    SourceEntry,
    StalePageEntry,
    StaleReport,
    StaleReports,
)
from copydesk.automations.triggers.stale_pages.run_data import POPULAR_MS
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.errors import ProjectNotFound, StoreUnavailable, UserFacingError
from copydesk.core.projects.projects import Projects
from copydesk.jobs.job import JobFailed
from copydesk.jobs.projects.page_history import CommitSummary, build_commit_link, to_safe_line
from copydesk.jobs.projects.staleness.comparison import ChangedSource, Comparison, StalePage
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.workflow.isolation.page_lookups import ComparisonRequest

COMPUTE_TICK_SECONDS = 3.0
MAX_ATTEMPTS = 3
"""A comparison that kills its workers is given up after this many."""
MAX_PAGES_STORED = 100
MAX_PATH_CHARS = 500
MAX_NAME_CHARS = 100
INTERNAL_PROBLEM = "An internal error stopped the comparison. See the Copydesk log for details."
CRASHED_PROBLEM = f"The comparison was interrupted {MAX_ATTEMPTS} times. See the Copydesk log for details."

log = logging.getLogger(__name__)


class ReportComputation:
    def __init__(
        self, database: Database, reports: StaleReports, signals: ReaderSignals, finder: StalePageFinder
    ) -> None:
        self.projects = Projects(database)
        self.reports = reports
        self.signals = signals
        self.finder = finder

    def tick(self) -> None:
        """Computes the reports that are requested, one after the other."""
        while (claimed := self.reports.claim_next()) is not None:
            with self._keep_claim(claimed):
                self._compute(claimed)

    def _compute(self, claimed: ClaimedReport) -> None:
        if claimed.attempts > MAX_ATTEMPTS:
            self.reports.fail(claimed, CRASHED_PROBLEM)
            return
        try:
            key, report = self._build_report(claimed)
        except ProjectNotFound:
            return
        except StoreUnavailable:
            raise
        except (JobFailed, UserFacingError) as failure:
            self.reports.fail(claimed, str(failure))
        except Exception:
            log.exception("the stale pages of project %s could not be computed", claimed.project_id)
            self.reports.fail(claimed, INTERNAL_PROBLEM)
        else:
            self.reports.finish(claimed, key, report)

    @contextmanager
    def _keep_claim(self, claimed: ClaimedReport) -> Iterator[None]:
        """Renews the claim until the context ends, since a first fetch takes long."""
        is_done = threading.Event()

        def renew() -> None:
            while not is_done.wait(self.reports.claim_ms / 4000):
                try:
                    if not self.reports.renew(claimed):
                        return
                except StoreUnavailable as error:
                    log.warning("could not renew the claim on stale pages: %s", error)

        renewal = threading.Thread(target=renew, name="stale-pages-claim", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            is_done.set()
            renewal.join()

    def _build_report(self, claimed: ClaimedReport) -> tuple[str, StaleReport]:
        """Returns the report with the key of what it depends on. Takes the stored one if that has the same key."""
        project = self.projects.get(claimed.project_id)
        pages = self.signals.list_popular_pages(project.id, clock.now() - POPULAR_MS)
        readers = {page.path: page.visitors for page in pages}
        repositories = {each.name: each for each in self.finder.list_repositories(project)}
        request = self.finder.build_request(project, pages)
        key = _digest_request(request)
        if claimed.report is not None and claimed.key == key:
            stored = [page.model_copy(update={"readers": readers[page.path]}) for page in claimed.report.pages]
            return key, claimed.report.model_copy(update={"pages": stored})
        comparison = self.finder.compare(request)
        return key, _describe_comparison(comparison, readers, repositories)


def _digest_request(request: ComparisonRequest) -> str:
    """Returns a digest of all that a report depends on, except for the folders, which each server chooses."""
    copies = [(copy.name, copy.address, copy.commit) for copy in (request.docs, *request.contexts)]
    content = json.dumps([copies, request.root, request.pages, request.citations])
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def _describe_comparison(
    comparison: Comparison, readers: Mapping[str, int], repositories: Mapping[str, WatchedRepository]
) -> StaleReport:
    return StaleReport(
        pages=[
            _describe_page(page, readers[page.address], repositories) for page in comparison.stale[:MAX_PAGES_STORED]
        ],
        page_count=len(comparison.stale),
        popular_count=len(readers),
        known_count=len(comparison.edits),
        has_sources=comparison.has_sources,
        is_complete=comparison.is_complete,
        contexts=sorted(name for name in repositories if name),
    )


def _describe_page(page: StalePage, readers: int, repositories: Mapping[str, WatchedRepository]) -> StalePageEntry:
    return StalePageEntry(
        path=page.address,
        readers=readers,
        file=to_safe_line(page.edits.path, MAX_PATH_CHARS),
        edited=_describe_commit(page.edits.edited, repositories[""]),
        sources=[_describe_source(source, repositories[source.repository]) for source in page.sources],
        source_count=page.source_count,
    )


def _describe_source(source: ChangedSource, repository: WatchedRepository) -> SourceEntry:
    return SourceEntry(
        repository=source.repository,
        path=to_safe_line(source.path, MAX_PATH_CHARS),
        names=[to_safe_line(name, MAX_NAME_CHARS) for name in source.names],
        commits=[_describe_commit(commit, repository) for commit in source.commits],
        commit_count=source.commit_count,
    )


def _describe_commit(commit: CommitSummary, repository: WatchedRepository) -> CommitEntry:
    return CommitEntry(
        id=commit.id,
        at=commit.at,
        author=redact_secrets(commit.author, ()),
        subject=redact_secrets(commit.subject, ()),
        url=build_commit_link(repository.forge, repository.address, commit.id),
    )
