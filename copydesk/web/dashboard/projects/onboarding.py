"""The start page of a project: a checklist that is shown until the first page view or job."""

from dataclasses import asdict, dataclass

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.projects.repository_warnings import describe_checked_out_branch
from copydesk.web.dashboard.auth.access import ViewerRequest
from copydesk.web.dashboard.flash_messages import delete_message, read_message
from copydesk.web.dashboard.projects.snippets import build_snippets
from copydesk.web.dashboard.readership.uncounted import build_uncounted_report, list_uncounted
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()


@dataclass(frozen=True)
class OnboardingSteps:
    """The setup steps of a project, each with whether it is done."""

    people: bool
    ai: bool
    job: bool
    key: bool

    @property
    def has_views(self) -> bool:
        return self.people or self.ai


@router.get("/projects/{project_id}")
async def project_home(project_id: str, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    steps = await run_in_thread(_load_steps, signed_in.desk, project)
    return redirect(f"/projects/{project.id}/{'readership' if steps.job or steps.has_views else 'start'}")


@router.get("/projects/{project_id}/start")
async def start_page(request: Request, project_id: str, signed_in: ViewerRequest, stay: bool = False) -> Response:
    """Shows the steps. With `stay`, shows them even if there are page views already."""
    project = await signed_in.get_project(project_id)
    steps = await run_in_thread(_load_steps, signed_in.desk, project)
    if steps.has_views and not stay:
        return redirect(_readership_path(project))
    settings = signed_in.desk.settings
    snippets = build_snippets(project, settings.base_url)
    warning = read_message(request, settings)
    response = render_page(
        "start.html",
        signed_in=signed_in,
        project=project,
        title="Start",
        steps=steps,
        snippets=snippets,
        warning=warning,
        checked_out=await run_in_thread(describe_checked_out_branch, project),
        uncounted=await run_in_thread(build_uncounted_report, signed_in.desk, project),
    )
    if warning:
        delete_message(response, settings)
    return response


@router.get("/projects/{project_id}/start.json")
async def start_state(project_id: str, signed_in: ViewerRequest) -> Response:
    """Returns which steps are done, the page to open once there are views, and how many requests were not counted."""
    project = await signed_in.get_project(project_id)
    steps = await run_in_thread(_load_steps, signed_in.desk, project)
    rows = await run_in_thread(list_uncounted, signed_in.desk, project)
    state = {
        "steps": asdict(steps),
        "next": _readership_path(project) if steps.has_views else None,
        "uncounted": sum(row.requests for row in rows),
    }
    return JSONResponse(state, headers={"Cache-Control": "no-store"})


def _readership_path(project: Project) -> str:
    return f"/projects/{project.id}/readership"


def _load_steps(desk: Desk, project: Project) -> OnboardingSteps:
    """Finds out which steps are done.

    AI agents run no scripts, so a view by AI shows that the web server reports its requests."""
    desk.sites.apply_ai_classes(project, desk.store)
    desk.fold_scheduler.wait_until_folded()
    views = desk.store.count_views_by_page(project.id, limit=1).totals
    jobs, _ = desk.jobs.list_page(project.id, None, 1, None)
    has_key = any(key.is_active for key in desk.keys.list_for_project(project.id))
    return OnboardingSteps(people=views.human > 0, ai=views.ai > 0, job=bool(jobs), key=has_key)
