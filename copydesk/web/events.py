"""A job's events: so far as JSON, or live as server-sent events that resume where a client left off."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse, StreamingResponse

from copydesk.core.errors import StoreDown
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE
from copydesk.jobs.records import Event, job_topic
from copydesk.web.threads import call
from copydesk.web.views import EventsView, EventView

PING_SECONDS = 15.0
AWAY_SECONDS = 1.0
RETRY = b"retry: 1000\n\n"


def wants_json(accept: str) -> bool:
    return "application/json" in accept and "text/event-stream" not in accept


async def events_so_far(desk: Desk, project_id: str, job_id: str, after: int) -> Response:
    _, found = await call(desk.jobs.events, project_id, job_id, after)
    return JSONResponse(EventsView(events=[EventView.of(event) for event in found]).model_dump(by_alias=True))


async def always() -> bool:
    return True


def live_events(
    desk: Desk,
    project_id: str,
    job_id: str,
    after: int,
    *,
    also: Callable[[Event], dict[str, Any]] = lambda _: {},
    goes_on: Callable[[], Awaitable[bool]] = always,
) -> Response:
    """Ends when the job does, or whoever listens may no longer. Nothing is held between events but a wake-up call.

    `also` adds to each event's data."""

    async def stream() -> AsyncIterator[bytes]:
        seen = after
        yield RETRY
        with desk.database.signals.woken(job_topic(job_id)) as bell:
            while not desk.database.signals.closing:
                bell.clear()
                try:
                    if not await goes_on():
                        return
                    job, found = await call(desk.jobs.events, project_id, job_id, seen)
                except StoreDown:  # it will be back, and nobody has to listen anew for that
                    yield b": the store is away\n\n"
                    await asyncio.sleep(AWAY_SECONDS)
                    continue
                for event in found:
                    seen = event.seq
                    view = EventView.of(event)
                    data = json.dumps({"at": view.at, **view.data, **also(event)})
                    yield f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode()
                if job.status is not ACTIVE and seen >= job.last_event:
                    return
                try:
                    await asyncio.wait_for(bell.wait(), PING_SECONDS)
                except TimeoutError:
                    yield b": still at work\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
