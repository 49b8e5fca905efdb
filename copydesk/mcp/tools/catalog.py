"""All tools, in the order in which clients list them."""

from collections.abc import Collection

from copydesk.mcp.tools.automations import list_automation_runs, list_automations, run_automation
from copydesk.mcp.tools.jobs import (
    cancel_job,
    create_job,
    get_job,
    get_job_diff,
    list_jobs,
    list_models,
    retry_job,
    send_job_message,
    wait_for_job,
)
from copydesk.mcp.tools.reports import (
    get_agents,
    get_feedback,
    get_missing_pages,
    get_page,
    get_referrers,
    get_searches,
    get_sections,
    get_timeseries,
    get_views,
    get_visitors,
)
from copydesk.mcp.tools.tool import Tool
from copydesk.mcp.tools.top_pages import get_top_pages

TOOLS: tuple[Tool, ...] = (
    create_job,
    get_job,
    wait_for_job,
    list_jobs,
    send_job_message,
    cancel_job,
    retry_job,
    get_job_diff,
    list_models,
    list_automations,
    run_automation,
    list_automation_runs,
    get_top_pages,
    get_visitors,
    get_views,
    get_timeseries,
    get_page,
    get_sections,
    get_agents,
    get_referrers,
    get_missing_pages,
    get_searches,
    get_feedback,
)
TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}


def list_allowed_tools(scopes: Collection[str]) -> list[Tool]:
    """Returns the tools that a key with these scopes can use."""
    return [tool for tool in TOOLS if tool.scope in scopes]
