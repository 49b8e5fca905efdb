"""The jobs API: /v2/agent/{projectId}/…"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPBearer

from copydesk.core.ids import id_pattern
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import model_keys
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import configured
from copydesk.jobs.job import Job, Status
from copydesk.web.api.job_events import AllStreams, EventStream, events_so_far, wants_json
from copydesk.web.api.job_streams import Holder
from copydesk.web.api.schemas import (
    ErrorView,
    EventsView,
    JobBody,
    JobsView,
    JobView,
    MessageBody,
    ModelsView,
    ModelView,
)

bearer = HTTPBearer(bearerFormat="desk_…", description="An admin API key of the project.", auto_error=False)


async def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


async def opened(request: Request) -> Project:
    """The project that the request's key opened."""
    project: Project = request.state.project
    return project


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorView} for status in (400, 401, 403, 404, *statuses, 500, 503)}


OpenDesk = Annotated[Desk, Depends(desk_of)]
Opened = Annotated[Project, Depends(opened)]
ProjectId = Annotated[str, Path(alias="projectId", description="The project, as its API keys page shows it.")]
JobId = Annotated[str, Path(alias="id", description="The job's id.")]

router = APIRouter(prefix="/v2/agent/{projectId}", tags=["jobs"], dependencies=[Depends(bearer)])


async def _view(desk: Desk, job: Job) -> JobView:
    return JobView.of(job, (await call(desk.jobs.files, [job.id]))[job.id])


async def _answer(desk: Desk, change: Callable[[str, str], Job], project: Project, job_id: str) -> JobView:
    return await _view(desk, await call(change, project.id, job_id))


@router.post("/job", status_code=201, responses=errors(409, 413, 415, 429), operation_id="createJob")
async def create_job(
    project_id: ProjectId,
    project: Opened,
    body: JobBody,
    desk: OpenDesk,
    response: Response,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=128, pattern="^[!-~]*$", description="Makes a repeat harmless.")
    ] = None,
) -> JobView:
    """Creates a job: the agent starts to work on the prompt in the background."""
    created = await call(desk.jobs.create, project, body.new_job(), idempotency_key)
    response.headers.update(created.headers)
    response.headers["Location"] = f"/v2/agent/{project.id}/job/{created.job.id}"
    if created.replayed:
        response.headers["Idempotent-Replayed"] = "true"
        return await _view(desk, created.job)
    return JobView.of(created.job, [])


@router.get("/job/{id}", responses=errors(), operation_id="getJob")
async def get_job(project_id: ProjectId, job_id: JobId, project: Opened, desk: OpenDesk) -> JobView:
    """The job as it is now. Poll it until its status is not `active`."""
    return await _answer(desk, desk.jobs.get, project, job_id)


@router.post("/job/{id}/message", responses=errors(409, 413, 415, 429), operation_id="messageJob")
async def message_job(
    project_id: ProjectId, job_id: JobId, project: Opened, body: MessageBody, desk: OpenDesk, response: Response
) -> JobView:
    """A follow-up: the job becomes active again, on the same branch and the same pull request."""
    job, headers = await call(desk.jobs.message, project, job_id, body.prompt)
    response.headers.update(headers)
    return await _view(desk, job)


@router.get("/jobs", responses=errors(), operation_id="listJobs")
async def list_jobs(
    project_id: ProjectId,
    project: Opened,
    desk: OpenDesk,
    status: Status | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the page before.", pattern=id_pattern("job"))
    ] = None,
) -> JobsView:
    """The project's jobs, newest first."""
    page, following = await call(desk.jobs.page, project.id, status, limit, cursor)
    files = await call(desk.jobs.files, [job.id for job in page])
    return JobsView(jobs=[JobView.of(job, files[job.id]) for job in page], next_cursor=following)


@router.post("/job/{id}/cancel", responses=errors(409, 413), operation_id="cancelJob")
async def cancel_job(project_id: ProjectId, job_id: JobId, project: Opened, desk: OpenDesk) -> JobView:
    """Stops an active job, even in the middle of a model call."""
    return await _answer(desk, desk.jobs.cancel, project, job_id)


@router.post("/job/{id}/archive", responses=errors(413), operation_id="archiveJob")
async def archive_job(project_id: ProjectId, job_id: JobId, project: Opened, desk: OpenDesk) -> JobView:
    """Archives the job; an active one is cancelled. Doing it twice is the same as once."""
    return await _answer(desk, desk.jobs.archive, project, job_id)


@router.post("/job/{id}/unarchive", responses=errors(413), operation_id="unarchiveJob")
async def unarchive_job(project_id: ProjectId, job_id: JobId, project: Opened, desk: OpenDesk) -> JobView:
    """Gives an archived job the status back that it had before."""
    return await _answer(desk, desk.jobs.unarchive, project, job_id)


@router.get("/models", responses=errors(), operation_id="listModels")
async def list_models(project_id: ProjectId, project: Opened, desk: OpenDesk) -> ModelsView:
    """The models that this project can use, and the one it uses when a job names none."""
    names = desk.jobs.models(project)
    secrets = await call(desk.secrets.all, project.id)
    models = []
    for name in names:
        available, missing = configured(name, desk.settings.model_url, model_keys(secrets))
        models.append(ModelView(id=name, default=name == names[0], available=available, missing=missing))
    return ModelsView(models=models, default=names[0])


@router.get(
    "/job/{id}/diff",
    response_class=Response,
    responses={**errors(), 200: {"description": "A unified diff.", "content": {"text/x-diff": {}}}},
    operation_id="diffJob",
)
async def diff_job(project_id: ProjectId, job_id: JobId, project: Opened, desk: OpenDesk) -> Response:
    """What the job changed so far, also before there is a pull request."""
    return Response(await call(desk.jobs.diff, project.id, job_id), media_type="text/x-diff")


@router.get(
    "/job/{id}/events",
    response_class=Response,
    responses={
        **errors(429),
        200: {
            "description": "The job's progress, live or so far.",
            "content": {"text/event-stream": {}, "application/json": {"schema": EventsView.model_json_schema()}},
        },
    },
    operation_id="jobEvents",
)
async def job_events(
    project_id: ProjectId,
    job_id: JobId,
    project: Opened,
    desk: OpenDesk,
    streams: AllStreams,
    request: Request,
    last_event_id: Annotated[
        str, Header(description="The number of the last event seen.", pattern="^[0-9]{1,9}$")
    ] = "0",
) -> Response:
    """The job's progress: live as `text/event-stream`, or, with `Accept: application/json`, the events so far."""
    after = int(last_event_id)
    if wants_json(request.headers.get("accept", "")):
        return await events_so_far(desk, project.id, job_id, after)
    holder = Holder.from_key(request.state.key, request.state.address)
    streams.check_room(holder)
    job = await call(desk.jobs.get, project.id, job_id)
    return EventStream(desk, streams, holder, job, after)
