"""The analytics pages: the visitors of a date range, people and AI side by side.

The numbers come from the same calls as those of the API.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import ALL_DAYS, DayRange, PageQuery, ReportPage
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.schemas import AgentsResponse, TimeseriesResponse, ViewsResponse, VisitorsResponse
from copydesk.web.api.schemas import ApiModel
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.chart import Chart, build_chart
from copydesk.web.dashboard.readership.date_ranges import SelectedRange, format_range
from copydesk.web.dashboard.readership.figures import (
    AgentTableRow,
    Tile,
    build_agent_rows,
    build_page_rows,
    build_tiles,
    parse_listing,
    parse_page_number,
)
from copydesk.web.dashboard.readership.interactions import INTERACTION_LISTS, render_interactions_csv
from copydesk.web.dashboard.readership.missing_pages import render_missing_csv
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error
from copydesk.web.dashboard.readership.series import load_series
from copydesk.web.responses.csv_reports import REPORT_COLUMNS, render_report_csv
from copydesk.web.responses.html import PAGE_HEADERS

ROWS_PER_PAGE = 25
MAX_CSV_ROWS = 100_000
"""The limit of rows in a download. One query reads them all, so that no row is missing or repeated."""
RULE_DAYS = 90
"""The rules of agents are read from the raw views of the last days of a range only, because this reads every view."""

router = APIRouter(prefix="/projects/{project_id}/readership")


@dataclass(frozen=True)
class ReadershipReport:
    tiles: Sequence[Tile]
    chart: Chart
    pages: ReportPage
    before: str
    """The period with which the tiles compare, or an empty string."""
    run_up: int
    """The number of days in the chart before the range."""
    is_running: bool
    """Whether the range includes today, whose counts still grow."""
    is_empty: bool
    is_new: bool
    """Whether the project has no views at all."""


@router.get("")
async def readership_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        page_query, number = parse_listing(query)
    except InvalidRequest as error:
        return render_selection_error("readership.html", signed_in, project, query, error)
    offset = (number - 1) * ROWS_PER_PAGE
    report = await run_in_thread(_build_report, signed_in.desk, project, selection.chosen, page_query, offset)
    table_values = {
        "rows": build_page_rows(report.pages.rows),
        "choice": page_query,
        "number": number,
        "offset": offset,
    }
    return render_readership("readership.html", 200, signed_in, selection, report=report, **table_values)


@router.get("/agents")
async def agents_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        number = parse_page_number(query)
    except InvalidRequest as error:
        return render_selection_error("readership-agents.html", signed_in, project, query, error)
    offset = (number - 1) * ROWS_PER_PAGE
    ai = project.collecting.ai_classes
    rows, has_more = await run_in_thread(_list_agents, signed_in.desk, project, selection.chosen.days, offset)
    table_values = {"rows": rows, "has_more": has_more, "number": number, "offset": offset}
    return render_readership(
        "readership-agents.html", 200, signed_in, selection, report=True, ai=ai, rules_of=RULE_DAYS, **table_values
    )


@router.get("/{report}.csv")
async def download_csv(project_id: str, report: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    if report not in (*REPORT_COLUMNS, *INTERACTION_LISTS, "missing"):
        raise NotFound
    selection = parse_selection(project, request.query_params)
    text = await run_in_thread(_render_csv, signed_in.desk, project, selection.chosen.days, report)
    file_name = (
        f"{report}-{selection.chosen.from_day}-{selection.chosen.to_day}" if selection.chosen.from_day else report
    )
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{file_name}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def _build_report(
    desk: Desk, project: Project, selected: SelectedRange, page_query: PageQuery, offset: int
) -> ReadershipReport:
    store = desk.get_folded_store(project)
    pages = store.count_visitors_by_page(project.id, selected.days, ROWS_PER_PAGE, offset, page_query)
    interval, span, series = load_series(store, project.id, selected.chart_days)
    views = sum(each.views.total for each in series if interval != "day" or each.day >= selected.days.first)
    previous_days = selected.previous
    previous = None
    if previous_days:
        previous = (
            store.count_visitors_by_page(project.id, previous_days, 1).totals,
            store.count_views_by_page(project.id, previous_days, 1).totals.total,
        )
    return ReadershipReport(
        tiles=build_tiles(pages.totals, views, previous),
        chart=build_chart(interval, span, series),
        pages=pages,
        before=format_range(previous_days) if previous_days else "",
        run_up=selected.days.first - selected.chart_days.first,
        is_running=selected.days.end > clock.today(),
        is_empty=views == 0,
        is_new=views == 0 and not store.list_agents(project.id, ALL_DAYS, 1)[0],
    )


def _list_agents(desk: Desk, project: Project, days: DayRange, offset: int) -> tuple[Sequence[AgentTableRow], bool]:
    store = desk.get_folded_store(project)
    rows, has_more = store.list_agents(project.id, days, ROWS_PER_PAGE, offset)
    rule_days = DayRange(max(days.first, min(days.end, clock.today() + 1) - RULE_DAYS), days.end)
    return build_agent_rows(rows, store.list_rules(project.id, rule_days), project.collecting.ai_classes), has_more


def _render_csv(desk: Desk, project: Project, days: DayRange, report: str) -> str:
    """Returns the same CSV as the API, with every row of the range."""
    if report in INTERACTION_LISTS:
        return render_interactions_csv(desk, project, days, report, MAX_CSV_ROWS)
    if report == "missing":
        text, has_more = render_missing_csv(desk, project, days, MAX_CSV_ROWS)
        _require_all_rows(has_more)
        return text
    store = desk.get_folded_store(project)
    response: ApiModel
    if report == "timeseries":
        interval, _, series = load_series(store, project.id, days)
        response = TimeseriesResponse.from_points(interval, series)
        has_more = False
    elif report == "agents":
        rows, has_more = store.list_agents(project.id, days, MAX_CSV_ROWS)
        response = AgentsResponse.from_rows(rows, has_more)
    elif report == "visitors":
        visitors = store.count_visitors_by_page(project.id, days, MAX_CSV_ROWS)
        response = VisitorsResponse.from_page(visitors)
        has_more = visitors.has_more
    else:
        views = store.count_views_by_page(project.id, days, MAX_CSV_ROWS)
        response = ViewsResponse.from_page(views)
        has_more = views.has_more
    _require_all_rows(has_more)
    return render_report_csv(report, response)


def _require_all_rows(has_more: bool) -> None:
    if has_more:
        raise InvalidRequest(f"This range has more than {MAX_CSV_ROWS:,} rows. Choose a shorter range, or use the API.")
