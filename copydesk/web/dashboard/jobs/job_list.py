"""A project's jobs: the list, and the box that starts a new one."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from copydesk.core.errors import InvalidRequest, Refusal
from copydesk.core.ids import is_id, random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.jobs.job import Job, Status
from copydesk.jobs.service import NewJob
from copydesk.web.api.schemas import JobBody
from copydesk.web.dashboard.auth.form_data import Form
from copydesk.web.dashboard.auth.session import EditorPost, Viewer, Visit, see
from copydesk.web.dashboard.jobs.job_rows import shown
from copydesk.web.responses.html import page
from copydesk.web.responses.validation_errors import explained

router = APIRouter()
AT_ONCE = 25
Asked = Annotated[str, Query(max_length=200)]


@router.get("/projects/{project_id}/jobs")
async def list_jobs(
    project_id: str, visit: Viewer, status: Asked = "", text: Asked = "", cursor: Asked = ""
) -> Response:
    return await _listed(visit, await visit.project(project_id), status, text, cursor)


@router.get("/projects/{project_id}/jobs/live")
async def live_jobs(
    project_id: str, visit: Viewer, status: Asked = "", text: Asked = "", cursor: Asked = ""
) -> Response:
    """Whether the list is still as it was shown: a page asks often, and loads the list again only when it is not."""
    project = await visit.project(project_id)
    jobs, _ = await _found(visit, project, status, text, cursor)
    return JSONResponse({"version": version_of(jobs)}, headers={"Cache-Control": "no-store"})


@router.post("/projects/{project_id}/jobs")
async def new_job(project_id: str, post: EditorPost) -> Response:
    project = await post.project(project_id)
    try:
        new = asked(post.form)
        created = await call(post.desk.jobs.create, project, new, once(post.form, new))
    except Refusal as refusal:
        return await _listed(post, project, refusal=refusal, typed=post.form)
    return see(f"/projects/{project.id}/jobs/{created.job.id}")


def asked(form: Form) -> NewJob:
    """The same bounds as the API's."""
    options: dict[str, Any] = {name: form.get(name).strip() or None for name in ("model", "ref", "title")}
    try:
        return JobBody(prompt=form.get("prompt").strip(), draft="draft" in form, **options).new_job()
    except ValidationError as error:
        raise refused(error) from None


def refused(error: ValidationError) -> InvalidRequest:
    return explained([{**fault, "loc": ("form", *fault["loc"])} for fault in error.errors()])


def once(form: Form, new: NewJob) -> str | None:
    """The key that makes sending a form twice the same as once. Going back and asking for something else is new."""
    nonce = form.get("nonce")
    return sha256(f"{nonce} {new.digest()}".encode()).hexdigest() if nonce else None


def version_of(jobs: Sequence[Job]) -> str:
    """Another one whenever anything in the list is."""
    facts = [(job.id, job.status, job.phase, job.last_event, job.updated_at) for job in jobs]
    return sha256(repr(facts).encode()).hexdigest()[:16]


async def _found(
    visit: Visit, project: Project, status: str, text: str, cursor: str
) -> tuple[Sequence[Job], str | None]:
    wanted = Status(status) if status in set(Status) else None
    after = cursor if is_id(cursor, "job") else None
    return await call(visit.desk.jobs.page, project.id, wanted, AT_ONCE, after, text.strip())


async def _listed(
    visit: Visit,
    project: Project,
    status: str = "",
    text: str = "",
    cursor: str = "",
    *,
    refusal: Refusal | None = None,
    typed: Form | None = None,
) -> Response:
    jobs, following = await _found(visit, project, status, text, cursor)
    base = f"/projects/{project.id}/jobs"
    chosen = {name: value for name, value in (("status", status), ("text", text)) if value}
    query = urlencode({**chosen, **({"cursor": cursor} if cursor else {})})
    return page(
        "jobs.html",
        refusal=refusal,
        visit=visit,
        project=project,
        tab="jobs",
        title="Jobs",
        rows=await call(shown, visit.desk, project, jobs),
        working=sum(job.status is Status.ACTIVE for job in jobs),
        version=version_of(jobs),
        here=f"{base}?{query}",
        live=f"{base}/live?{query}",
        older=f"{base}?{urlencode({**chosen, 'cursor': following})}" if following else None,
        is_first=not cursor,
        chosen={"status": status, "text": text},
        statuses=list(Status),
        models=visit.desk.jobs.models(project),
        typed=typed or Form(()),
        nonce=random_text(22),
    )
