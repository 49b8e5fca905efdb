"""Answers with numbers: as JSON or CSV, tagged, so that a client that has them already is told so in few bytes."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response

from copydesk.analytics.stores.base import Store
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.in_memory import SharedRate
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.web.api.schemas import View
from copydesk.web.responses.csv_reports import prefers_csv, report_sheet
from copydesk.web.responses.etags import is_known

T = TypeVar("T")
NEXT_PAGE_KEEPS = ("dateFrom", "dateTo", "limit")


class Asking:
    """One request for a project's numbers."""

    def __init__(self, request: Request, desk: Desk, project: Project) -> None:
        self.request, self.desk, self.project = request, desk, project
        self._headers = {"Cache-Control": "private, no-cache"}

    async def read(self, question: Callable[[], T]) -> T:
        """Counts as one export, so it is called once the request is known to be right."""
        rate: SharedRate = self.request.app.state.exports
        self._headers |= rate.take(self.project.id)
        return await call(question)

    async def count(self, question: Callable[[Store], T]) -> T:
        """Asks the store, which first counts what has arrived."""
        counted = self.project.collecting
        self._headers |= {
            "Copydesk-Visitor-Key": counted.privacy,
            "Copydesk-AI-Classes": ", ".join(counted.ai_classes) or "none",
        }
        return await self.read(lambda: question(self.desk.counted(self.project)))

    def table(self, name: str, view: View, following: int | None = None) -> Response:
        """The report of this name in the form that the client prefers; its rows are the view's field of that name."""
        self._headers["Vary"] = "Accept"
        if following is not None:  # CSV has no other place to say that there is more
            asked = {one: self.request.query_params.get(one) for one in NEXT_PAGE_KEEPS}
            query = {one: value for one, value in asked.items() if value is not None}
            self._headers["Link"] = f'<?{urlencode({**query, "offset": following})}>; rel="next"'
        if not prefers_csv(self.request.headers.get("accept", "")):
            return self.json(view)
        self._headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        return self._tagged(report_sheet(name, view), "text/csv; charset=utf-8")

    def json(self, view: View) -> Response:
        return self._tagged(view.model_dump_json(by_alias=True), "application/json")

    def _tagged(self, text: str, media_type: str) -> Response:
        body = text.encode()
        tag = self._headers["ETag"] = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        if is_known(tag, self.request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=self._headers)
        return Response(body, media_type=media_type, headers=self._headers)
