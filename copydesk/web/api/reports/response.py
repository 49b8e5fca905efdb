"""Responses with reports, as JSON or CSV, with an ETag: a client that already has the report gets a short 304."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response

from copydesk.analytics.stores.base import Store
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.in_memory import SharedRateLimiter
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.schemas import ApiModel
from copydesk.web.responses.csv_reports import prefers_csv, render_list_csv, render_report_csv
from copydesk.web.responses.etags import etag_matches

T = TypeVar("T")
NEXT_PAGE_PARAMS = ("dateFrom", "dateTo", "limit", "source", "status")


class ReportRequest:
    """One request for a report of a project."""

    def __init__(self, request: Request, desk: Desk, project: Project) -> None:
        self.request = request
        self.desk = desk
        self.project = project
        self._headers = {"Cache-Control": "private, no-cache"}

    async def run_query(self, query: Callable[[], T]) -> T:
        """Runs the query in a thread. It counts towards the rate limit, so call it only for a valid request."""
        rate: SharedRateLimiter = self.request.app.state.exports
        self._headers |= rate.consume(self.project.id)
        return await run_in_thread(query)

    async def query_store(self, query: Callable[[Store], T]) -> T:
        """Queries the store, which first folds the views that have arrived."""
        options = self.project.collecting
        self._headers |= {
            "Copydesk-Visitor-Key": options.privacy,
            "Copydesk-AI-Classes": ", ".join(options.ai_classes) or "none",
        }
        return await self.run_query(lambda: query(self.desk.get_folded_store(self.project)))

    def render_table(self, name: str, report: ApiModel, next_offset: int | None = None) -> Response:
        """Returns the report as JSON or CSV, as the client prefers. Its rows are in the field of this name."""
        self._headers["Vary"] = "Accept"
        if next_offset is not None:
            self._add_next_link({"offset": str(next_offset)})
        if not prefers_csv(self.request.headers.get("accept", "")):
            return self.render_json(report)
        return self._render_csv(name, render_report_csv(name, report))

    def render_list(
        self, name: str, report: ApiModel, rows: Sequence[ApiModel], next_page: Mapping[str, str | None]
    ) -> Response:
        """Returns a list of rows as JSON or CSV. `next_page` names the next page; None means that there is none."""
        self._headers["Vary"] = "Accept"
        if any(next_page.values()):
            self._add_next_link({name: value for name, value in next_page.items() if value})
        if not prefers_csv(self.request.headers.get("accept", "")):
            return self.render_json(report)
        return self._render_csv(name, render_list_csv(name, rows))

    def render_rows(self, name: str, report: ApiModel, rows: Sequence[ApiModel], next_offset: int | None) -> Response:
        """Returns a list of rows as JSON or CSV, whose next page begins at an offset; None means that there is none."""
        return self.render_list(name, report, rows, {"offset": None if next_offset is None else str(next_offset)})

    def _add_next_link(self, next_page: Mapping[str, str]) -> None:
        """Adds the link to the next page, for which CSV has no other place."""
        params = {name: self.request.query_params.get(name) for name in NEXT_PAGE_PARAMS}
        query = {name: value for name, value in params.items() if value is not None}
        self._headers["Link"] = f'<?{urlencode({**query, **next_page})}>; rel="next"'

    def _render_csv(self, name: str, text: str) -> Response:
        self._headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        return self._respond_with_etag(text, "text/csv; charset=utf-8")

    def render_json(self, report: ApiModel) -> Response:
        return self._respond_with_etag(report.model_dump_json(by_alias=True), "application/json")

    def _respond_with_etag(self, text: str, media_type: str) -> Response:
        body = text.encode()
        etag = self._headers["ETag"] = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        if etag_matches(etag, self.request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=self._headers)
        return Response(body, media_type=media_type, headers=self._headers)
