"""One job: what was asked, what happens, what it changed, and what may be done with it."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import ValidationError

from copydesk.core.errors import Refusal
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.job import Job, Reason, Status
from copydesk.jobs.service import NewJob, WrongState
from copydesk.web.api.job_events import AllStreams, EventStream
from copydesk.web.api.job_streams import Holder
from copydesk.web.api.schemas import MessageBody
from copydesk.web.dashboard.auth.session import EditorPost, Post, Viewer, Visit, see
from copydesk.web.dashboard.jobs.change_view import Look, change_of, raw
from copydesk.web.dashboard.jobs.job_list import once, refused
from copydesk.web.dashboard.jobs.job_rows import shown
from copydesk.web.dashboard.jobs.timeline import KINDS, told, turns
from copydesk.web.responses.html import page

router = APIRouter()
HERE = "/projects/{project_id}/jobs/{job_id}"


@router.get(HERE)
async def job_page(project_id: str, job_id: str, visit: Viewer, view: Look = "unified") -> Response:
    project = await visit.project(project_id)
    if view == "raw":
        return raw(await call(visit.desk.jobs.diff, project.id, job_id))
    return await _page(visit, project, job_id, view)


@router.get(f"{HERE}/events")
async def job_events(
    project_id: str,
    job_id: str,
    visit: Viewer,
    streams: AllStreams,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
    last_event_id: Annotated[str, Header(pattern="^[0-9]{1,9}$")] = "",
) -> Response:
    """The API's stream, with each event as a sentence too. A browser that comes back says itself what it saw last."""
    await visit.project(project_id)
    holder = Holder.from_session(visit.session)
    streams.check_room(holder)
    job = await call(visit.desk.jobs.get, project_id, job_id)
    return EventStream(visit.desk, streams, holder, job, int(last_event_id or after), also=told)


@router.post(f"{HERE}/message")
async def message(project_id: str, job_id: str, post: EditorPost) -> Response:
    project, prompt = await post.project(project_id), post.form.get("prompt").strip()
    try:
        await call(post.desk.jobs.message, project, job_id, MessageBody(prompt=prompt).prompt)
    except ValidationError as error:
        return await _page(post, project, job_id, error=refused(error), typed=prompt)
    except Refusal as refusal:
        return await _page(post, project, job_id, error=refusal, typed=prompt)
    return see(f"/projects/{project.id}/jobs/{job_id}")


@router.post(f"{HERE}/cancel")
async def cancel(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _changed(post, project_id, job_id, post.desk.jobs.cancel)


@router.post(f"{HERE}/archive")
async def archive(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _changed(post, project_id, job_id, post.desk.jobs.archive)


@router.post(f"{HERE}/unarchive")
async def unarchive(project_id: str, job_id: str, post: EditorPost) -> Response:
    return await _changed(post, project_id, job_id, post.desk.jobs.unarchive)


@router.post(f"{HERE}/retry")
async def retry(project_id: str, job_id: str, post: EditorPost) -> Response:
    project = await post.project(project_id)
    job = await call(post.desk.jobs.get, project.id, job_id)
    try:
        new = again(job)
        created = await call(post.desk.jobs.create, project, new, once(post.form, new))
    except Refusal as refusal:
        return await _page(post, project, job_id, error=refusal)
    return see(f"/projects/{project.id}/jobs/{created.job.id}")


def again(job: Job) -> NewJob:
    """The same prompt and options. A title that the agent gave is not an option."""
    if job.status is Status.ACTIVE:
        raise WrongState("The job is still at work; cancel it before you retry it.")
    is_own = job.pr_link is None and job.reason is not Reason.NO_CHANGES
    return NewJob(job.prompt, job.model, job.ref, job.draft, job.title if is_own else None)


async def _changed(post: Post, project_id: str, job_id: str, change: Callable[[str, str], Job]) -> Response:
    project = await post.project(project_id)
    try:
        await call(change, project.id, job_id)
    except Refusal as refusal:
        return await _page(post, project, job_id, error=refusal)
    return see(f"/projects/{project.id}/jobs/{job_id}")


def _told(desk: Desk, project: Project, job_id: str) -> dict[str, Any]:
    """All that the page tells, read at one go."""
    job, events = desk.jobs.events(project.id, job_id)
    [row] = shown(desk, project, [job])
    return {
        "title": row.heading,
        "shown": row,
        "job": job,
        "turns": turns(events),
        "last_event": events[-1].seq if events else 0,
        "change": change_of(desk, project.id, job_id),
        "here": row.path,
    }


async def _page(
    visit: Visit,
    project: Project,
    job_id: str,
    look: Look = "unified",
    *,
    error: Refusal | None = None,
    typed: str = "",
) -> Response:
    """A job that is not there is a page of its own, also after a form."""
    return await call(
        page,
        "job.html",
        error.status if error else 200,
        error.headers if error else None,
        visit=visit,
        project=project,
        tab="jobs",
        error=error.message if error else "",
        look=look,
        kinds=" ".join(KINDS),
        typed=typed,
        nonce=random_text(22),
        **await call(_told, visit.desk, project, job_id),
    )
