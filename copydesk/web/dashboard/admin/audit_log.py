"""The audit log pages: a project's log for all roles, the service's log for administrators."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from copydesk.core import audit_log
from copydesk.core.clock import format_iso
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.admin.audit_sentences import describe_action, describe_actor
from copydesk.web.dashboard.auth.access import AdminRequest, SignedInRequest, ViewerRequest
from copydesk.web.responses.csv_reports import render_csv
from copydesk.web.responses.html import render_page

router = APIRouter()
ENTRIES_PER_PAGE, ENTRIES_PER_CSV_CHUNK = 50, 1000
CSV_COLUMNS = ("time", "actor", "action", "subject", "what", "details")


class AuditFilter:
    """The filter of the audit log, from the query parameters."""

    def __init__(
        self,
        action: Annotated[str, Query(max_length=60)] = "",
        actor: Annotated[str, Query(max_length=200)] = "",
        before: Annotated[str, Query(max_length=80)] = "",
    ) -> None:
        self.action = action
        self.actor = actor
        self.before = before

    def query(self, **extra: str) -> str:
        """Returns the filter as a query string with its question mark, or an empty string without a filter."""
        parts = {name: value for name, value in {"action": self.action, "actor": self.actor, **extra}.items() if value}
        return f"?{urlencode(parts)}" if parts else ""


RequestedFilter = Annotated[AuditFilter, Depends()]


@router.get("/projects/{project_id}/audit")
async def project_audit_page(project_id: str, signed_in: ViewerRequest, which: RequestedFilter) -> Response:
    return await _render_audit_page(signed_in, which, await signed_in.get_project(project_id))


@router.get("/projects/{project_id}/audit.csv")
async def project_audit_csv(project_id: str, signed_in: ViewerRequest, which: RequestedFilter) -> Response:
    return await _stream_csv(signed_in, which, await signed_in.get_project(project_id))


@router.get("/system/audit")
async def service_audit_page(signed_in: AdminRequest, which: RequestedFilter) -> Response:
    return await _render_audit_page(signed_in, which, None)


@router.get("/system/audit.csv")
async def service_audit_csv(signed_in: AdminRequest, which: RequestedFilter) -> Response:
    return await _stream_csv(signed_in, which, None)


async def _render_audit_page(
    signed_in: SignedInRequest, audit_filter: AuditFilter, project: Project | None
) -> Response:
    entries = await _list_entries(signed_in, audit_filter, project, audit_filter.before, ENTRIES_PER_PAGE + 1)
    page_entries = entries[:ENTRIES_PER_PAGE]
    has_more = len(entries) > ENTRIES_PER_PAGE
    key_names, person_names = await _load_names(signed_in, project)
    actions, actors = await run_in_thread(
        audit_log.list_actions_and_actors, signed_in.desk.database, _project_id(project)
    )
    return render_page(
        "audit.html",
        signed_in=signed_in,
        project=project,
        tab="audit" if project else "system",
        title="Audit log",
        entries=[
            (entry, describe_actor(entry["actor"], person_names), *describe_action(entry, key_names))
            for entry in page_entries
        ],
        which=audit_filter,
        actions=_include_selected(actions, audit_filter.action),
        actors=[
            (actor, describe_actor(actor, person_names)) for actor in _include_selected(actors, audit_filter.actor)
        ],
        older=audit_filter.query(before=audit_log.encode_cursor(page_entries[-1])) if has_more else "",
    )


def _include_selected(options: list[str], selected: str) -> list[str]:
    """Returns the sorted options with the selected one, which recent entries may no longer contain."""
    return sorted({*options, selected} - {""})


async def _stream_csv(signed_in: SignedInRequest, audit_filter: AuditFilter, project: Project | None) -> Response:
    """Streams all matching entries as CSV, one chunk of entries at a time."""
    key_names, _ = await _load_names(signed_in, project)

    async def generate_chunks() -> AsyncIterator[str]:
        entries = await _list_entries(signed_in, audit_filter, project, "", ENTRIES_PER_CSV_CHUNK)
        yield render_csv(CSV_COLUMNS, [_build_csv_row(entry, key_names) for entry in entries])
        while len(entries) == ENTRIES_PER_CSV_CHUNK:
            entries = await _list_entries(
                signed_in, audit_filter, project, audit_log.encode_cursor(entries[-1]), ENTRIES_PER_CSV_CHUNK
            )
            yield render_csv(CSV_COLUMNS, [_build_csv_row(entry, key_names) for entry in entries]).partition("\r\n")[2]

    headers = {"Content-Disposition": 'attachment; filename="audit.csv"', "Cache-Control": "private, no-store"}
    return StreamingResponse(generate_chunks(), media_type="text/csv; charset=utf-8", headers=headers)


def _build_csv_row(entry: dict[str, Any], key_names: dict[str, str]) -> list[str]:
    sentence, _ = describe_action(entry, key_names)
    details = json.dumps(entry["details"], ensure_ascii=False) if entry["details"] else ""
    return [format_iso(entry["at"]), entry["actor"], entry["action"], entry["subject"], sentence, details]


async def _list_entries(
    signed_in: SignedInRequest, audit_filter: AuditFilter, project: Project | None, before: str, limit: int
) -> list[dict[str, Any]]:
    filters = {"before": before, "action": audit_filter.action, "actor": audit_filter.actor}
    return await run_in_thread(audit_log.list_entries, signed_in.desk.database, _project_id(project), limit, **filters)


async def _load_names(signed_in: SignedInRequest, project: Project | None) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the names of the project's keys by id, and the names of all people by email address."""
    keys = await run_in_thread(signed_in.desk.keys.list_for_project, project.id) if project else []
    people = await run_in_thread(signed_in.desk.people.all)
    return {key.id: key.name for key in keys}, {person.email: person.name for person in people}


def _project_id(project: Project | None) -> str:
    return project.id if project else audit_log.NO_PROJECT
