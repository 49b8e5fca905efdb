"""The tools of jobs: create, follow, continue, cancel and retry them, and read what they changed."""

import uuid
from typing import Annotated, Any, Literal, TypedDict

import anyio
from pydantic import Field

from copydesk.core.ids import id_pattern
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.mcp.bounds import cut_text
from copydesk.mcp.tools.tool import Arguments, NoArguments, ToolCall, define_tool
from copydesk.mcp.tools.waiting import wait_until_finished
from copydesk_client.shapes import Job

MAX_PROMPT_CHARS = 32_000
MAX_WAIT_SECONDS = 1800
CANCEL_SECONDS = 10
SUMMARY_CHARS = 300
DIFF_CHARS, MAX_DIFF_CHARS = 20_000, 50_000

JobId = Annotated[str, Field(pattern=id_pattern("job"), examples=["job_01k9z3r8w5e2q4t7y1m6n0p3sa"])]
Prompt = Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_CHARS)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=128, pattern="^[!-~]*$")]


class NewJobArguments(Arguments):
    prompt: Prompt
    """Tells the agent what to change in the documentation, in full sentences. Name pages, products and versions."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The title of the pull request. By default, the agent writes it."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """The model that does the job; list_models lists the choices. The default is the project's model."""
    ref: Annotated[str, Field(max_length=250)] | None = None
    """The branch to start from. The default is the project's branch."""
    draft: bool = False
    """Open the pull request as a draft."""
    context: Annotated[list[str], Field(max_length=10)] | None = None
    """Names of the context repositories that the agent may read. By default, it may read all."""
    idempotency_key: IdempotencyKey | None = None
    """A unique text. A second call with the same key and arguments returns the first job and creates no other."""


class JobArguments(Arguments):
    job_id: JobId
    """The job ID."""


class RetryArguments(JobArguments):
    idempotency_key: IdempotencyKey | None = None
    """A unique text. A second call with the same key returns the first new job and creates no other."""


class WaitArguments(JobArguments):
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_WAIT_SECONDS)] = 45
    """How long to wait. Many clients end a call after 60 seconds; if the job is not finished, call this tool again."""
    cancel_job_if_cancelled: bool = False
    """Also cancel the job if this call is cancelled. By default, the job continues."""


class ListJobsArguments(Arguments):
    status: Literal["active", "completed", "archived", "failed"] | None = None
    """Only jobs with this status."""
    limit: Annotated[int, Field(ge=1, le=50)] = 20
    """The number of jobs."""
    cursor: Annotated[str, Field(pattern=id_pattern("job"))] | None = None
    """`nextCursor` of the previous page."""


class MessageArguments(JobArguments):
    prompt: Prompt
    """Tells the agent what to do next, or answers its question."""


class DiffArguments(JobArguments):
    offset: Annotated[int, Field(ge=0)] = 0
    """Where to begin, in characters: `nextOffset` of the previous part."""
    max_chars: Annotated[int, Field(ge=1000, le=MAX_DIFF_CHARS)] = DIFF_CHARS
    """The length of the part."""


class JobSummary(TypedDict):
    id: str
    status: Literal["active", "completed", "archived", "failed"]
    phase: str
    reason: str | None
    title: str | None
    prompt: str
    prLink: str | None
    createdAt: str
    finishedAt: str | None


class JobList(TypedDict):
    jobs: list[JobSummary]
    nextCursor: str | None


class WaitResult(TypedDict):
    finished: bool
    job: Job


class JobDiff(TypedDict):
    jobId: str
    diff: str
    offset: int
    totalChars: int
    nextOffset: int | None


class Model(TypedDict):
    id: str
    default: bool
    available: bool
    missing: str | None


class ModelList(TypedDict):
    models: list[Model]
    default: str


@define_tool("Create a documentation job", NewJobArguments, Job, scope="write")
async def create_job(call: ToolCall, args: NewJobArguments) -> Any:
    """Creates a job: an agent changes the project's documentation as the prompt says, and opens a pull request.
    Returns the job at once, with the status active. Then call wait_for_job until it is finished."""
    body = args.model_dump(by_alias=True, exclude_none=True, exclude={"idempotency_key"})
    return await call.api.post(f"{call.api.jobs_path}/job", body, idempotency_key=args.idempotency_key or new_key())


@define_tool("Get a job", JobArguments, Job)
async def get_job(call: ToolCall, args: JobArguments) -> Any:
    """Returns the current state of a job: its status, summary, changed files, checks, what a reviewer must look at
    (risk) and pull request (prLink).
    If reason is question, the agent waits for an answer: send it with send_job_message."""
    return await call.api.get(f"{call.api.jobs_path}/job/{args.job_id}")


@define_tool("Wait for a job", WaitArguments, WaitResult)
async def wait_for_job(call: ToolCall, args: WaitArguments) -> Any:
    """Waits until a job has ended or the time is over, and returns the job. finished says which. Reports progress.
    Cancelling this call does not cancel the job, unless cancelJobIfCancelled is true."""
    try:
        job = await wait_until_finished(call.api, args.job_id, args.timeout_seconds, call.report_progress)
    except anyio.get_cancelled_exc_class():
        if args.cancel_job_if_cancelled and not call.has_left():
            with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_SECONDS):
                await call.api.post(f"{call.api.jobs_path}/job/{args.job_id}/cancel")
        raise
    return {"finished": job["status"] != "active", "job": job}


@define_tool("List jobs", ListJobsArguments, JobList)
async def list_jobs(call: ToolCall, args: ListJobsArguments) -> Any:
    """Lists the project's jobs, newest first, in short. get_job returns one of them in full."""
    page = await call.api.get(f"{call.api.jobs_path}/jobs", status=args.status, limit=args.limit, cursor=args.cursor)
    return {"jobs": [summarize_job(job) for job in page["jobs"]], "nextCursor": page["nextCursor"]}


@define_tool("Send a follow-up to a job", MessageArguments, Job, scope="write")
async def send_job_message(call: ToolCall, args: MessageArguments) -> Any:
    """Sends a follow-up to a job, or the answer to its question. The job becomes active again and continues on the same
    branch and pull request."""
    return await call.api.post(f"{call.api.jobs_path}/job/{args.job_id}/message", {"prompt": args.prompt})


@define_tool("Cancel a job", JobArguments, Job, scope="write", destructive=True)
async def cancel_job(call: ToolCall, args: JobArguments) -> Any:
    """Cancels an active job. It ends as failed with the reason cancelled, and opens no pull request."""
    return await call.api.post(f"{call.api.jobs_path}/job/{args.job_id}/cancel")


@define_tool("Retry a job", RetryArguments, Job, scope="write")
async def retry_job(call: ToolCall, args: RetryArguments) -> Any:
    """Creates a new job with the prompt and options of one that has ended. The earlier job stays as it is. To continue
    a job on the same pull request, use send_job_message instead."""
    key = args.idempotency_key or new_key()
    return await call.api.post(f"{call.api.jobs_path}/job/{args.job_id}/retry", idempotency_key=key)


@define_tool("Get the diff of a job", DiffArguments, JobDiff, text_field="diff")
async def get_job_diff(call: ToolCall, args: DiffArguments) -> Any:
    """Returns what a job has changed so far, as a unified diff. A long diff comes in parts: if nextOffset is not null,
    call again with it as offset."""
    diff = await call.api.get_text(f"{call.api.jobs_path}/job/{args.job_id}/diff")
    part, next_offset = cut_text(diff, args.offset, args.max_chars)
    return {
        "jobId": args.job_id,
        "diff": part,
        "offset": args.offset,
        "totalChars": len(diff),
        "nextOffset": next_offset,
    }


@define_tool("List models", NoArguments, ModelList)
async def list_models(call: ToolCall, args: NoArguments) -> Any:
    """Lists the models that a job can use, and the project's default."""
    return await call.api.get(f"{call.api.jobs_path}/models")


def summarize_job(job: Job) -> JobSummary:
    return {
        "id": job["id"],
        "status": job["status"],
        "phase": job["phase"],
        "reason": job["reason"],
        "title": job["title"],
        "prompt": truncate(to_single_line(job["prompt"]), SUMMARY_CHARS),
        "prLink": job["prLink"],
        "createdAt": job["createdAt"],
        "finishedAt": job["finishedAt"],
    }


def new_key() -> str:
    """Returns an idempotency key, which makes a retry after a broken connection safe."""
    return uuid.uuid4().hex
