"""The page of a job: its prompts, progress, change and actions."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import ValidationError

from copydesk.core.errors import RequestError
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import Job
from copydesk.jobs.publish.forges.reopened_pulls import reopen_pull_request
from copydesk.jobs.storage.records import EventKind
from copydesk.web.api.jobs import load_retry
from copydesk.web.api.schemas import JobMessageRequest
from copydesk.web.api.streams.job_events import CurrentStreams, EventStreamResponse
from copydesk.web.api.streams.job_streams import StreamHolder
from copydesk.web.dashboard.auth.access import EditorPost, SignedInPost, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.jobs.change_view import DiffLayout, load_change_view, raw_diff_response
from copydesk.web.dashboard.jobs.job_list import creator_from_person, form_idempotency_key, to_form_error
from copydesk.web.dashboard.jobs.job_rows import build_job_rows
from copydesk.web.dashboard.jobs.line_comments import FollowUp, build_follow_up_prompt
from copydesk.web.dashboard.jobs.timeline import EVENT_KINDS, build_event_payload, group_by_prompt
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()
EMPTY_FOLLOW_UP = FollowUp()
JOB_PATH = "/projects/{project_id}/jobs/{job_id}"


@router.get(JOB_PATH)
async def job_page(project_id: str, job_id: str, signed_in: ViewerRequest, view: DiffLayout = "unified") -> Response:
    project = await signed_in.get_project(project_id)
    if view == "raw":
        return raw_diff_response(await run_in_thread(signed_in.desk.jobs.diff, project.id, job_id))
    return await _render_job_page(signed_in, project, job_id, view)


@router.get(f"{JOB_PATH}/events")
async def job_events(
    project_id: str,
    job_id: str,
    signed_in: ViewerRequest,
    streams: CurrentStreams,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
    last_event_id: Annotated[str, Header(pattern="^[0-9]{1,9}$")] = "",
) -> Response:
    """Streams the job's events as the API does, each with a sentence for the page.

    A browser that reconnects sends the last event it received in Last-Event-ID."""
    await signed_in.get_project(project_id)
    holder = StreamHolder.from_session(signed_in.session)
    streams.check_capacity(holder)
    job = await run_in_thread(signed_in.desk.jobs.get, project_id, job_id)
    return EventStreamResponse(
        signed_in.desk, streams, holder, job, int(last_event_id or after), extra_data=build_event_payload
    )


@router.post(f"{JOB_PATH}/message")
async def send_message(project_id: str, job_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    typed = FollowUp.from_form(post.form)
    try:
        await run_in_thread(_send_follow_up, post, project, job_id, typed)
    except ValidationError as error:
        return await _render_job_page(post, project, job_id, error=to_form_error(error), typed=typed)
    except RequestError as request_error:
        return await _render_job_page(post, project, job_id, error=request_error, typed=typed)
    return redirect(f"/projects/{project.id}/jobs/{job_id}")


def _send_follow_up(post: SignedInPost, project: Project, job_id: str, typed: FollowUp) -> None:
    jobs = post.desk.jobs
    comments = typed.parse_comments()
    patches = jobs.patches(project.id, job_id) if comments else []
    message = JobMessageRequest(prompt=build_follow_up_prompt(typed.text, comments, patches))
    jobs.add_message(project, job_id, message.prompt, created_by=creator_from_person(post.person))


@router.post(f"{JOB_PATH}/cancel")
async def cancel_job(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _change_job(post, project_id, job_id, post.desk.jobs.cancel)


@router.post(f"{JOB_PATH}/archive")
async def archive_job(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _change_job(post, project_id, job_id, post.desk.jobs.archive)


@router.post(f"{JOB_PATH}/unarchive")
async def unarchive_job(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _change_job(post, project_id, job_id, post.desk.jobs.unarchive)


@router.post(f"{JOB_PATH}/reopen")
async def reopen_job(project_id: str, job_id: str, post: EditorPost) -> Response:
    """Reopens the closed pull request of a job. The forge may be slow, so this uses a thread of its own."""
    project = await post.get_project(project_id)
    job = await run_in_thread(post.desk.jobs.get, project.id, job_id)
    try:
        mirror = post.desk.open_mirror(project)
        arguments = post.desk.pulls, project, post.desk.secrets, mirror, job, post.person.email
        await asyncio.to_thread(reopen_pull_request, *arguments)
    except RequestError as error:
        return await _render_job_page(post, project, job_id, error=error)
    return redirect(f"/projects/{project.id}/jobs/{job_id}")


@router.post(f"{JOB_PATH}/retry")
async def retry_job(project_id: str, job_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    try:
        new_job = await run_in_thread(load_retry, post.desk.jobs, project.id, job_id)
        idempotency_key = form_idempotency_key(post.form, new_job)
        created = await run_in_thread(
            post.desk.jobs.create, project, new_job, idempotency_key, created_by=creator_from_person(post.person)
        )
    except RequestError as error:
        return await _render_job_page(post, project, job_id, error=error)
    return redirect(f"/projects/{project.id}/jobs/{created.job.id}")


async def _change_job(post: SignedInPost, project_id: str, job_id: str, change: Callable[[str, str], Job]) -> Response:
    project = await post.get_project(project_id)
    try:
        await run_in_thread(change, project.id, job_id)
    except RequestError as error:
        return await _render_job_page(post, project, job_id, error=error)
    return redirect(f"/projects/{project.id}/jobs/{job_id}")


def _load_page_data(desk: Desk, project: Project, job_id: str, layout: DiffLayout) -> dict[str, Any]:
    """Loads everything that the page shows, in one thread."""
    job, events = desk.jobs.list_events(project.id, job_id)
    [row] = build_job_rows(desk, {project.id: project}, [job])
    return {
        "title": row.heading,
        "row": row,
        "job": job,
        "turns": group_by_prompt(job, events),
        "last_event": events[-1].seq if events else 0,
        "is_pushed": job.head is not None or any(event.kind == EventKind.PUSHED for event in events),
        "change": load_change_view(desk, project.id, job_id, layout),
        "page_url": row.path,
    }


async def _render_job_page(
    signed_in: SignedInRequest,
    project: Project,
    job_id: str,
    layout: DiffLayout = "unified",
    *,
    error: RequestError | None = None,
    typed: FollowUp = EMPTY_FOLLOW_UP,
) -> Response:
    """Renders the page of a job. Raises JobNotFound for an unknown job, also after a form."""
    return await run_in_thread(
        render_page,
        "job.html",
        signed_in=signed_in,
        project=project,
        tab="jobs",
        error=error,
        layout=layout,
        kinds=" ".join(EVENT_KINDS),
        typed=typed,
        nonce=random_text(22),
        **await run_in_thread(_load_page_data, signed_in.desk, project, job_id, layout),
    )
