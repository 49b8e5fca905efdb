"""The selected range and query of an analytics page, and the frame in which every analytics page is rendered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import Response

from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.projects import Project
from copydesk.web.dashboard.auth.access import SignedInRequest
from copydesk.web.dashboard.readership.date_ranges import NO_RANGE, RANGE_LABELS, SelectedRange, parse_range
from copydesk.web.responses.html import render_page

FILTER_PARAMS = {
    "visitors": ("search", "sort", "order"),
    "views": ("search", "sort", "order"),
    "feedback": ("source", "status"),
    "feedback-by-page": ("source", "status"),
    "searches": ("clicked",),
    "questions": ("answered",),
}
"""The parameters of a page that filter or order the rows of a download."""


@dataclass(frozen=True)
class ReadershipSelection:
    """The selected range and query of an analytics page, with the links to its other parts."""

    project: Project
    query: Mapping[str, str]
    chosen: SelectedRange

    names = RANGE_LABELS

    def at(self, part: str = "", **extra: str | int) -> str:
        """Returns the URL of a part of the analytics in the same range."""
        params = {**self.chosen.query, **extra}
        return f"/projects/{self.project.id}/readership{part}" + (f"?{urlencode(params)}" if params else "")

    def page(self, path: str) -> str:
        """Returns the URL of the analytics of one page in the same range."""
        return self.at("/page", path=path)

    def download(self, report: str) -> str:
        """Returns the URL of a download with the filter and order of the table that the page shows."""
        params = {name: self.query[name] for name in FILTER_PARAMS.get(report, ()) if self.query.get(name)}
        return self.at(f"/{report}.csv", **params)

    def pages(self, **extra: str | int) -> str:
        """Returns the URL of the table of pages with its current search and order."""
        params = {name: self.query[name] for name in FILTER_PARAMS["visitors"] if self.query.get(name)}
        return self.at("", **{**params, **extra}) + "#pages"


def parse_selection(project: Project, query: Mapping[str, str]) -> ReadershipSelection:
    return ReadershipSelection(
        project, query, parse_range(query.get("range", ""), query.get("from", ""), query.get("to", ""))
    )


def render_readership(
    template: str, status: int, signed_in: SignedInRequest, selection: ReadershipSelection, **values: Any
) -> Response:
    frame: dict[str, Any] = {
        "signed_in": signed_in,
        "project": selection.project,
        "tab": "readership",
        "title": "Analytics",
    }
    return render_page(template, status, None, selection=selection, **frame, **values)


def render_selection_error(
    template: str, signed_in: SignedInRequest, project: Project, query: Mapping[str, str], error: InvalidRequest
) -> Response:
    """Renders the page with the typed values and the error, and without any numbers."""
    selection = ReadershipSelection(project, query, NO_RANGE)
    return render_readership(template, error.status, signed_in, selection, report=None, error=error.message)
