"""The page of a project's jobs: the list, and the form that starts a job."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from copydesk.core.accounts.person import Person
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import Creator, CreatorKind, Job, ReviewState
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.lookups.job_search import count_jobs_by_state, find_jobs, list_creators
from copydesk.web.api.schemas import NewJobRequest
from copydesk.web.dashboard.auth.access import EditorPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.auth.form_data import FormData
from copydesk.web.dashboard.jobs.job_filters import (
    CurrentJobQuery,
    JobListQuery,
    build_creator_choices,
    build_state_links,
)
from copydesk.web.dashboard.jobs.job_rows import JOBS_PER_PAGE, build_job_rows
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect
from copydesk.web.responses.validation_errors import to_invalid_request

router = APIRouter()


@router.get("/projects/{project_id}/jobs")
async def job_list_page(project_id: str, signed_in: ViewerRequest, query: CurrentJobQuery) -> Response:
    return await _render_job_list(signed_in, await signed_in.get_project(project_id), query)


@router.get("/projects/{project_id}/jobs/live")
async def job_list_version(project_id: str, signed_in: ViewerRequest, query: CurrentJobQuery) -> Response:
    """Returns the version of the list. The page polls it and reloads the list only when it changes."""
    project = await signed_in.get_project(project_id)
    version = await run_in_thread(load_list_version, signed_in.desk, [project.id], query)
    return JSONResponse({"version": version}, headers={"Cache-Control": "no-store"})


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
        return await _render_job_list(post, project, JobListQuery(), error=error, typed=post.form)
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


def load_job_list(
    desk: Desk,
    projects: Mapping[str, Project],
    query: JobListQuery,
    path: str,
    default_state: ReviewState | None = None,
) -> dict[str, Any]:
    """Loads what a page shows of a list of jobs: the rows, the totals and choices of the filters, and its links.

    `projects` are those whose jobs may be shown.
    """
    job_filter = query.to_filter(list(projects), default_state)
    found = find_jobs(desk.database, job_filter, JOBS_PER_PAGE, query.valid_cursor)
    counts = count_jobs_by_state(desk.database, job_filter)
    return {
        "rows": build_job_rows(desk, projects, found.jobs),
        "query": query,
        "list_path": path,
        "states": build_state_links(query, path, counts, default_state),
        "creators": build_creator_choices(list_creators(desk.database, list(projects))),
        "has_unsearched": found.has_unsearched,
        "version": compute_list_version(found.jobs),
        "page_url": query.build_url(path, cursor=query.cursor),
        "live": query.build_url(f"{path}/live", cursor=query.cursor),
        "older": query.build_url(path, cursor=found.next_cursor) if found.next_cursor else None,
        "newest": query.build_url(path) if query.cursor else None,
    }


def load_list_version(
    desk: Desk, project_ids: Sequence[str], query: JobListQuery, default_state: ReviewState | None = None
) -> str:
    found = find_jobs(desk.database, query.to_filter(project_ids, default_state), JOBS_PER_PAGE, query.valid_cursor)
    return compute_list_version(found.jobs)


def compute_list_version(jobs: Sequence[Job]) -> str:
    """Returns a hash of the list, which changes when any job in it changes."""
    facts = [(job.id, job.status, job.phase, job.last_event, job.updated_at) for job in jobs]
    return sha256(repr(facts).encode()).hexdigest()[:16]


async def _render_job_list(
    signed_in: SignedInRequest,
    project: Project,
    query: JobListQuery,
    *,
    error: RequestError | None = None,
    typed: FormData | None = None,
) -> Response:
    path = f"/projects/{project.id}/jobs"
    return render_page(
        "jobs.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title="Jobs",
        models=signed_in.desk.jobs.allowed_models(project),
        typed=typed or FormData(()),
        nonce=random_text(22),
        **await run_in_thread(load_job_list, signed_in.desk, {project.id: project}, query, path),
    )
