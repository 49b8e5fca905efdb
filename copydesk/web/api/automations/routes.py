"""The automations API: /v2/agent/{projectId}/automations, and the trigger of version 1."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from copydesk.automations.firing import Fired
from copydesk.core.ids import id_pattern
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.api.automations.schemas import (
    AutomationFilesResponse,
    AutomationListResponse,
    AutomationRequest,
    AutomationResponse,
    AutomationRunListResponse,
    AutomationRunResponse,
    TriggeredResponse,
)
from copydesk.web.api.dependencies import (
    CurrentCreator,
    CurrentProject,
    IdempotencyKey,
    OpenDesk,
    ProjectId,
    bearer,
    error_responses,
)

AutomationId = Annotated[str, Path(alias="automationId", description="The automation ID.")]
AUTOMATIONS_PATH = "/v2/agent/{projectId}/automations"
AUTOMATION_PATH = f"{AUTOMATIONS_PATH}/{{automationId}}"

router = APIRouter(tags=["automations"], dependencies=[Depends(bearer)])


@router.get(AUTOMATIONS_PATH, responses=error_responses(), operation_id="listAutomations")
async def list_automations(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> AutomationListResponse:
    """Lists the project's automations, oldest first."""
    return AutomationListResponse.from_list(await run_in_thread(desk.automations.list_for_project, project.id))


@router.post(
    AUTOMATIONS_PATH, status_code=201, responses=error_responses(409, 413, 415), operation_id="createAutomation"
)
async def create_automation(
    project_id: ProjectId,
    project: CurrentProject,
    body: AutomationRequest,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
) -> AutomationResponse:
    """Creates an automation."""
    values = body.to_values()
    automation = await run_in_thread(desk.automations.create, project, values, actor=f"key {creator.name}")
    response.headers["Location"] = f"/v2/agent/{project.id}/automations/{automation.id}"
    return AutomationResponse.from_automation(automation)


@router.get(f"{AUTOMATIONS_PATH}/files", responses=error_responses(), operation_id="listAutomationFiles")
async def list_automation_files(
    project_id: ProjectId, project: CurrentProject, desk: OpenDesk
) -> AutomationFilesResponse:
    """Returns what the last reading of the automation files found: each file with its automation or problems."""
    state = await run_in_thread(desk.automation_files.get_state, project.id)
    return AutomationFilesResponse.from_state(project.policy.automation_files, state)


@router.get(AUTOMATION_PATH, responses=error_responses(), operation_id="getAutomation")
async def get_automation(
    project_id: ProjectId, automation_id: AutomationId, project: CurrentProject, desk: OpenDesk
) -> AutomationResponse:
    """Returns an automation with its last and next run."""
    return AutomationResponse.from_automation(*await run_in_thread(desk.automations.get, project.id, automation_id))


@router.patch(AUTOMATION_PATH, responses=error_responses(409, 413, 415), operation_id="changeAutomation")
async def change_automation(
    project_id: ProjectId,
    automation_id: AutomationId,
    project: CurrentProject,
    body: AutomationRequest,
    desk: OpenDesk,
    creator: CurrentCreator,
) -> AutomationResponse:
    """Changes the fields that the request has."""
    actor = f"key {creator.name}"
    await run_in_thread(desk.automations.change, project, automation_id, body.to_values(), actor=actor)
    return AutomationResponse.from_automation(*await run_in_thread(desk.automations.get, project.id, automation_id))


@router.delete(AUTOMATION_PATH, status_code=204, responses=error_responses(409, 413), operation_id="deleteAutomation")
async def delete_automation(
    project_id: ProjectId,
    automation_id: AutomationId,
    project: CurrentProject,
    desk: OpenDesk,
    creator: CurrentCreator,
) -> Response:
    """Deletes an automation and the list of its runs. Their jobs and pull requests stay."""
    await run_in_thread(desk.automations.delete, project.id, automation_id, actor=f"key {creator.name}")
    return Response(status_code=204)


@router.post(
    f"{AUTOMATION_PATH}/run", status_code=201, responses=error_responses(409, 413, 429), operation_id="runAutomation"
)
async def run_automation(
    project_id: ProjectId,
    automation_id: AutomationId,
    project: CurrentProject,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> AutomationRunResponse:
    """Starts a run now, also of an automation that is not enabled."""
    actor = f"key {creator.name}"
    fired = await run_in_thread(
        desk.automations.run_now, project, automation_id, actor=actor, idempotency_key=idempotency_key
    )
    response.headers.update(_describe_fired(fired))
    response.headers["Location"] = f"/v2/agent/{project.id}/job/{fired.job_id}"
    return AutomationRunResponse.from_run(await run_in_thread(desk.automations.get_run, fired.run_id))


@router.get(f"{AUTOMATION_PATH}/runs", responses=error_responses(), operation_id="listAutomationRuns")
async def list_automation_runs(
    project_id: ProjectId,
    automation_id: AutomationId,
    project: CurrentProject,
    desk: OpenDesk,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[
        str | None, Query(description="`nextCursor` of the previous page.", pattern=id_pattern("arun"))
    ] = None,
) -> AutomationRunListResponse:
    """Lists the runs of an automation, newest first, with their outcomes."""
    page, next_cursor = await run_in_thread(desk.automations.list_runs, project.id, automation_id, limit, cursor)
    return AutomationRunListResponse(
        runs=[AutomationRunResponse.from_run(run) for run in page], next_cursor=next_cursor
    )


@router.post(
    "/v1/workflow/{projectId}/{automationId}/trigger",
    status_code=202,
    responses=error_responses(409, 413, 429),
    operation_id="triggerAutomation",
)
async def trigger_automation(
    project_id: ProjectId,
    automation_id: AutomationId,
    project: CurrentProject,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> TriggeredResponse:
    """Starts a run of an enabled automation, as the hosted service that Copydesk replaces does."""
    actor = f"key {creator.name}"
    fired = await run_in_thread(
        desk.automations.run_now,
        project,
        automation_id,
        actor=actor,
        require_enabled=True,
        idempotency_key=idempotency_key,
    )
    response.headers.update(_describe_fired(fired))
    return TriggeredResponse(schema_id=automation_id, instance_id=fired.run_id, job_id=fired.job_id)


def _describe_fired(fired: Fired) -> dict[str, str]:
    """Returns the headers of the response: those of the rate limit, or that an earlier request started the run."""
    return fired.headers if fired.is_new else {"Idempotent-Replayed": "true"}
