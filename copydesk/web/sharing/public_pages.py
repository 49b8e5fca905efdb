"""The public pages of a link: a project's analytics for everyone who has the link, without a session or a form.

Each page has a template of its own, so that nothing which is added to the dashboard's pages becomes public by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.stores.base import Store
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.readership.date_ranges import (
    NO_RANGE,
    RANGE_LABELS,
    SelectedRange,
    parse_range,
)
from copydesk.web.dashboard.readership.figures import (
    build_agent_rows,
    build_page_rows,
    build_tiles,
    parse_page_number,
)
from copydesk.web.dashboard.readership.overview.comparison import compare_with_previous, load_totals
from copydesk.web.dashboard.readership.overview.report import build_range_chart, count_run_up_days
from copydesk.web.responses.html import PAGE_HEADERS, render_page
from copydesk.web.sharing.share_access import (
    NO_REFERRER,
    SharedAgents,
    SharedMissing,
    SharedPage,
    SharedRequest,
    SharedSearches,
)

ROWS_PER_PAGE = 25
MAX_PAGE_NUMBER = 400
PART_LABELS = {"agents": "Agents", "missing": "Missing pages", "searches": "Searches"}
PUBLIC_HEADERS = {
    **NO_REFERRER,
    "Content-Security-Policy": PAGE_HEADERS["Content-Security-Policy"].replace(
        "form-action 'self'", "form-action 'none'"
    ),
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class SharedSelection:
    """The selected range of a shared page, with the links to its other ranges and parts."""

    token: str
    part: str
    """`agents`, `missing` or `searches`; empty for the first page."""
    chosen: SelectedRange
    number: int = 1

    names = RANGE_LABELS

    @property
    def offset(self) -> int:
        return (self.number - 1) * ROWS_PER_PAGE

    def at(self, part: str, **params: str | int) -> str:
        """Returns the path of a part of this link with these parameters."""
        path = f"/share/{self.token}" + (f"/{part}" if part else "")
        return path + (f"?{urlencode(params)}" if params else "")

    def page(self, number: int) -> str:
        """Returns the path of another page of this part's table, in the same range."""
        return self.at(self.part, **self.chosen.query, page=number)


Report = Callable[[SharedRequest, Store, SharedSelection], dict[str, Any]]


@router.get("/share/{token}")
async def shared_page(request: Request, shared: SharedPage) -> Response:
    """Shows the overview and the pages, or the first part of a link that shows neither."""
    part = next((part for part in shared.link.parts if part not in PART_LABELS), None)
    if part is None:
        part = shared.link.parts[0]
        return await _render_part(request, shared, part, REPORTS[part])
    return await _render_part(request, shared, "", _report_overview)


@router.get("/share/{token}/agents")
async def shared_agents(request: Request, shared: SharedAgents) -> Response:
    return await _render_part(request, shared, "agents", _report_agents)


@router.get("/share/{token}/missing")
async def shared_missing(request: Request, shared: SharedMissing) -> Response:
    return await _render_part(request, shared, "missing", _report_missing)


@router.get("/share/{token}/searches")
async def shared_searches(request: Request, shared: SharedSearches) -> Response:
    return await _render_part(request, shared, "searches", _report_searches)


async def _render_part(request: Request, shared: SharedRequest, part: str, build_report: Report) -> Response:
    try:
        selection = _parse_selection(shared.token, part, request.query_params)
    except InvalidRequest as error:
        selection = SharedSelection(shared.token, part, NO_RANGE)
        return _render(shared, selection, error.status, error=error.message, report=None)
    report = await run_in_thread(lambda: build_report(shared, shared.desk.get_folded_store(shared.project), selection))
    return _render(shared, selection, 200, report=report)


def _parse_selection(token: str, part: str, query: Mapping[str, str]) -> SharedSelection:
    chosen = parse_range(query.get("range", ""), query.get("from", ""), query.get("to", ""))
    number = parse_page_number(query)
    if number > MAX_PAGE_NUMBER:
        raise InvalidRequest(f"A shared table shows at most {MAX_PAGE_NUMBER} pages.")
    return SharedSelection(token, part, chosen, number)


def _render(shared: SharedRequest, selection: SharedSelection, status: int, **values: Any) -> Response:
    parts = shared.link.parts
    has_front = any(part not in PART_LABELS for part in parts)
    tabs = {"": "Overview" if "overview" in parts else "Pages"} if has_front else {}
    return render_page(
        f"share-{selection.part or 'overview'}.html",
        status,
        PUBLIC_HEADERS,
        title=f"Analytics of {shared.project.name}",
        heading=shared.project.name,
        tabs={**tabs, **{part: PART_LABELS[part] for part in parts if part in PART_LABELS}},
        shown=parts,
        selection=selection,
        **values,
    )


def _report_overview(shared: SharedRequest, store: Store, selection: SharedSelection) -> dict[str, Any]:
    project_id, chosen = shared.project.id, selection.chosen
    report: dict[str, Any] = {"run_up": 0}
    if "overview" in shared.link.parts:
        now = clock.now()
        totals = load_totals(store, project_id, chosen.days)
        comparison = compare_with_previous(store, project_id, chosen, now)
        views = totals.views.total
        report["tiles"] = build_tiles(totals.visitors, views, comparison.current, comparison.previous)
        report["comparison"] = comparison.text
        report["chart"], _ = build_range_chart(store, project_id, chosen, (), now)
        report["run_up"] = count_run_up_days(chosen, report["chart"])
    if "pages" in shared.link.parts:
        pages = store.count_visitors_by_page(project_id, chosen.days, ROWS_PER_PAGE, selection.offset)
        report["rows"], report["has_more"] = build_page_rows(pages.rows), pages.has_more
    return report


def _report_agents(shared: SharedRequest, store: Store, selection: SharedSelection) -> dict[str, Any]:
    rows, has_more = store.list_agents(shared.project.id, selection.chosen.days, ROWS_PER_PAGE, selection.offset)
    return {"rows": build_agent_rows(rows, (), shared.project.collecting.ai_classes), "has_more": has_more}


def _report_missing(shared: SharedRequest, store: Store, selection: SharedSelection) -> dict[str, Any]:
    missing = store.list_missing_pages(shared.project.id, selection.chosen.days, ROWS_PER_PAGE, selection.offset)
    return {"rows": missing.rows, "has_more": missing.has_more}


def _report_searches(shared: SharedRequest, store: Store, selection: SharedSelection) -> dict[str, Any]:
    """Returns the most frequent searches. The table has one page: it is an excerpt."""
    times = TimeRange.from_days(selection.chosen.days)
    searches = shared.desk.searches.report(shared.project.id, times, ROWS_PER_PAGE * 4)
    return {"rows": searches.rows, "has_more": False}


REPORTS: dict[str, Report] = {"agents": _report_agents, "missing": _report_missing, "searches": _report_searches}
