"""The fast path for the most frequent requests: create a job, poll a job, send views. It bypasses FastAPI.

A request with anything unusual (an invalid body, another media type, an Idempotency-Key) goes to the FastAPI routes.
They make the same calls, and their OpenAPI description covers both paths.
"""

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from copydesk.core.db.write_batcher import WriteBatcher
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import Creator
from copydesk.web.api.dependencies import creator_from_key
from copydesk.web.api.schemas import JobResponse, NewJobRequest
from copydesk.web.collection.intake import ViewIntake, collect_request_from_scope
from copydesk.web.route_patterns import BEACON_PATH, CREATE_JOB_PATH, GET_JOB_PATH, SEND_EVENTS_PATH

EVENT_MEDIA_TYPES = frozenset({"application/json", "application/x-ndjson"})
BEACON_MEDIA_TYPES = frozenset({"text/plain;charset=UTF-8", "application/json"})


class FastPath:
    def __init__(self, desk: Desk, intake: ViewIntake) -> None:
        self.jobs = desk.jobs
        self.intake = intake
        self.run_write = WriteBatcher(desk.database).run if desk.database.is_sqlite else run_in_thread

    async def try_respond(self, scope: Scope, headers: Headers, body: bytes) -> Response | None:
        """Returns the response, or None when FastAPI must handle the request. Raises the same errors as the routes."""
        method = scope["method"]
        path = scope["path"]
        project = scope["state"]["project"]
        if method == "POST":
            content_type = headers.get("content-type", "")
            if project and content_type in EVENT_MEDIA_TYPES and SEND_EVENTS_PATH.fullmatch(path):
                return await self.intake.receive_events(project, headers, body)
            if content_type in BEACON_MEDIA_TYPES and (beacon_match := BEACON_PATH.fullmatch(path)):
                return await self.intake.receive_beacon(
                    beacon_match["siteId"], collect_request_from_scope(scope, headers), body
                )
            if project and content_type == "application/json" and CREATE_JOB_PATH.fullmatch(path):
                creator = creator_from_key(scope["state"]["key"])
                return await self._create_job(project, path, headers, body, creator)
        elif method == "GET" and project and (job_match := GET_JOB_PATH.fullmatch(path)):
            return _json_response(
                200,
                JobResponse.from_job(*await run_in_thread(self.jobs.get_with_files, project.id, job_match["id"])),
                {},
            )
        return None

    async def _create_job(
        self, project: Project, path: str, headers: Headers, body: bytes, creator: Creator
    ) -> Response | None:
        if "idempotency-key" in headers:
            return None
        try:
            new_job = NewJobRequest.model_validate_json(body).to_new_job()
        except ValidationError:
            return None
        created = await self.run_write(self.jobs.create, project, new_job, created_by=creator)
        return _json_response(
            201, JobResponse.from_job(created.job, []), {**created.headers, "Location": f"{path}/{created.job.id}"}
        )


def _json_response(status: int, response: JobResponse, headers: dict[str, str]) -> Response:
    return Response(response.model_dump_json(by_alias=True), status, headers, "application/json")
