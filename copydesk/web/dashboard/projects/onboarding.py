"""The way into a project: what it lacks as a list of steps, until there is something to look at."""

from dataclasses import asdict, dataclass

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.web.dashboard.auth.session import Viewer, see
from copydesk.web.dashboard.projects.snippets import snippets_of
from copydesk.web.responses.html import page

router = APIRouter()


@dataclass(frozen=True)
class Steps:
    """Which are done."""

    people: bool
    ai: bool
    job: bool
    key: bool

    @property
    def has_views(self) -> bool:
        return self.people or self.ai


@router.get("/projects/{project_id}")
async def home(project_id: str, visit: Viewer) -> Response:
    project = await visit.project(project_id)
    steps = await call(_steps, visit.desk, project)
    return see(f"/projects/{project.id}/{'readership' if steps.job or steps.has_views else 'start'}")


@router.get("/projects/{project_id}/start")
async def start(project_id: str, visit: Viewer, stay: bool = False) -> Response:
    """With `stay` the steps are shown even when there is something to look at."""
    project = await visit.project(project_id)
    steps = await call(_steps, visit.desk, project)
    if steps.has_views and not stay:
        return see(_readership(project))
    snippets = snippets_of(project, visit.desk.settings.base_url)
    return page("start.html", visit=visit, project=project, title="Start", steps=steps, snippets=snippets)


@router.get("/projects/{project_id}/start.json")
async def start_state(project_id: str, visit: Viewer) -> Response:
    """How the steps stand, and where to go once there are views."""
    project = await visit.project(project_id)
    steps = await call(_steps, visit.desk, project)
    state = {"steps": asdict(steps), "next": _readership(project) if steps.has_views else None}
    return JSONResponse(state, headers={"Cache-Control": "no-store"})


def _readership(project: Project) -> str:
    return f"/projects/{project.id}/readership"


def _steps(desk: Desk, project: Project) -> Steps:
    """Agents run no scripts, so that an AI's view shows that the server's side tells of its requests."""
    desk.sites.settle(project, desk.store)
    desk.keeper.fresh()
    views = desk.store.views(project.id, limit=1).totals
    jobs, _ = desk.jobs.page(project.id, None, 1, None)
    has_key = any(key.is_open for key in desk.keys.of_project(project.id))
    return Steps(people=views.human > 0, ai=views.ai > 0, job=bool(jobs), key=has_key)
