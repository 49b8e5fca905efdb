"""The jobs API: /v2/agent/{projectId}/…"""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from copydesk.core.ids import id_pattern
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import select_model_keys
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.agent.models.registry import check_configuration
from copydesk.jobs.job import Job, Reason, Status
from copydesk.jobs.service import CreatedJob, Jobs, NewJob, WrongState
from copydesk.web.api.dependencies import (
    CurrentCreator,
    CurrentProject,
    IdempotencyKey,
    OpenDesk,
    ProjectId,
    bearer,
    error_responses,
)
from copydesk.web.api.schemas import (
    TEXT_SCHEMA,
    JobEventListResponse,
    JobListResponse,
    JobMessageRequest,
    JobResponse,
    KeyResponse,
    ModelListResponse,
    ModelResponse,
    NewJobRequest,
)
from copydesk.web.api.streams.job_events import CurrentStreams, EventStreamResponse, build_events_response, wants_json
from copydesk.web.api.streams.job_streams import StreamHolder

JobId = Annotated[str, Path(alias="id", description="The job ID.")]

router = APIRouter(prefix="/v2/agent/{projectId}", tags=["jobs"], dependencies=[Depends(bearer)])


async def _load_job_response(desk: Desk, job: Job) -> JobResponse:
    return JobResponse.from_job(job, (await run_in_thread(desk.jobs.changed_files, [job.id]))[job.id])


async def _run_on_job(desk: Desk, operation: Callable[[str, str], Job], project: Project, job_id: str) -> JobResponse:
    return await _load_job_response(desk, await run_in_thread(operation, project.id, job_id))


@router.post("/job", status_code=201, responses=error_responses(409, 413, 415, 429), operation_id="createJob")
async def create_job(
    project_id: ProjectId,
    project: CurrentProject,
    body: NewJobRequest,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobResponse:
    """Creates a job. The agent works on the prompt in the background."""
    created = await run_in_thread(desk.jobs.create, project, body.to_new_job(), idempotency_key, created_by=creator)
    return await _respond_created(desk, created, response)


@router.post("/job/{id}/retry", status_code=201, responses=error_responses(409, 413, 429), operation_id="retryJob")
async def retry_job(
    project_id: ProjectId,
    job_id: JobId,
    project: CurrentProject,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobResponse:
    """Creates a new job with the prompt and options of one that has ended. The earlier job stays as it is."""
    new_job = await run_in_thread(load_retry, desk.jobs, project.id, job_id)
    created = await run_in_thread(desk.jobs.create, project, new_job, idempotency_key, created_by=creator)
    return await _respond_created(desk, created, response)


def load_retry(jobs: Jobs, project_id: str, job_id: str) -> NewJob:
    """Returns a new job with the same prompt, data and options. A title that the agent chose is left out."""
    job = jobs.get(project_id, job_id)
    if job.status is Status.ACTIVE:
        raise WrongState("The job is still running; cancel it before you retry it.")
    has_own_title = job.pr_link is None and job.reason is not Reason.NO_CHANGES
    return NewJob(
        job.prompt,
        job.model,
        job.ref,
        job.draft,
        job.title if has_own_title else None,
        job.context,
        data=jobs.read_data(job.id),
    )


async def _respond_created(desk: Desk, created: CreatedJob, response: Response) -> JobResponse:
    response.headers.update(created.headers)
    response.headers["Location"] = f"/v2/agent/{created.job.project_id}/job/{created.job.id}"
    if created.replayed:
        response.headers["Idempotent-Replayed"] = "true"
        return await _load_job_response(desk, created.job)
    return JobResponse.from_job(created.job, [])


@router.get("/job/{id}", responses=error_responses(), operation_id="getJob")
async def get_job(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> JobResponse:
    """Returns the current state of a job. Poll it until its status is not `active`."""
    return await _run_on_job(desk, desk.jobs.get, project, job_id)


@router.post("/job/{id}/message", responses=error_responses(409, 413, 415, 429), operation_id="messageJob")
async def message_job(
    project_id: ProjectId,
    job_id: JobId,
    project: CurrentProject,
    body: JobMessageRequest,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
) -> JobResponse:
    """Sends a follow-up. The job becomes active again, on the same branch and pull request."""
    job, headers = await run_in_thread(desk.jobs.add_message, project, job_id, body.prompt, created_by=creator)
    response.headers.update(headers)
    return await _load_job_response(desk, job)


@router.get("/jobs", responses=error_responses(), operation_id="listJobs")
async def list_jobs(
    project_id: ProjectId,
    project: CurrentProject,
    desk: OpenDesk,
    status: Status | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the previous page.", pattern=id_pattern("job"))
    ] = None,
) -> JobListResponse:
    """Lists the project's jobs, newest first."""
    page, next_cursor = await run_in_thread(desk.jobs.list_page, project.id, status, limit, cursor)
    files = await run_in_thread(desk.jobs.changed_files, [job.id for job in page])
    return JobListResponse(jobs=[JobResponse.from_job(job, files[job.id]) for job in page], next_cursor=next_cursor)


@router.post("/job/{id}/cancel", responses=error_responses(409, 413), operation_id="cancelJob")
async def cancel_job(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> JobResponse:
    """Cancels an active job, even in the middle of a model call."""
    return await _run_on_job(desk, desk.jobs.cancel, project, job_id)


@router.post("/job/{id}/archive", responses=error_responses(413), operation_id="archiveJob")
async def archive_job(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> JobResponse:
    """Archives a job. If the job is active, this also cancels it. Archiving it again changes nothing."""
    return await _run_on_job(desk, desk.jobs.archive, project, job_id)


@router.post("/job/{id}/unarchive", responses=error_responses(413), operation_id="unarchiveJob")
async def unarchive_job(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> JobResponse:
    """Restores the previous status of an archived job."""
    return await _run_on_job(desk, desk.jobs.unarchive, project, job_id)


@router.get("/key", responses=error_responses(), operation_id="getKey")
async def get_key(project_id: ProjectId, project: CurrentProject, request: Request) -> KeyResponse:
    """Returns the API key of this request, without the key itself: its name, scopes, expiry and project."""
    return KeyResponse.from_key(request.state.key, project)


@router.get("/models", responses=error_responses(), operation_id="listModels")
async def list_models(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> ModelListResponse:
    """Lists the models that this project can use, and its default model."""
    names = desk.jobs.allowed_models(project)
    secrets = await run_in_thread(desk.secrets.all, project.id)
    models = []
    for name in names:
        available, missing = check_configuration(name, desk.settings.model_url, select_model_keys(secrets))
        models.append(ModelResponse(id=name, default=name == names[0], available=available, missing=missing))
    return ModelListResponse(models=models, default=names[0])


@router.get(
    "/job/{id}/diff",
    response_class=Response,
    responses={
        **error_responses(),
        200: {"description": "A unified diff.", "content": {"text/x-diff": TEXT_SCHEMA}},
    },
    operation_id="diffJob",
)
async def diff_job(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> Response:
    """Returns the job's changes so far as a unified diff, also before there is a pull request."""
    return Response(await run_in_thread(desk.jobs.diff, project.id, job_id), media_type="text/x-diff")


@router.get(
    "/job/{id}/events",
    response_class=Response,
    responses={
        **error_responses(429),
        200: {
            "description": "The job's events, live or so far.",
            "model": JobEventListResponse,
            "content": {"text/event-stream": {}},
        },
    },
    operation_id="jobEvents",
)
async def job_events(
    project_id: ProjectId,
    job_id: JobId,
    project: CurrentProject,
    desk: OpenDesk,
    streams: CurrentStreams,
    request: Request,
    last_event_id: Annotated[
        str, Header(description="The number of the last event that the client has seen.", pattern="^[0-9]{1,9}$")
    ] = "0",
) -> Response:
    """Streams the job's progress as `text/event-stream`. With `Accept: application/json`, returns the events so far."""
    after = int(last_event_id)
    if wants_json(request.headers.get("accept", "")):
        return await build_events_response(desk, project.id, job_id, after)
    holder = StreamHolder.from_key(request.state.key, request.state.address)
    streams.check_capacity(holder)
    job = await run_in_thread(desk.jobs.get, project.id, job_id)
    return EventStreamResponse(desk, streams, holder, job, after)
