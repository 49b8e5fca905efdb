"""The analytics pages: the visitors of a date range, people and AI side by side.

The numbers come from the same calls as those of the API.
"""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import DayRange
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.figures import (
    AgentTableRow,
    build_agent_rows,
    build_page_rows,
    parse_listing,
    parse_page_number,
)
from copydesk.web.dashboard.readership.overview.report import build_report
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error

ROWS_PER_PAGE = 25
RULE_DAYS = 90
"""The rules of agents are read from the raw views of the last days of a range only, because this reads every view."""

router = APIRouter(prefix="/projects/{project_id}/readership")


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
    report = await run_in_thread(
        build_report, signed_in.desk, project, selection.chosen, page_query, ROWS_PER_PAGE, offset
    )
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


def _list_agents(desk: Desk, project: Project, days: DayRange, offset: int) -> tuple[Sequence[AgentTableRow], bool]:
    store = desk.get_folded_store(project)
    rows, has_more = store.list_agents(project.id, days, ROWS_PER_PAGE, offset)
    rule_days = DayRange(max(days.first, min(days.end, clock.today() + 1) - RULE_DAYS), days.end)
    return build_agent_rows(rows, store.list_rules(project.id, rule_days), project.collecting.ai_classes), has_more
