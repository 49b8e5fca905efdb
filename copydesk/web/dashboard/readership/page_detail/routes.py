"""The analytics page of one page of the site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.page_paths import CONTROL_CHARS_PATTERN, MAX_PATH_BYTES
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, RawViewLimits
from copydesk.analytics.stores.report_rows import PageDetail, TimeseriesPoint
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.page_detail.activity import find_last_commit, load_page_activity
from copydesk.web.dashboard.auth.access import EditorPost, ViewerRequest
from copydesk.web.dashboard.jobs.job_list import creator_from_person, form_idempotency_key
from copydesk.web.dashboard.readership.audience import KIND_LABELS
from copydesk.web.dashboard.readership.chart import Chart, build_chart
from copydesk.web.dashboard.readership.date_ranges import NO_RANGE, SelectedRange
from copydesk.web.dashboard.readership.figures import AgentTableRow, Tile, build_agent_rows, build_tiles
from copydesk.web.dashboard.readership.lists.interactions import STATUS_LABELS
from copydesk.web.dashboard.readership.overview.report import count_run_up_days
from copydesk.web.dashboard.readership.page_detail.improvement import can_improve, load_improvement
from copydesk.web.dashboard.readership.selection import ReadershipSelection, parse_selection, render_readership
from copydesk.web.responses.redirects import redirect

TEMPLATE = "readership-page.html"
MAX_ROWS = 10
RAW_VIEW_LIMITS = RawViewLimits(of_page=50_000, of_site=5_000_000)
"""Lower than those of the API, so that the page opens at once: these views are counted in less than 100 ms."""
NO_RAW_VIEWS = RawViewLimits(0, 0)
IMPROVE_TIMEOUT_SECONDS = 10.0
"""How long starting a job waits for the name of the page's file."""

router = APIRouter(prefix="/projects/{project_id}/readership/page")


@dataclass(frozen=True)
class PageReport:
    tiles: Sequence[Tile]
    chart: Chart
    run_up: int
    """The number of days in the chart before the range."""
    agents: Sequence[AgentTableRow]
    has_views_only: bool
    """Whether there are too many views to count the visitors of agents and sources."""
    detail: PageDetail


@router.get("")
async def page_detail_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    path = query.get("path", "")
    try:
        path = parse_page_path(query)
        selection = parse_selection(project, query)
    except InvalidRequest as error:
        selection = ReadershipSelection(project, query, NO_RANGE)
        values = {"activity": None, "report": None, "page_path": path, "error": error.message}
        return render_readership(TEMPLATE, error.status, signed_in, selection, **values)
    report = await run_in_thread(build_page_report, signed_in.desk, project, path, selection.chosen)
    times = TimeRange.from_days(selection.chosen.days)
    activity = await load_page_activity(signed_in.desk, project, path, times)
    stale_state = await run_in_thread(signed_in.desk.stale_pages.reports.load, project.id)
    return render_readership(
        TEMPLATE,
        200,
        signed_in,
        selection,
        page_path=path,
        report=report,
        activity=activity,
        stale_page=stale_state.find_page(path),
        compared_at=stale_state.computed_at,
        can_improve=can_improve(path, activity.commit.path if activity.commit else None),
        nonce=random_text(22),
        kinds=KIND_LABELS,
        statuses=STATUS_LABELS,
        max_rows=MAX_ROWS,
    )


@router.post("/improve")
async def improve_page(project_id: str, post: EditorPost) -> Response:
    """Starts a job that improves the page, and opens the job."""
    project = await post.get_project(project_id)
    path = parse_page_path({"path": post.form.get("path")})
    commit = await find_last_commit(post.desk, project, path, IMPROVE_TIMEOUT_SECONDS)
    source_path = commit.path if commit else None
    new_job = await run_in_thread(load_improvement, post.desk, project, path, source_path)
    idempotency_key = form_idempotency_key(post.form, new_job)
    created = await run_in_thread(
        post.desk.jobs.create, project, new_job, idempotency_key, created_by=creator_from_person(post.person)
    )
    return redirect(f"/projects/{project.id}/jobs/{created.job.id}")


def parse_page_path(query: Mapping[str, str]) -> str:
    """Returns the path of the page. It is compared with counted paths as it is, and never opened."""
    path = query.get("path", "")
    if not path.startswith("/") or len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        raise InvalidRequest(f"A path must start with / and have at most {MAX_PATH_BYTES:,} bytes.")
    if CONTROL_CHARS_PATTERN.search(path):
        raise InvalidRequest("A path must not contain control characters.")
    return path


def build_page_report(desk: Desk, project: Project, path: str, selected: SelectedRange) -> PageReport | None:
    """Builds the numbers of a page; None if the page has no view in the range."""
    store = desk.get_folded_store(project)
    detail = store.load_page(project.id, path, selected.days, RAW_VIEW_LIMITS)
    if detail is None:
        return None
    series, days = detail.timeseries, selected.days
    if selected.is_single_day:
        days = selected.run_up_days
        with_run_up = store.load_page(project.id, path, days, NO_RAW_VIEWS)
        series = with_run_up.timeseries if with_run_up else series
    chart = build_chart("day", _find_chart_days(days, series), series)
    return PageReport(
        tiles=build_tiles(detail.totals, detail.views, None, None),
        chart=chart,
        run_up=count_run_up_days(selected, chart),
        agents=build_agent_rows(detail.agents[:MAX_ROWS], (), project.collecting.ai_classes),
        has_views_only=any(row.visitors is None for row in detail.agents),
        detail=detail,
    )


def _find_chart_days(days: DayRange, series: Sequence[TimeseriesPoint]) -> DayRange:
    """Returns the days of the chart. For all time, it begins with the first day that has views."""
    if days != ALL_DAYS:
        return days
    today = clock.today()
    first_day = series[0].day if series else today
    return DayRange(first_day, max(today, series[-1].day if series else today) + 1)
