"""The analytics page of imported history: daily totals that other tools have counted."""

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import format_day
from copydesk.core.errors import InvalidRequest
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.figures import parse_page_number
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error

DAYS_PER_PAGE, PAGES_SHOWN = 31, 25
TEMPLATE = "readership-history.html"

router = APIRouter(prefix="/projects/{project_id}/readership")


@router.get("/history")
async def history_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        number = parse_page_number(query)
    except InvalidRequest as error:
        return render_selection_error(TEMPLATE, signed_in, project, query, error)
    offset = (number - 1) * DAYS_PER_PAGE
    history, days = signed_in.desk.history, selection.chosen.days
    rows, has_more = await run_in_thread(history.list_days, project.id, days, DAYS_PER_PAGE, offset)
    pages, _ = await run_in_thread(history.list_pages, project.id, days, PAGES_SHOWN)
    return render_readership(
        TEMPLATE,
        200,
        signed_in,
        selection,
        report=True,
        rows=[(format_day(row.day), row) for row in rows],
        pages=pages,
        has_more=has_more,
        number=number,
        offset=offset,
    )
