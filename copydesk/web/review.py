"""A pull request of the forge `local`, as a page. Whoever holds its link may see it."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from copydesk.core.clock import iso
from copydesk.web.jobs import OpenDesk
from copydesk.web.pages import page

router = APIRouter(include_in_schema=False)
Token = Annotated[str, Path(pattern="^[0-9A-Za-z]{22}$")]


@router.get("/review/{token}/pulls/{number}")
def pull_page(token: Token, number: Annotated[int, Path(ge=1, le=2**31 - 1)], desk: OpenDesk) -> Response:
    pull = desk.pulls.by_link(token, number)
    lines = desk.jobs.diff(pull.project_id, pull.job_id).decode("utf-8", "replace").split("\n")
    return page(
        "pull.html",
        title=f"{pull.title} · pull request {pull.number}",
        pull=pull,
        opened=iso(pull.created_at),
        files=desk.jobs.files([pull.job_id])[pull.job_id],
        diff=[(_kind(line), line) for line in lines if line],
    )


def _kind(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "similarity ", "rename ")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[0], "same")
