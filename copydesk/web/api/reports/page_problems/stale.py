"""The stale pages API: /v1/analytics/{projectId}/stale"""

from enum import StrEnum

from fastapi import APIRouter, Depends, Response

from copydesk.automations.triggers.stale_pages.reports import CommitEntry, ReportState, SourceEntry, StalePageEntry
from copydesk.core.clock import format_iso
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.reports.parameters import (
    TABLE_RESPONSES,
    CurrentReportRequest,
    Offset,
    RowLimit,
)
from copydesk.web.api.schemas import ApiModel

router = APIRouter(prefix="/v1/analytics/{projectId}", tags=["analytics"], dependencies=[Depends(bearer)])


class StaleStatus(StrEnum):
    COMPUTING = "computing"
    READY = "ready"
    FAILED = "failed"


class StaleCommitResponse(ApiModel):
    commit: str
    at: str
    author: str
    subject: str
    url: str | None
    """The commit on the forge; null without a forge."""

    @classmethod
    def from_entry(cls, entry: CommitEntry) -> "StaleCommitResponse":
        return cls(commit=entry.id, at=format_iso(entry.at), author=entry.author, subject=entry.subject, url=entry.url)


class StaleSourceResponse(ApiModel):
    repository: str
    """The name of the context repository; empty for the project's own."""
    path: str
    names: list[str]
    """The names on the page whose lines changed; empty if the page names or cites the file."""
    commits: list[StaleCommitResponse]
    """The newest first, at most 3."""
    commit_count: int

    @classmethod
    def from_entry(cls, entry: SourceEntry) -> "StaleSourceResponse":
        return cls(
            repository=entry.repository,
            path=entry.path,
            names=entry.names,
            commits=[StaleCommitResponse.from_entry(commit) for commit in entry.commits],
            commit_count=entry.commit_count,
        )


class StalePageResponse(ApiModel):
    path: str
    readers: int
    """People who read the page in the last 30 days."""
    file: str
    """The page's file in the repository."""
    last_edit: StaleCommitResponse
    """The last commit that changed the content of the page."""
    sources: list[StaleSourceResponse]
    """The sources that changed after that, at most 5."""
    source_count: int

    @classmethod
    def from_entry(cls, entry: StalePageEntry) -> "StalePageResponse":
        return cls(
            path=entry.path,
            readers=entry.readers,
            file=entry.file,
            last_edit=StaleCommitResponse.from_entry(entry.edited),
            sources=[StaleSourceResponse.from_entry(source) for source in entry.sources],
            source_count=entry.source_count,
        )


class StaleStatusResponse(ApiModel):
    status: StaleStatus
    """`computing` while a comparison is requested or runs; `failed` if the last one failed."""
    compared_at: str | None
    """When the rows were computed; null if they never were."""
    requested_at: str | None
    """When the comparison was requested that is not finished yet; null without one."""
    problem: str | None
    """Why the last comparison failed. The rows are then of an earlier one."""

    @classmethod
    def from_state(cls, state: ReportState) -> "StaleStatusResponse":
        status = StaleStatus.FAILED if state.problem is not None else StaleStatus.READY
        return cls(
            status=StaleStatus.COMPUTING if state.requested_at is not None else status,
            compared_at=None if state.computed_at is None else format_iso(state.computed_at),
            requested_at=None if state.requested_at is None else format_iso(state.requested_at),
            problem=state.problem,
        )


class StaleResponse(StaleStatusResponse):
    stale: list[StalePageResponse]
    """The most read first, at most 100 in all."""
    has_more: bool
    has_sources: bool | None
    """False if there is no code to compare with: no context repository, and none beside the pages. Null before the
    first comparison."""
    is_complete: bool | None
    """False if the history was too long to read all of it. Null before the first comparison."""

    @classmethod
    def build(cls, state: ReportState, limit: int, offset: int) -> "StaleResponse":
        pages = state.report.pages if state.report else []
        return cls(
            **StaleStatusResponse.from_state(state).model_dump(),
            stale=[StalePageResponse.from_entry(page) for page in pages[offset : offset + limit]],
            has_more=len(pages) > offset + limit,
            has_sources=state.report.has_sources if state.report else None,
            is_complete=state.report.is_complete if state.report else None,
        )


@router.get("/stale", response_model=StaleResponse, responses=TABLE_RESPONSES, operation_id="exportStale")
async def stale(
    project_id: ProjectId, report_request: CurrentReportRequest, limit: RowLimit = 50, offset: Offset = 0
) -> Response:
    """Returns the popular pages whose sources changed after the page was last edited, the most read first.

    A worker compares them in the background. The first call, and one after a day, requests that; `status` says how far
    it is.
    """
    state = await report_request.run_query(lambda: load_stale_pages(report_request.desk, report_request.project))
    report = StaleResponse.build(state, limit, offset)
    return report_request.render_rows("stale", report, report.stale, offset + limit if report.has_more else None)


@router.post("/stale/refresh", status_code=202, responses=error_responses(413), operation_id="refreshStale")
async def refresh_stale(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> StaleStatusResponse:
    """Requests a new comparison, unless one is requested already or ended less than a minute ago."""
    reports = desk.stale_pages.reports
    await run_in_thread(reports.request, project.id)
    return StaleStatusResponse.from_state(await run_in_thread(reports.load, project.id))


def load_stale_pages(desk: Desk, project: Project) -> ReportState:
    """Returns the report, and requests a newer one if it is old or about other context repositories."""
    contexts = [context.name for context in desk.contexts.list(project.id)]
    return desk.stale_pages.reports.load_recent(project.id, contexts)
