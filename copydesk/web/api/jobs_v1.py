"""The jobs API of version 1: /v1/agent/{projectId}/…, for clients of the hosted service that Copydesk replaces.

Field names are spelled as that service spells them.
"""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import ConfigDict, Field

from copydesk.core.clock import format_iso
from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.core.projects.projects import MAX_REF_CHARS, Project, validate_ref
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE, COMPLETED, MAX_PROMPT_CHARS, Job, JobFailed, Phase, Reason, Status
from copydesk.jobs.publish.repository_access import has_branch
from copydesk.jobs.service import NewJob
from copydesk.web.api.dependencies import CurrentCreator, CurrentProject, OpenDesk, ProjectId, bearer, error_responses
from copydesk.web.api.jobs import JobId
from copydesk.web.api.schemas import ApiModel, LenientRequestModel, reject_nul
from copydesk.web.api.streams.job_events import CurrentStreams, EventStreamResponse
from copydesk.web.api.streams.job_streams import StreamHolder

HaltReason = Literal["completed", "github_missconfigured", "error", "processing", "interrupted"]
TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]

MAX_MESSAGES = 1_000
MAX_TITLE_CHARS = 80
BRANCH_LOOKUP_SECONDS = 20.0
MODEL_SIZES = ("sonnet", "opus")
"""Names that select the project's model, unless the setting `model_aliases` maps them."""
TODO_PHASES = {
    Phase.PREPARING: "Read the repository",
    Phase.THINKING: "Change the pages",
    Phase.CHECKING: "Check the change",
    Phase.PUBLISHING: "Open the pull request",
}
HALT_REASONS: dict[Reason, HaltReason] = {
    Reason.REPOSITORY_ERROR: "github_missconfigured",
    Reason.CANCELLED: "interrupted",
    Reason.TIMED_OUT: "interrupted",
    Reason.BUDGET_EXCEEDED: "interrupted",
}
"""The reasons of failed jobs that are not simply an error."""

router = APIRouter(prefix="/v1/agent/{projectId}", tags=["jobs, version 1"], dependencies=[Depends(bearer)])


class ChatMessageRequest(LenientRequestModel):
    role: Literal["system", "user", "assistant"]
    content: str


class NewSessionRequest(LenientRequestModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "Fix the typos on every page."}]}]}
    )

    messages: list[ChatMessageRequest] = Field(min_length=1, max_length=MAX_MESSAGES)
    """The instruction, as a conversation. All messages together have 1 to 32,000 characters."""
    branch: Annotated[str, Field(max_length=MAX_REF_CHARS)] | None = None
    """The branch to start from, if it exists. The agent always works on a branch of its own."""
    as_draft: bool | Literal["true", "false"] | None = Field(None, alias="asDraft")
    """Open the pull request as a draft."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """`sonnet` or `opus`, or the name of a model that the project can use."""

    def to_prompt(self) -> str:
        """Joins the messages to one prompt. Raises InvalidRequest if it is empty or too long."""
        texts = [_render_message(message) for message in self.messages if message.content.strip()]
        prompt = "\n\n".join(texts)
        if not prompt:
            raise _invalid_messages("must contain a message with text.")
        if len(prompt) > MAX_PROMPT_CHARS:
            raise _invalid_messages(f"can have at most {MAX_PROMPT_CHARS:,} characters in total.")
        try:
            return reject_nul(prompt)
        except ValueError as error:
            raise _invalid_messages(f"{error}.") from None


class TodoResponse(ApiModel):
    content: str
    status: TodoStatus
    priority: Literal["high", "medium", "low"]
    id: str


class SessionResponse(ApiModel):
    session_id: str
    """The job ID."""
    subdomain: str
    """The project ID."""
    branch: str | None
    """The branch with the changes. Null until it is pushed."""
    haulted: bool
    """Whether the job has ended."""
    hault_reason: HaltReason
    pull_request_link: str
    """The URL of the pull request. Empty while the job is active, and if it changed no file."""
    message_to_user: str
    """The agent's summary, or why the job failed."""
    todos: list[TodoResponse]
    user_id: str
    title: str
    created_at: str

    @classmethod
    def from_job(cls, job: Job) -> "SessionResponse":
        is_over = job.status is not ACTIVE
        is_completed = _ended_status(job) is COMPLETED
        return cls(
            session_id=job.id,
            subdomain=job.project_id,
            branch=job.branch if job.head else None,
            haulted=is_over,
            hault_reason=_find_halt_reason(job),
            pull_request_link=job.pr_link or "" if is_over else "",
            message_to_user=_find_message(job, is_completed),
            todos=_list_todos(job),
            user_id="api",
            title=job.title or truncate(to_single_line(job.prompt), MAX_TITLE_CHARS),
            created_at=format_iso(job.created_at),
        )


def _find_message(job: Job, is_completed: bool) -> str:
    if job.question is not None and job.reason is Reason.QUESTION:
        return "\n".join([job.question.text, *(f"- {choice}" for choice in job.question.choices)])
    return (job.summary if is_completed else None) or job.message or ""


class SessionListResponse(ApiModel):
    all_sessions: list[SessionResponse]
    """Newest first."""


@router.post(
    "/job",
    response_class=Response,
    responses={
        **error_responses(409, 413, 415, 429),
        200: {
            "description": "The job's events, live, until it ends. Closing the connection does not cancel the job.",
            "content": {"text/event-stream": {}},
            "headers": {
                "X-Session-Id": {"description": "The job ID.", "schema": {"type": "string"}},
                "X-Branch-Name": {"description": "The job's branch.", "schema": {"type": "string"}},
            },
        },
    },
    operation_id="createSession",
    deprecated=True,
)
async def create_session(
    project_id: ProjectId,
    project: CurrentProject,
    body: NewSessionRequest,
    desk: OpenDesk,
    streams: CurrentStreams,
    creator: CurrentCreator,
    request: Request,
) -> Response:
    """Creates a job and streams its events. Use version 2 in new programs."""
    new_job = NewJob(
        prompt=body.to_prompt(),
        model=_resolve_model(desk, body.model),
        ref=await _find_start_branch(desk, project, body.branch),
        draft=body.as_draft in (True, "true"),
    )
    holder = StreamHolder.from_key(request.state.key, request.state.address)
    streams.check_capacity(holder)
    created = await run_in_thread(desk.jobs.create, project, new_job, created_by=creator)
    headers = {**created.headers, "X-Session-Id": created.job.id, "X-Branch-Name": created.job.branch}
    return EventStreamResponse(desk, streams, holder, created.job, 0, headers=headers)


@router.get("/job/{id}", responses=error_responses(), operation_id="getSession", deprecated=True)
async def get_session(project_id: ProjectId, job_id: JobId, project: CurrentProject, desk: OpenDesk) -> SessionResponse:
    """Returns the current state of a job."""
    return SessionResponse.from_job(await run_in_thread(desk.jobs.get, project.id, job_id))


@router.get("/jobs", responses=error_responses(), operation_id="listSessions", deprecated=True)
async def list_sessions(
    project_id: ProjectId,
    project: CurrentProject,
    desk: OpenDesk,
    skip: Annotated[int, Query(ge=0, le=1 << 31)] = 0,
    take: Annotated[int, Query(ge=1, le=100)] = 12,
) -> SessionListResponse:
    """Lists the project's jobs, newest first."""
    page = await run_in_thread(desk.jobs.list_newest, project.id, skip, take)
    return SessionListResponse(all_sessions=[SessionResponse.from_job(job) for job in page])


def _render_message(message: ChatMessageRequest) -> str:
    text = message.content.strip()
    return f"Earlier answer of the assistant:\n{text}" if message.role == "assistant" else text


def _invalid_messages(problem: str) -> InvalidRequest:
    return InvalidRequest(f"messages: {problem}", details=[ErrorDetail("messages", problem)])


def _resolve_model(desk: Desk, name: str | None) -> str | None:
    """Returns the name of the model; None means the project's."""
    if not name:
        return None
    default = None if name in MODEL_SIZES else name
    return desk.settings.models_by_alias.get(name, default)


async def _find_start_branch(desk: Desk, project: Project, branch: str | None) -> str | None:
    """Returns the branch if the repository has it, else None, which means the project's branch.

    Clients of the original also send names of branches that do not exist, which that service then creates. Copydesk
    pushes only to branches of its own.
    """
    if not branch or branch == project.ref:
        return None
    validate_ref(branch)
    # Runs outside of the API's thread pool, because a repository may be slow.
    exists = await asyncio.to_thread(_has_branch, desk, project, branch)
    return branch if exists else None


def _has_branch(desk: Desk, project: Project, branch: str) -> bool:
    try:
        return has_branch(project, desk.secrets.all(project.id), branch, BRANCH_LOOKUP_SECONDS)
    except JobFailed:  # the job waits for the repository, and then starts from the project's branch
        return False


def _ended_status(job: Job) -> Status | None:
    return job.archived_from if job.status is Status.ARCHIVED else job.status


def _find_halt_reason(job: Job) -> HaltReason:
    if job.status is ACTIVE:
        return "processing"
    if _ended_status(job) is COMPLETED:
        return "completed"
    return HALT_REASONS.get(job.reason, "error") if job.reason else "error"


def _list_todos(job: Job) -> list[TodoResponse]:
    """Returns the phases of a run as a list of todos."""
    statuses = [_todo_status(job, phase) for phase in TODO_PHASES]
    return [
        TodoResponse(content=content, status=status, priority="medium", id=f"{job.id}-{phase}")
        for (phase, content), status in zip(TODO_PHASES.items(), statuses, strict=True)
    ]


def _todo_status(job: Job, phase: Phase) -> TodoStatus:
    if job.status is not ACTIVE:
        return "completed" if _ended_status(job) is COMPLETED else "cancelled"
    phases = list(Phase)
    if job.phase is phase:
        return "in_progress"
    return "completed" if phases.index(phase) < phases.index(job.phase) else "pending"
