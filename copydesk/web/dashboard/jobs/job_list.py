"""The page of a project's jobs: the list, and the form that starts a job."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from copydesk.core.accounts.person import Person
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.ids import is_id, random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.jobs.job import Creator, CreatorKind, Job, Status
from copydesk.jobs.service import NewJob
from copydesk.web.api.schemas import NewJobRequest
from copydesk.web.dashboard.auth.access import EditorPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.auth.form_data import FormData
from copydesk.web.dashboard.jobs.job_rows import build_job_rows
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect
from copydesk.web.responses.validation_errors import to_invalid_request

router = APIRouter()
JOBS_PER_PAGE = 25
QueryText = Annotated[str, Query(max_length=200)]


@router.get("/projects/{project_id}/jobs")
async def job_list_page(
    project_id: str, signed_in: ViewerRequest, status: QueryText = "", text: QueryText = "", cursor: QueryText = ""
) -> Response:
    return await _render_job_list(signed_in, await signed_in.get_project(project_id), status, text, cursor)


@router.get("/projects/{project_id}/jobs/live")
async def job_list_version(
    project_id: str, signed_in: ViewerRequest, status: QueryText = "", text: QueryText = "", cursor: QueryText = ""
) -> Response:
    """Returns the version of the list. The page polls it and reloads the list only when it changes."""
    project = await signed_in.get_project(project_id)
    jobs, _ = await _find_jobs(signed_in, project, status, text, cursor)
    return JSONResponse({"version": compute_list_version(jobs)}, headers={"Cache-Control": "no-store"})


@router.post("/projects/{project_id}/jobs")
async def create_job(project_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    try:
        new_job = parse_new_job(post.form)
        idempotency_key = form_idempotency_key(post.form, new_job)
        created = await run_in_thread(
            post.desk.jobs.create, project, new_job, idempotency_key, created_by=creator_from_person(post.person)
        )
    except RequestError as error:
        return await _render_job_list(post, project, error=error, typed=post.form)
    return redirect(f"/projects/{project.id}/jobs/{created.job.id}")


def creator_from_person(person: Person) -> Creator:
    return Creator(kind=CreatorKind.PERSON, name=person.name, id=person.id)


def parse_new_job(form: FormData) -> NewJob:
    """Builds a job from the form, with the same limits as the API."""
    options: dict[str, Any] = {name: form.get(name).strip() or None for name in ("model", "ref", "title")}
    try:
        return NewJobRequest(prompt=form.get("prompt").strip(), draft="draft" in form, **options).to_new_job()
    except ValidationError as error:
        raise to_form_error(error) from None


def to_form_error(error: ValidationError) -> InvalidRequest:
    return to_invalid_request([{**fault, "loc": ("form", *fault["loc"])} for fault in error.errors()])


def form_idempotency_key(form: FormData, new_job: NewJob) -> str | None:
    """Returns the idempotency key of a form: a hash of its nonce and its content.

    Submitting the form twice creates one job; editing it and submitting it again creates another."""
    nonce = form.get("nonce")
    return sha256(f"{nonce} {new_job.digest()}".encode()).hexdigest() if nonce else None


def compute_list_version(jobs: Sequence[Job]) -> str:
    """Returns a hash of the list, which changes when any job in it changes."""
    facts = [(job.id, job.status, job.phase, job.last_event, job.updated_at) for job in jobs]
    return sha256(repr(facts).encode()).hexdigest()[:16]


async def _find_jobs(
    signed_in: SignedInRequest, project: Project, status: str, text: str, cursor: str
) -> tuple[Sequence[Job], str | None]:
    status_filter = Status(status) if status in set(Status) else None
    after = cursor if is_id(cursor, "job") else None
    return await run_in_thread(
        signed_in.desk.jobs.list_page, project.id, status_filter, JOBS_PER_PAGE, after, text.strip()
    )


async def _render_job_list(
    signed_in: SignedInRequest,
    project: Project,
    status: str = "",
    text: str = "",
    cursor: str = "",
    *,
    error: RequestError | None = None,
    typed: FormData | None = None,
) -> Response:
    jobs, next_cursor = await _find_jobs(signed_in, project, status, text, cursor)
    base = f"/projects/{project.id}/jobs"
    filters = {name: value for name, value in (("status", status), ("text", text)) if value}
    query = urlencode({**filters, **({"cursor": cursor} if cursor else {})})
    return render_page(
        "jobs.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title="Jobs",
        rows=await run_in_thread(build_job_rows, signed_in.desk, project, jobs),
        working=sum(job.status is Status.ACTIVE for job in jobs),
        version=compute_list_version(jobs),
        page_url=f"{base}?{query}",
        live=f"{base}/live?{query}",
        older=f"{base}?{urlencode({**filters, 'cursor': next_cursor})}" if next_cursor else None,
        is_first=not cursor,
        chosen={"status": status, "text": text},
        statuses=list(Status),
        models=signed_in.desk.jobs.allowed_models(project),
        typed=typed or FormData(()),
        nonce=random_text(22),
    )
