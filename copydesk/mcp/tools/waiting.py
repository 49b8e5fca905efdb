"""Waits for a job: follows its events, reports them as progress, and stops when the job or the time ends."""

from contextlib import aclosing

import anyio

from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.mcp.api import Api, ApiRefused
from copydesk.mcp.tools.tool import ReportProgress
from copydesk_client.event_text import describe_event
from copydesk_client.shapes import Event, Job

MAX_PROGRESS_CHARS = 300
RECONNECT_SECONDS = 1.0
MAX_EMPTY_STREAMS = 3
"""After this many streams without an event, the wait ends early: the server is stopping, or serves no streams."""


async def wait_until_finished(api: Api, job_id: str, seconds: float, report_progress: ReportProgress) -> Job:
    """Returns the job once it is no longer active, or after this time. Raises ApiRefused if the key loses access."""
    job: Job = await api.get(f"{api.jobs_path}/job/{job_id}")
    if job["status"] != "active":
        return job
    with anyio.move_on_after(seconds):
        await _follow(api, job_id, report_progress)
    final: Job = await api.get(f"{api.jobs_path}/job/{job_id}")
    return final


async def _follow(api: Api, job_id: str, report_progress: ReportProgress) -> None:
    """Reports events until the job ends. Reconnects after a temporary error, at the same event."""
    events = await api.list_events(job_id)
    after = events[-1]["seq"] if events else 0
    if events:
        await report_progress(_describe(events[-1]))
    empty_streams = 0
    while empty_streams < MAX_EMPTY_STREAMS:
        empty_streams += 1
        try:
            async with aclosing(api.stream_events(job_id, after)) as stream:
                async for event in stream:
                    empty_streams = 0
                    after = event["seq"] if event else after
                    await report_progress(_describe(event) if event else "Still running.")
            if (await api.get(f"{api.jobs_path}/job/{job_id}"))["status"] != "active":
                return
        except ApiRefused as error:
            if not error.is_temporary:
                raise
            empty_streams = 0
        await anyio.sleep(RECONNECT_SECONDS)


def _describe(event: Event) -> str:
    return truncate(to_single_line(describe_event(event)), MAX_PROGRESS_CHARS)
