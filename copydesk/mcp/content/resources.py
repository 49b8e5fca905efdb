"""Resources: jobs, their diffs, pages and reports by URI. They are read with the same functions as the tools."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from copydesk.core.ids import id_pattern
from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.mcp.bounds import bound_result, cut_text, to_json
from copydesk.mcp.tools import reports
from copydesk.mcp.tools.tool import Tool, ToolCall
from copydesk.mcp.tools.top_pages import get_top_pages

SCHEME = "copydesk"
MAX_DIFF_CHARS = 200_000
LISTED_JOBS = 20
JSON_TYPE, DIFF_TYPE = "application/json", "text/x-diff"
JOB_ID_PATTERN = re.compile(id_pattern("job"))
DIFF_URI = f"{SCHEME}://jobs/{{id}}/diff"
JOB_URI = f"{SCHEME}://jobs/{{id}}"
PAGE_URI = f"{SCHEME}://pages{{+path}}{{?firstDay,lastDay}}"
REPORT_URI = f"{SCHEME}://reports/{{report}}{{?firstDay,lastDay}}"

REPORTS: dict[str, Tool] = {
    "top-pages": get_top_pages,
    "visitors": reports.get_visitors,
    "views": reports.get_views,
    "timeseries": reports.get_timeseries,
    "sections": reports.get_sections,
    "agents": reports.get_agents,
    "referrers": reports.get_referrers,
    "missing-pages": reports.get_missing_pages,
    "searches": reports.get_searches,
    "feedback": reports.get_feedback,
}
"""The reports by their names in URIs, each with the tool that loads it."""


class ResourceNotFound(Exception):
    """The URI names nothing. The message says what a URI can name."""


@dataclass(frozen=True)
class ListedResource:
    uri: str
    name: str
    title: str
    description: str
    mime_type: str


@dataclass(frozen=True)
class ResourceText:
    mime_type: str
    text: str


TEMPLATES = (
    ListedResource(DIFF_URI, "job-diff", "Diff of a job", "What a job changed, as a unified diff.", DIFF_TYPE),
    ListedResource(JOB_URI, "job", "Job", "The current state of a job.", JSON_TYPE),
    ListedResource(
        PAGE_URI,
        "page",
        "One page in detail",
        "Readers, feedback, searches, last commit and jobs of a page, such as /guides/setup.",
        JSON_TYPE,
    ),
    ListedResource(
        REPORT_URI,
        "report",
        "Analytics report",
        f"One of {', '.join(REPORTS)}, for the last 30 days or from firstDay to lastDay, both included.",
        JSON_TYPE,
    ),
)


async def list_resources(call: ToolCall) -> list[ListedResource]:
    """Returns the reports, and the diffs of the newest jobs that changed a file."""
    resources = [
        ListedResource(
            f"{SCHEME}://reports/{name}",
            f"report-{name}",
            tool.title,
            f"{tool.title} of the last 30 days.",
            JSON_TYPE,
        )
        for name, tool in REPORTS.items()
    ]
    page = await call.api.get(f"{call.api.jobs_path}/jobs", limit=LISTED_JOBS)
    for job in page["jobs"]:
        if job["filesChanged"]:
            title = truncate(to_single_line(job["title"] or job["prompt"]), 100)
            uri = f"{SCHEME}://jobs/{job['id']}/diff"
            resources.append(ListedResource(uri, f"diff-{job['id']}", title, "What this job changed.", DIFF_TYPE))
    return resources


async def read_resource(call: ToolCall, uri: str) -> ResourceText:
    """Returns the text of a resource. Raises ResourceNotFound, ArgumentsRefused or ApiRefused."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _describe_unknown(uri) from None
    match [parts.scheme, parts.netloc, *parts.path.strip("/").split("/")]:
        case [scheme, "jobs", job_id] if scheme == SCHEME and JOB_ID_PATTERN.fullmatch(job_id):
            return _to_resource(await call.api.get(f"{call.api.jobs_path}/job/{job_id}"))
        case [scheme, "jobs", job_id, "diff"] if scheme == SCHEME and JOB_ID_PATTERN.fullmatch(job_id):
            return await _read_diff(call, job_id)
        case [scheme, "pages", *_] if scheme == SCHEME and parts.path:
            return await _read_report(call, reports.get_page, {"path": unquote(parts.path)}, parts.query)
        case [scheme, "reports", name] if scheme == SCHEME and name in REPORTS:
            return await _read_report(call, REPORTS[name], {}, parts.query)
    raise _describe_unknown(uri)


async def _read_report(call: ToolCall, tool: Tool, fixed: dict[str, str], query: str) -> ResourceText:
    """Returns a report as JSON. The query of the URI has the other arguments of its tool."""
    arguments = tool.parse_arguments({**dict(parse_qsl(query)), **fixed})
    return _to_resource(dict(await tool.run(call, arguments)))


async def _read_diff(call: ToolCall, job_id: str) -> ResourceText:
    diff = await call.api.get_text(f"{call.api.jobs_path}/job/{job_id}/diff")
    text, next_offset = cut_text(diff, 0, MAX_DIFF_CHARS)
    if next_offset is not None:
        omitted = pluralize(len(diff) - next_offset, "more character")
        text += f"[Truncated: {omitted}. Use get_job_diff with offset {next_offset}.]\n"
    return ResourceText(DIFF_TYPE, text)


def _to_resource(value: dict[str, Any]) -> ResourceText:
    return ResourceText(JSON_TYPE, to_json(bound_result(value)))


def _describe_unknown(uri: str) -> ResourceNotFound:
    names = ", ".join(template.uri for template in TEMPLATES)
    return ResourceNotFound(f"There is no resource {truncate(uri, 200)!r}. Resources are: {names}.")
