"""The analytics page of missing pages, each with a button that starts a job to create a redirect."""

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.report_rows import MissingRow
from copydesk.core.errors import InvalidRequest
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.pages.missing_addresses import build_redirect_prompt, is_safe_address
from copydesk.web.api.reports.page_problems.missing import MissingResponse
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.readership.figures import parse_page_number
from copydesk.web.dashboard.readership.selection import parse_selection, render_readership, render_selection_error
from copydesk.web.responses.csv_reports import render_list_csv

ROWS_PER_PAGE = 25
TEMPLATE = "readership-missing.html"

router = APIRouter(prefix="/projects/{project_id}/readership")


class MissingTableRow(NamedTuple):
    row: MissingRow
    prompt: str | None
    """The prompt of a job that creates a redirect; None if the path is not one that a page may have had."""
    nonce: str
    """Makes the form create one job, however often it is submitted."""


@router.get("/missing")
async def missing_page(project_id: str, request: Request, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    query = request.query_params
    try:
        selection = parse_selection(project, query)
        number = parse_page_number(query)
    except InvalidRequest as error:
        return render_selection_error(TEMPLATE, signed_in, project, query, error)
    offset = (number - 1) * ROWS_PER_PAGE
    days = selection.chosen.days
    report = await run_in_thread(
        lambda: signed_in.desk.get_folded_store(project).list_missing_pages(project.id, days, ROWS_PER_PAGE, offset)
    )
    table_values = {"rows": _build_rows(report.rows), "number": number, "offset": offset}
    return render_readership(TEMPLATE, 200, signed_in, selection, report=report, **table_values)


def render_missing_csv(desk: Desk, project: Project, days: DayRange, max_rows: int) -> tuple[str, bool]:
    """Returns the same CSV as the API, and whether there are more rows."""
    report = desk.get_folded_store(project).list_missing_pages(project.id, days, max_rows)
    return render_list_csv("missing", MissingResponse.from_report(report).missing), report.has_more


def _build_rows(rows: Sequence[MissingRow]) -> list[MissingTableRow]:
    return [
        MissingTableRow(row, build_redirect_prompt(row.path) if is_safe_address(row.path) else None, random_text(22))
        for row in rows
    ]
