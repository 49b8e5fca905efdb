"""A pull request of the forge `local`, as a page. Whoever holds its link may see it."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from copydesk.core.runtime.thread_pool import call
from copydesk.web.api.jobs import OpenDesk
from copydesk.web.dashboard.auth.session import is_signed_in
from copydesk.web.dashboard.jobs.change_view import Look, change_of, raw
from copydesk.web.responses.html import page

router = APIRouter(include_in_schema=False)
Token = Annotated[str, Path(pattern="^[0-9A-Za-z]{22}$")]


@router.get("/review/{token}/pulls/{number}")
async def pull_page(
    request: Request,
    token: Token,
    number: Annotated[int, Path(ge=1, le=2**31 - 1)],
    desk: OpenDesk,
    view: Look = "unified",
) -> Response:
    pull = await call(desk.pulls.by_link, token, number)
    if view == "raw":
        return raw(await call(desk.jobs.diff, pull.project_id, pull.job_id))
    inside = f"/projects/{pull.project_id}/pulls/{pull.number}"
    return await call(
        page,
        "pull.html",
        title=f"{pull.title} · pull request {pull.number}",
        pull=pull,
        job=await call(desk.jobs.get, pull.project_id, pull.job_id),
        change=await call(change_of, desk, pull.project_id, pull.job_id),
        look=view,
        here=f"/review/{pull.token}/pulls/{pull.number}",
        dashboard=inside if await is_signed_in(request, desk) else None,
    )
