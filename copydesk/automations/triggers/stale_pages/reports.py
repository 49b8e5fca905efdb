"""The report of stale pages of each project: people request it, any worker computes it, and all servers show it."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, or_, select, text, update

from copydesk.automations.tables import page_comparisons
from copydesk.automations.triggers.leases import CLOCK_STEP_MS, read_database_clock
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.ids import new_id
from copydesk.core.projects.missing_projects import refuse_missing_project

REFRESH_INTERVAL_MS = 60 * clock.SECOND
"""Between two comparisons of a project that people request."""
RECENT_MS = clock.DAY
"""An older report is computed again when a person opens it."""
CLAIM_MS = 60 * clock.SECOND
"""After this without a renewal, another worker compares in place of one that was killed."""
CLAIM_SQL = """
    update page_comparisons set claim = :claim, claimed_until = {now} + :claim_ms, attempts = attempts + 1
    where project_id = :project and requested_at is not null
    and (claimed_until is null or claimed_until <= {now} or claimed_until > {now} + :claim_ms + :step)
"""
RENEW_SQL = """
    update page_comparisons set claimed_until = {now} + :claim_ms where project_id = :project and claim = :claim
"""


class CommitEntry(BaseModel):
    """A commit. The texts come from the repository: one line each, without control characters and secrets."""

    id: str
    at: int
    author: str
    subject: str
    url: str | None


class SourceEntry(BaseModel):
    repository: str
    """The name of the context repository; empty for the project's own."""
    path: str
    names: list[str]
    """The names on the page whose lines changed; empty if the page names or cites the file."""
    commits: list[CommitEntry]
    """The newest first; only some if there are many."""
    commit_count: int


class StalePageEntry(BaseModel):
    path: str
    """The address, as readers see it."""
    readers: int
    file: str
    edited: CommitEntry
    sources: list[SourceEntry]
    source_count: int


class StaleReport(BaseModel):
    model_config = ConfigDict(frozen=True)

    pages: list[StalePageEntry]
    """The most read first; only some if there are many."""
    page_count: int
    popular_count: int
    """The pages with a reader."""
    known_count: int
    """The popular pages that are files of the repository."""
    has_sources: bool
    """False if there is no code to compare with."""
    is_complete: bool
    contexts: list[str]
    """The names of the context repositories that were compared."""


class ReportState(NamedTuple):
    report: StaleReport | None = None
    computed_at: int | None = None
    problem: str | None = None
    """Why the last comparison failed; the report is then an older one."""
    finished_at: int | None = None
    requested_at: int | None = None
    """When the comparison was requested that is not finished yet."""

    def find_page(self, path: str) -> StalePageEntry | None:
        pages = self.report.pages if self.report else ()
        return next((page for page in pages if page.path == path), None)


class ClaimedReport(NamedTuple):
    project_id: str
    claim: str
    attempts: int
    key: str | None
    report: StaleReport | None


class StaleReports:
    """Stores requests and reports. A claim keeps two workers from the same comparison (single flight)."""

    def __init__(self, database: Database, *, claim_ms: int = CLAIM_MS) -> None:
        self.database = database
        self.claim_ms = claim_ms
        self._claim = text(CLAIM_SQL.format(now=database.clock_sql))
        self._renew = text(RENEW_SQL.format(now=database.clock_sql))

    def load(self, project_id: str) -> ReportState:
        query = select(page_comparisons).where(page_comparisons.c.project_id == project_id)
        with self.database.read() as tx:
            row = tx.execute(query).first()
        if row is None:
            return ReportState()
        report = StaleReport.model_validate(row.report) if row.report is not None else None
        return ReportState(report, row.computed_at, row.problem, row.finished_at, row.requested_at)

    def load_recent(self, project_id: str, contexts: list[str]) -> ReportState:
        """Returns the report, and requests a newer one if it is older than a day or has other context repositories."""
        state = self.load(project_id)
        if state.requested_at is not None:
            return state
        has_same_contexts = state.report is None or state.report.contexts == sorted(contexts)
        if self.request(project_id, RECENT_MS if has_same_contexts else REFRESH_INTERVAL_MS):
            return self.load(project_id)
        return state

    def request(self, project_id: str, max_age_ms: int = REFRESH_INTERVAL_MS) -> bool:
        """Requests a comparison. Returns False if the last one ended less than this time ago.

        A request does nothing while an earlier one waits or is computed.
        """
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            now = read_database_clock(self.database, tx)
            row = {"project_id": project_id, "requested_at": now, "attempts": 0}
            if insert_if_absent(tx, page_comparisons, row):
                return True
            same = page_comparisons.c.project_id == project_id
            finished_at = page_comparisons.c.finished_at
            is_due = or_(finished_at.is_(None), finished_at <= now - max_age_ms, finished_at > now)
            again = update(page_comparisons).where(same, page_comparisons.c.requested_at.is_(None), is_due)
            if tx.execute(again.values(requested_at=now, attempts=0)).rowcount:
                return True
            return tx.execute(select(page_comparisons.c.requested_at).where(same)).scalar() is not None

    def claim_next(self) -> ClaimedReport | None:
        """Claims the oldest request that no worker computes, for this worker alone until the claim ends."""
        now = self.database.now
        until = page_comparisons.c.claimed_until
        is_free = or_(until.is_(None), until <= now, until > now + self.claim_ms + CLOCK_STEP_MS)
        query = select(page_comparisons).where(page_comparisons.c.requested_at.is_not(None), is_free)
        with self.database.read() as tx:
            rows = tx.execute(query.order_by(page_comparisons.c.requested_at).limit(10)).all()
        for row in rows:
            claim = new_id("cmp")
            params = {"project": row.project_id, "claim": claim, "claim_ms": self.claim_ms, "step": CLOCK_STEP_MS}
            with self.database.write() as tx:
                is_claimed = bool(tx.execute(self._claim, params).rowcount)
            if is_claimed:
                report = StaleReport.model_validate(row.report) if row.report is not None else None
                return ClaimedReport(row.project_id, claim, row.attempts + 1, row.key, report)
        return None

    def renew(self, claimed: ClaimedReport) -> bool:
        """Extends the claim. Returns False if another worker has it, or the project was deleted."""
        params = {"project": claimed.project_id, "claim": claimed.claim, "claim_ms": self.claim_ms}
        with self.database.write() as tx:
            return bool(tx.execute(self._renew, params).rowcount)

    def finish(self, claimed: ClaimedReport, key: str, report: StaleReport) -> None:
        """Stores the report, unless another worker has the claim."""
        with self.database.write() as tx:
            now = read_database_clock(self.database, tx)
            self._end(tx, claimed, now, problem=None, key=key, report=report.model_dump(mode="json"), computed_at=now)

    def fail(self, claimed: ClaimedReport, problem: str) -> None:
        """Stores why there is no new report. The last one stays."""
        with self.database.write() as tx:
            self._end(tx, claimed, read_database_clock(self.database, tx), problem=problem)

    def _end(self, tx: Connection, claimed: ClaimedReport, now: int, **values: object) -> None:
        same = page_comparisons.c.project_id == claimed.project_id
        ended = update(page_comparisons).where(same, page_comparisons.c.claim == claimed.claim)
        tx.execute(ended.values(requested_at=None, claim=None, claimed_until=None, finished_at=now, **values))
