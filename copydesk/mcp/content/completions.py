"""Completions: values for an argument of a prompt or of a resource template, while a person types it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from copydesk.mcp.content.prompts import load_template
from copydesk.mcp.content.resources import DIFF_URI, JOB_URI, PAGE_URI, REPORT_URI, REPORTS
from copydesk.mcp.tools.day_range import DayRangeArguments
from copydesk.mcp.tools.tool import ToolCall

MAX_VALUES = 100
"""The protocol allows no more."""
LISTED_JOBS = 100
LISTED_PAGES = 250
"""Completions of a path cover this many of the most viewed pages of the last 30 days."""


class ArgumentNotFound(Exception):
    """The prompt or the resource template has no such argument. The message names both."""


class Completions(NamedTuple):
    values: list[str]
    total: int
    """How many values match, also those that were cut."""


async def complete_prompt(call: ToolCall, prompt: str, argument: str, typed: str) -> Completions:
    """Returns the choices of a field, or its default, that begin with the typed text."""
    for field in (await load_template(call, prompt))["fields"]:
        if field["name"] == argument:
            return _select(field["choices"] or filter(None, [field["default"]]), typed)
    raise ArgumentNotFound(f"The prompt {prompt} has no argument {argument[:100]!r}.")


async def complete_uri(call: ToolCall, uri_template: str, argument: str, typed: str) -> Completions:
    """Returns the values of a variable of a resource template that begin with the typed text. Days have none."""
    arguments = ARGUMENTS_BY_URI.get(uri_template)
    if arguments is None:
        raise ArgumentNotFound(f"There is no resource template {uri_template[:200]!r}.")
    if argument not in arguments:
        raise ArgumentNotFound(f"The resource template {uri_template} has no variable {argument[:100]!r}.")
    load_values = arguments[argument]
    return _select(await load_values(call), typed)


async def _list_jobs(call: ToolCall) -> Iterable[str]:
    page = await call.api.get(f"{call.api.jobs_path}/jobs", limit=LISTED_JOBS)
    return [job["id"] for job in page["jobs"]]


async def _list_jobs_with_changes(call: ToolCall) -> Iterable[str]:
    page = await call.api.get(f"{call.api.jobs_path}/jobs", limit=LISTED_JOBS)
    return [job["id"] for job in page["jobs"] if job["filesChanged"]]


async def _list_pages(call: ToolCall) -> Iterable[str]:
    bounds, _ = DayRangeArguments().resolve()
    report = await call.api.get(f"{call.api.analytics_path}/views", **bounds, limit=LISTED_PAGES)
    return [row["path"] for row in report["views"]]


async def _list_reports(call: ToolCall) -> Iterable[str]:
    return REPORTS


async def _list_nothing(call: ToolCall) -> Iterable[str]:
    return ()


LoadValues = Callable[[ToolCall], Awaitable[Iterable[str]]]
DAYS: dict[str, LoadValues] = {"firstDay": _list_nothing, "lastDay": _list_nothing}
ARGUMENTS_BY_URI: dict[str, dict[str, LoadValues]] = {
    DIFF_URI: {"id": _list_jobs_with_changes},
    JOB_URI: {"id": _list_jobs},
    PAGE_URI: {"path": _list_pages, **DAYS},
    REPORT_URI: {"report": _list_reports, **DAYS},
}


def _select(values: Iterable[str], typed: str) -> Completions:
    """Returns the values that begin with the typed text, in their order. Upper and lower case are the same."""
    prefix = typed.casefold()
    matches = [value for value in values if value.casefold().startswith(prefix)]
    return Completions(matches[:MAX_VALUES], len(matches))
