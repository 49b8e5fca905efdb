"""The tools of automations: list and run them, and list their runs."""

from typing import Annotated, Any, TypedDict

from pydantic import Field

from copydesk.core.ids import id_pattern
from copydesk.mcp.tools.jobs import IdempotencyKey, new_key
from copydesk.mcp.tools.tool import Arguments, NoArguments, ToolCall, define_tool
from copydesk_client.shapes import Automation, AutomationRun, AutomationRunPage


class AutomationArguments(Arguments):
    automation_id: Annotated[str, Field(pattern=id_pattern("auto"))]
    """The automation ID."""


class RunArguments(AutomationArguments):
    idempotency_key: IdempotencyKey | None = None
    """A unique text. A second call with the same key returns the first run and starts no other."""


class ListRunsArguments(AutomationArguments):
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    """The number of runs."""
    cursor: Annotated[str, Field(pattern=id_pattern("arun"))] | None = None
    """`nextCursor` of the previous page."""


class AutomationList(TypedDict):
    automations: list[Automation]


@define_tool("List automations", NoArguments, AutomationList)
async def list_automations(call: ToolCall, args: NoArguments) -> Any:
    """Lists the project's automations: saved instructions that run by a schedule, after a change or on request, each
    with its trigger, last run and next run."""
    return await call.api.get(f"{call.api.jobs_path}/automations")


@define_tool("Run an automation", RunArguments, AutomationRun, scope="write")
async def run_automation(call: ToolCall, args: RunArguments) -> Any:
    """Starts a run of an automation now, also if it is not enabled. The run is a job: call wait_for_job with its
    jobId."""
    path = f"{call.api.jobs_path}/automations/{args.automation_id}/run"
    return await call.api.post(path, idempotency_key=args.idempotency_key or new_key())


@define_tool("List runs of an automation", ListRunsArguments, AutomationRunPage)
async def list_automation_runs(call: ToolCall, args: ListRunsArguments) -> Any:
    """Lists the runs of an automation, newest first, with what triggered each, its outcome and its job."""
    path = f"{call.api.jobs_path}/automations/{args.automation_id}/runs"
    return await call.api.get(path, limit=args.limit, cursor=args.cursor)
