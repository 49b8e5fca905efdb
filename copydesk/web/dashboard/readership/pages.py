"""Who reads: the visitors of a range, people and AI side by side. The figures are the API's, from the same calls."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from copydesk.analytics.stores.base import ALWAYS, Choice, Interval, Moment, Page, Range, Store
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.ids import id_pattern
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.web.api.report_schemas import AgentsView, TimeseriesView, ViewsView, VisitorsView
from copydesk.web.api.schemas import View
from copydesk.web.dashboard.auth.session import Viewer, Visit
from copydesk.web.dashboard.readership.chart import Chart, draw
from copydesk.web.dashboard.readership.date_ranges import NAMES, NO_RANGE, Chosen, chosen, interval_for, spoken
from copydesk.web.dashboard.readership.figures import (
    AgentLine,
    Tile,
    agent_lines,
    listing,
    number_of_page,
    page_rows,
    tiles,
)
from copydesk.web.responses.csv_reports import COLUMNS, report_sheet
from copydesk.web.responses.html import HEADERS, page

PER_PAGE = 25
MOST_ROWS = 100_000
"""Of a file to download, which comes from one look at the store, so that no row is missing or there twice."""
RULES_OF = 90
"""Days at the end of a range whose raw views are asked for their rules: that costs what they are."""

router = APIRouter(prefix="/projects/{project_id}/readership")


@dataclass(frozen=True)
class Look:
    """One look at a project's readership: what the address says, and where its links lead."""

    project: Project
    query: Mapping[str, str]
    chosen: Chosen

    names = NAMES

    def at(self, part: str = "", **more: str | int) -> str:
        """Another part, or another view of this one, in the same range."""
        asked = {**self.chosen.query, **more}
        return f"/projects/{self.project.id}/readership{part}" + (f"?{urlencode(asked)}" if asked else "")

    def pages(self, **more: str | int) -> str:
        """The table of pages, with the search and the order that it has."""
        kept = {name: self.query[name] for name in ("search", "sort", "order") if self.query.get(name)}
        return self.at("", **{**kept, **more}) + "#pages"


@dataclass(frozen=True)
class Report:
    tiles: Sequence[Tile]
    chart: Chart
    pages: Page
    before: str
    """The period that the tiles compare with."""
    run_up: int
    """Days of the chart that lie before the range."""
    is_running: bool
    """Today belongs to the range, and its figures still grow."""
    is_empty: bool
    is_new: bool
    """Nothing was ever counted in the project."""


@router.get("")
async def readership(project_id: str, request: Request, visit: Viewer) -> Response:
    project, query = await visit.project(project_id), request.query_params
    try:
        look = _look(project, query)
        choice, number = listing(query)
    except InvalidRequest as refusal:
        return _shown_again("readership.html", visit, project, query, refusal)
    offset = (number - 1) * PER_PAGE
    report = await call(_report, visit.desk, project, look.chosen, choice, offset)
    listed = {"rows": page_rows(report.pages.rows), "choice": choice, "number": number, "offset": offset}
    return _page("readership.html", 200, visit, look, report=report, **listed)


@router.get("/agents")
async def agents(project_id: str, request: Request, visit: Viewer) -> Response:
    project, query = await visit.project(project_id), request.query_params
    try:
        look, number = _look(project, query), number_of_page(query)
    except InvalidRequest as refusal:
        return _shown_again("readership-agents.html", visit, project, query, refusal)
    offset, ai = (number - 1) * PER_PAGE, project.collecting.ai_classes
    rows, more = await call(_agents, visit.desk, project, look.chosen.days, offset)
    listed = {"rows": rows, "has_more": more, "number": number, "offset": offset}
    return _page("readership-agents.html", 200, visit, look, report=True, ai=ai, rules_of=RULES_OF, **listed)


@router.get("/feedback")
async def feedback(project_id: str, request: Request, visit: Viewer) -> Response:
    project, query = await visit.project(project_id), request.query_params
    try:
        look, number, cursor = _look(project, query), number_of_page(query), _cursor(query)
    except InvalidRequest as refusal:
        return _shown_again("readership-feedback.html", visit, project, query, refusal)
    said, days, offset = visit.desk.feedback, look.chosen.days, (number - 1) * PER_PAGE
    pages, more = await call(said.by_page, project.id, days, PER_PAGE, offset)
    remarks, following = await call(said.page, project.id, days, PER_PAGE, cursor)
    listed = {"pages": pages, "has_more": more, "number": number, "offset": offset}
    newest = {"remarks": remarks, "following": following, "cursor": cursor}
    return _page("readership-feedback.html", 200, visit, look, report=True, **listed, **newest)


@router.get("/{report}.csv")
async def download(project_id: str, report: str, request: Request, visit: Viewer) -> Response:
    project = await visit.project(project_id)
    if report not in COLUMNS:
        raise NotFound
    look = _look(project, request.query_params)
    text = await call(_sheet, visit.desk, project, look.chosen.days, report)
    named = f"{report}-{look.chosen.from_day}-{look.chosen.to_day}" if look.chosen.from_day else report
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{named}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def _look(project: Project, query: Mapping[str, str]) -> Look:
    return Look(project, query, chosen(query.get("range", ""), query.get("from", ""), query.get("to", "")))


def _cursor(query: Mapping[str, str]) -> str | None:
    cursor = query.get("cursor")
    if cursor is not None and not re.fullmatch(id_pattern("fb"), cursor):
        raise InvalidRequest("This is not where a page of remarks begins.")
    return cursor


def _page(template: str, status: int, visit: Visit, look: Look, **shown: Any) -> Response:
    frame: dict[str, Any] = {"visit": visit, "project": look.project, "tab": "readership", "title": "Readership"}
    return page(template, status, None, look=look, **frame, **shown)


def _shown_again(
    template: str, visit: Visit, project: Project, query: Mapping[str, str], refusal: InvalidRequest
) -> Response:
    """With what was typed, and without a figure that could be taken for the answer."""
    look = Look(project, query, NO_RANGE)
    return _page(template, refusal.status, visit, look, report=None, error=refusal.message)


def _report(desk: Desk, project: Project, asked: Chosen, choice: Choice, offset: int) -> Report:
    store = desk.counted(project)
    pages = store.visitors(project.id, asked.days, PER_PAGE, offset, choice)
    interval, span, moments = _series(store, project.id, asked.drawn)
    views = sum(each.views.total for each in moments if interval != "day" or each.day >= asked.days.first)
    was = asked.before
    before = None
    if was:
        before = store.visitors(project.id, was, 1).totals, store.views(project.id, was, 1).totals.total
    return Report(
        tiles=tiles(pages.totals, views, before),
        chart=draw(interval, span, moments),
        pages=pages,
        before=spoken(was) if was else "",
        run_up=asked.days.first - asked.drawn.first,
        is_running=asked.days.end > clock.today(),
        is_empty=views == 0,
        is_new=views == 0 and not store.agents(project.id, ALWAYS, 1)[0],
    )


def _agents(desk: Desk, project: Project, days: Range, offset: int) -> tuple[Sequence[AgentLine], bool]:
    store = desk.counted(project)
    rows, more = store.agents(project.id, days, PER_PAGE, offset)
    recent = Range(max(days.first, min(days.end, clock.today() + 1) - RULES_OF), days.end)
    return agent_lines(rows, store.rules(project.id, recent), project.collecting.ai_classes), more


def _series(store: Store, project_id: str, days: Range) -> tuple[Interval, Range, Sequence[Moment]]:
    """Of all time, from the first month in which there was something; its length then tells the interval."""
    if days != ALWAYS:
        interval = interval_for(days)
        return interval, days, store.timeseries(project_id, interval, days)
    months = store.timeseries(project_id, "month")
    begun = months[0].day if months else clock.today()
    interval = interval_for(Range(begun, clock.today() + 1))
    moments = months if interval == "month" else store.timeseries(project_id, interval)
    end = max(clock.today(), moments[-1].day if moments else 0) + 1
    return interval, Range(begun, end), moments


def _sheet(desk: Desk, project: Project, days: Range, report: str) -> str:
    """What the API gives as CSV, with every row of the range."""
    store = desk.counted(project)
    view: View
    if report == "timeseries":
        interval, _, moments = _series(store, project.id, days)
        view, more = TimeseriesView.of(interval, moments), False
    elif report == "agents":
        rows, more = store.agents(project.id, days, MOST_ROWS)
        view = AgentsView.of(rows, more)
    else:
        found = (store.visitors if report == "visitors" else store.views)(project.id, days, MOST_ROWS)
        view, more = (VisitorsView if report == "visitors" else ViewsView).of(found), found.has_more
    if more:
        raise InvalidRequest(f"This range has more than {MOST_ROWS:,} rows: choose a shorter one, or use the API.")
    return report_sheet(report, view)
