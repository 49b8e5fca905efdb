"""Downloads of the analytics pages as CSV: the rows of a table with its filter and order, on all its pages."""

from collections.abc import Callable, Mapping, Sequence

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import DayRange, PageQuery, Store
from copydesk.analytics.stores.report_rows import PageCounts
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.schemas import AgentsResponse, TimeseriesResponse
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.audience import AUDIENCE_REPORTS, render_audience_csv
from copydesk.web.dashboard.readership.date_ranges import SelectedRange
from copydesk.web.dashboard.readership.figures import parse_listing
from copydesk.web.dashboard.readership.lists.interactions import INTERACTION_LISTS, render_interactions_csv
from copydesk.web.dashboard.readership.lists.missing_pages import render_missing_csv
from copydesk.web.dashboard.readership.lists.stale_pages import render_stale_csv
from copydesk.web.dashboard.readership.overview.report import load_hours_of_day, load_series
from copydesk.web.dashboard.readership.selection import parse_selection
from copydesk.web.responses.csv_reports import REPORT_COLUMNS, render_csv, render_report_csv
from copydesk.web.responses.html import PAGE_HEADERS

MAX_CSV_ROWS = 100_000
"""The limit of rows in a download. One query reads them all, so that no row is missing or repeated."""

router = APIRouter(prefix="/projects/{project_id}/readership")


@router.get("/{report}.csv")
async def download_csv(project_id: str, report: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    if report not in (*REPORT_COLUMNS, *INTERACTION_LISTS, "missing", "stale", *AUDIENCE_REPORTS):
        raise NotFound
    query = request.query_params
    selected = parse_selection(project, query).chosen
    text = await run_in_thread(_render_report, signed_in.desk, project, selected, report, query)
    file_name = f"{report}-{selected.from_day}-{selected.to_day}" if selected.from_day else report
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{file_name}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def _render_report(desk: Desk, project: Project, selected: SelectedRange, report: str, query: Mapping[str, str]) -> str:
    """Returns the CSV of the API, filtered and ordered like the table."""
    if report in INTERACTION_LISTS:
        return render_interactions_csv(desk, project, selected.days, report, query, MAX_CSV_ROWS)
    if report == "stale":
        return render_stale_csv(desk, project)
    if report == "missing":
        text, has_more = render_missing_csv(desk, project, selected.days, MAX_CSV_ROWS)
        _require_all_rows(has_more)
        return text
    if report in AUDIENCE_REPORTS:
        text, has_more = render_audience_csv(desk, project, selected.days, report, MAX_CSV_ROWS)
        _require_all_rows(has_more)
        return text
    page_query, _ = parse_listing(query)
    store = desk.get_folded_store(project)
    if report == "timeseries":
        return _render_timeseries(store, project.id, selected)
    if report == "agents":
        agents, has_more = store.list_agents(project.id, selected.days, MAX_CSV_ROWS)
        _require_all_rows(has_more)
        return render_report_csv(report, AgentsResponse.from_rows(agents, has_more))
    load_pages = _load_visitors if report == "visitors" else _load_views
    rows = load_pages(store, project.id, selected.days, page_query)
    cells = ([row.path, row.count.human, row.count.ai, row.count.total] for row in rows)
    return render_csv(REPORT_COLUMNS[report], cells)


def _load_visitors(store: Store, project_id: str, days: DayRange, query: PageQuery) -> Sequence[PageCounts]:
    page = store.count_visitors_by_page(project_id, days, MAX_CSV_ROWS, query=query)
    _require_all_rows(page.has_more)
    return page.rows


def _load_views(store: Store, project_id: str, days: DayRange, query: PageQuery) -> Sequence[PageCounts]:
    """Returns the views of the pages that the search finds, in the order of the same column."""
    page = store.count_views_by_page(project_id, days, MAX_CSV_ROWS)
    _require_all_rows(page.has_more)
    rows = [row for row in page.rows if query.search.lower() in row.path.lower()]
    sort_key: Callable[[PageCounts], str | int] = {
        "path": lambda row: row.path,
        "human": lambda row: row.count.human,
        "ai": lambda row: row.count.ai,
        "total": lambda row: row.count.total,
    }[query.by]
    by_path = sorted(rows, key=lambda row: row.path)
    return sorted(by_path, key=sort_key, reverse=query.descending)


def _render_timeseries(store: Store, project_id: str, selected: SelectedRange) -> str:
    """Returns the values of the chart: by hour for a single day, if its hours are known."""
    if selected.is_single_day:
        _, report = load_hours_of_day(store, project_id, selected.days.first)
        if report is not None:
            return render_report_csv("timeseries", TimeseriesResponse.from_hours(report.hours))
    interval, _, series = load_series(store, project_id, selected.days)
    return render_report_csv("timeseries", TimeseriesResponse.from_points(interval, series))


def _require_all_rows(has_more: bool) -> None:
    if has_more:
        raise InvalidRequest(f"This range has more than {MAX_CSV_ROWS:,} rows. Choose a shorter range, or use the API.")
