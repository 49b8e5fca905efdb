"""The analytics pages of sources (referrers) and sections."""

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import DayRange
from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.reports.referrers import ReferrersResponse
from copydesk.web.api.reports.sections import SectionsResponse, parse_section_query
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.figures import parse_page_number
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error
from copydesk.web.responses.csv_reports import render_list_csv

ROWS_PER_PAGE = 25
AUDIENCE_REPORTS = ("referrers", "sections")
SOURCES_TEMPLATE, SECTIONS_TEMPLATE = "readership-sources.html", "readership-sections.html"
KIND_LABELS = {"ai": "AI", "search": "Search", "social": "Social", "site": "Other sites", "direct": "Direct"}

router = APIRouter(prefix="/projects/{project_id}/readership")


@router.get("/sources")
async def sources_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection, number = parse_selection(project, query), parse_page_number(query)
    except InvalidRequest as error:
        return render_selection_error(SOURCES_TEMPLATE, signed_in, project, query, error)
    offset, days = (number - 1) * ROWS_PER_PAGE, selection.chosen.days
    report = await run_in_thread(
        lambda: signed_in.desk.get_folded_store(project).list_referrers(project.id, days, ROWS_PER_PAGE, offset)
    )
    totals = {label: getattr(report.totals, kind) for kind, label in KIND_LABELS.items()}
    values = {"report": report, "number": number, "offset": offset, "totals": totals, "labels": KIND_LABELS}
    return render_readership(SOURCES_TEMPLATE, 200, signed_in, selection, **values)


@router.get("/sections")
async def sections_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection, number = parse_selection(project, query), parse_page_number(query)
        section_query = parse_section_query(query.get("prefix"), None)
    except InvalidRequest as error:
        return render_selection_error(SECTIONS_TEMPLATE, signed_in, project, query, error)
    offset, days = (number - 1) * ROWS_PER_PAGE, selection.chosen.days
    report = await run_in_thread(
        lambda: signed_in.desk.get_folded_store(project).list_sections(
            project.id, days, ROWS_PER_PAGE, offset, section_query
        )
    )
    values = {
        "report": report, "number": number, "offset": offset, "prefix": section_query.prefix,
        "above": list_sections_above(section_query.prefix),
    }  # fmt: skip
    return render_readership(SECTIONS_TEMPLATE, 200, signed_in, selection, **values)


def list_sections_above(prefix: str) -> list[str]:
    """Returns the sections that contain a section, from the top."""
    parts = prefix.split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts))]


def render_audience_csv(desk: Desk, project: Project, days: DayRange, report: str, max_rows: int) -> tuple[str, bool]:
    """Returns the same CSV as the API (sections of the top level), and whether there are more rows."""
    store = desk.get_folded_store(project)
    if report == "referrers":
        referrers = store.list_referrers(project.id, days, max_rows)
        return render_list_csv(report, ReferrersResponse.from_report(referrers).referrers), referrers.has_more
    sections = store.list_sections(project.id, days, max_rows)
    return render_list_csv(report, SectionsResponse.from_report(sections).sections), sections.has_more
