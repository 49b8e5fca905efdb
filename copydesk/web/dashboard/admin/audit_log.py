"""The audit log of a project, for all who may look; and of the whole service, for administrators."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from copydesk.core import audit_log as audit
from copydesk.core.clock import iso
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.web.dashboard.admin.audit_sentences import deed, doer
from copydesk.web.dashboard.auth.session import Admin, Viewer, Visit
from copydesk.web.responses.csv_reports import sheet
from copydesk.web.responses.html import page

router = APIRouter()
ON_A_PAGE, AT_ONCE = 50, 1000
COLUMNS = ("time", "actor", "action", "subject", "what", "details")


class Chosen:
    """Which entries are asked for."""

    def __init__(
        self,
        action: Annotated[str, Query(max_length=60)] = "",
        actor: Annotated[str, Query(max_length=200)] = "",
        before: Annotated[str, Query(max_length=80)] = "",
    ) -> None:
        self.action, self.actor, self.before = action, actor, before

    def query(self, **more: str) -> str:
        """As the end of an address; empty when everything is asked for."""
        parts = {name: value for name, value in {"action": self.action, "actor": self.actor, **more}.items() if value}
        return f"?{urlencode(parts)}" if parts else ""


Which = Annotated[Chosen, Depends()]


@router.get("/projects/{project_id}/audit")
async def of_project(project_id: str, visit: Viewer, which: Which) -> Response:
    return await _page(visit, which, await visit.project(project_id))


@router.get("/projects/{project_id}/audit.csv")
async def of_project_as_csv(project_id: str, visit: Viewer, which: Which) -> Response:
    return await _csv(visit, which, await visit.project(project_id))


@router.get("/system/audit")
async def of_service(visit: Admin, which: Which) -> Response:
    return await _page(visit, which, None)


@router.get("/system/audit.csv")
async def of_service_as_csv(visit: Admin, which: Which) -> Response:
    return await _csv(visit, which, None)


async def _page(visit: Visit, which: Chosen, project: Project | None) -> Response:
    found = await _entries(visit, which, project, which.before, ON_A_PAGE + 1)
    shown, has_more = found[:ON_A_PAGE], len(found) > ON_A_PAGE
    keys, people = await _names(visit, project)
    actions, actors = await call(audit.words, visit.desk.database, _project_id(project))
    return page(
        "audit.html",
        visit=visit,
        project=project,
        tab="audit" if project else "system",
        title="Audit log",
        entries=[(entry, doer(entry["actor"], people), *deed(entry, keys)) for entry in shown],
        which=which,
        actions=_with(actions, which.action),
        actors=[(actor, doer(actor, people)) for actor in _with(actors, which.actor)],
        older=which.query(before=audit.cursor(shown[-1])) if has_more else "",
    )


def _with(words: list[str], chosen: str) -> list[str]:
    """What is chosen is among the choices, also when it happened long ago."""
    return sorted({*words, chosen} - {""})


async def _csv(visit: Visit, which: Chosen, project: Project | None) -> Response:
    """All that was chosen, however much, a part at a time."""
    keys, _ = await _names(visit, project)

    async def parts() -> AsyncIterator[str]:
        found = await _entries(visit, which, project, "", AT_ONCE)
        yield sheet(COLUMNS, [_row(entry, keys) for entry in found])
        while len(found) == AT_ONCE:
            found = await _entries(visit, which, project, audit.cursor(found[-1]), AT_ONCE)
            yield sheet(COLUMNS, [_row(entry, keys) for entry in found]).partition("\r\n")[2]

    headers = {"Content-Disposition": 'attachment; filename="audit.csv"', "Cache-Control": "private, no-store"}
    return StreamingResponse(parts(), media_type="text/csv; charset=utf-8", headers=headers)


def _row(entry: dict[str, Any], keys: dict[str, str]) -> list[str]:
    said, _ = deed(entry, keys)
    details = json.dumps(entry["details"], ensure_ascii=False) if entry["details"] else ""
    return [iso(entry["at"]), entry["actor"], entry["action"], entry["subject"], said, details]


async def _entries(
    visit: Visit, which: Chosen, project: Project | None, before: str, most: int
) -> list[dict[str, Any]]:
    chosen = {"before": before, "action": which.action, "actor": which.actor}
    return await call(audit.entries, visit.desk.database, _project_id(project), most, **chosen)


async def _names(visit: Visit, project: Project | None) -> tuple[dict[str, str], dict[str, str]]:
    """Of the keys, by id, and of the people, by e-mail address."""
    keys = await call(visit.desk.keys.of_project, project.id) if project else []
    people = await call(visit.desk.people.all)
    return {key.id: key.name for key in keys}, {person.email: person.name for person in people}


def _project_id(project: Project | None) -> str:
    return project.id if project else audit.EVERYWHERE
