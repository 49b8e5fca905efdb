"""The short way to the calls that are made most, to create and poll a job and to send views, for plain requests.

Whatever is unusual about a request (a wrong body, another media type, an Idempotency-Key) takes the framework's way,
which ends in the same calls and describes both."""

import re

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import Together, call
from copydesk.desk import Desk
from copydesk.web.api.schemas import JobBody, JobView
from copydesk.web.collection.intake import Arrivals, caller

CREATE = re.compile(r"/v2/agent/[^/]+/job")
POLL = re.compile(r"/v2/agent/[^/]+/job/([^/]+)")
EVENTS = re.compile(r"/v1/analytics/[^/]+/events")
BEACON = re.compile(r"/v1/collect/([^/]+)")
PLAIN = frozenset({"application/json", "application/x-ndjson"})
FROM_A_PAGE = frozenset({"text/plain;charset=UTF-8", "application/json"})


class Quick:
    def __init__(self, desk: Desk, arrivals: Arrivals) -> None:
        self.jobs = desk.jobs
        self.arrivals = arrivals
        self.write = Together(desk.database).call if desk.database.is_sqlite else call

    async def answer(self, scope: Scope, headers: Headers, body: bytes) -> Response | None:
        """None when the request should take the framework's way. Refusals are raised, as they are there."""
        method, path, project = scope["method"], scope["path"], scope["state"]["project"]
        if method == "POST":
            kind = headers.get("content-type", "")
            if project and kind in PLAIN and EVENTS.fullmatch(path):
                return await self.arrivals.events(project, headers, body)
            if kind in FROM_A_PAGE and (beacon := BEACON.fullmatch(path)):
                return await self.arrivals.beacon(beacon[1], caller(scope, headers), body)
            if project and kind == "application/json" and CREATE.fullmatch(path):
                return await self._create(project, path, headers, body)
        elif method == "GET" and project and (poll := POLL.fullmatch(path)):
            return _json(200, JobView.of(*await call(self.jobs.get_with_files, project.id, poll[1])), {})
        return None

    async def _create(self, project: Project, path: str, headers: Headers, body: bytes) -> Response | None:
        if "idempotency-key" in headers:
            return None
        try:
            new = JobBody.model_validate_json(body).new_job()
        except ValidationError:
            return None
        created = await self.write(self.jobs.create, project, new)
        return _json(201, JobView.of(created.job, []), {**created.headers, "Location": f"{path}/{created.job.id}"})


def _json(status: int, view: JobView, headers: dict[str, str]) -> Response:
    return Response(view.model_dump_json(by_alias=True), status, headers, "application/json")
