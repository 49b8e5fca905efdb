"""A job's events: so far as JSON, or live as server-sent events that resume where a client left off."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from copydesk.core.errors import Refusal, StoreDown
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.storage.records import Event
from copydesk.web.api.job_streams import AWAY_SECONDS, Holder, Stream, Streams
from copydesk.web.api.schemas import EventsView, EventView

PING_SECONDS = 15.0
RETRY = b"retry: 1000\n\n"


def wants_json(accept: str) -> bool:
    return "application/json" in accept and "text/event-stream" not in accept


async def events_so_far(desk: Desk, project_id: str, job_id: str, after: int) -> Response:
    _, found = await call(desk.jobs.events, project_id, job_id, after)
    return JSONResponse(EventsView(events=[EventView.of(event) for event in found]).model_dump(by_alias=True))


class EventStream(StreamingResponse):
    """Ends when the job does, or whoever listens may no longer; `also` adds to each event's data.

    Takes its place among the streams when it is sent, and gives it back however it ends."""

    def __init__(
        self,
        desk: Desk,
        streams: Streams,
        holder: Holder,
        job: Job,
        after: int,
        also: Callable[[Event], dict[str, Any]] = lambda _: {},
    ) -> None:
        self._desk, self._streams, self._also = desk, streams, also
        self._place = holder, job.project_id, job.id, after
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__((), media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.open(*self._place) as stream:
            self.body_iterator = self._parts(stream)
            await super().__call__(scope, receive, send)

    async def _parts(self, stream: Stream) -> AsyncIterator[bytes]:
        yield RETRY
        while not self._desk.database.signals.closing and not stream.is_over:
            stream.bell.clear()
            try:
                job, events = await self._streams.read(stream)
            except StoreDown:  # it will be back, and nobody has to listen anew for that
                yield b": the store is away\n\n"
                await asyncio.sleep(AWAY_SECONDS)
                continue
            except Refusal:  # the job is gone
                return
            for event in events:
                stream.seen = event.seq
                view = EventView.of(event)
                data = json.dumps({"at": view.at, **view.data, **self._also(event)})
                yield f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode()
            if job.status is not ACTIVE and stream.seen >= job.last_event:
                return
            while not await _rings(stream.bell):
                yield b": still at work\n\n"


async def _rings(bell: asyncio.Event) -> bool:
    """Returns whether the bell rings before the client should hear that the connection is alive."""
    try:
        await asyncio.wait_for(bell.wait(), PING_SECONDS)
    except TimeoutError:
        return False
    return True


async def get_streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


AllStreams = Annotated[Streams, Depends(get_streams)]
