"""A job's events: the events so far as JSON, or live server-sent events that a client can resume."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from copydesk.core.errors import RequestError, StoreUnavailable
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.storage.records import JobEvent
from copydesk.web.api.schemas import JobEventListResponse, JobEventResponse
from copydesk.web.api.streams.job_streams import STORE_RETRY_SECONDS, LiveStream, StreamHolder, StreamRegistry

PING_SECONDS = 15.0
SSE_RETRY_FIELD = b"retry: 1000\n\n"


def wants_json(accept: str) -> bool:
    return "application/json" in accept and "text/event-stream" not in accept


async def build_events_response(desk: Desk, project_id: str, job_id: str, after: int) -> Response:
    _, events = await run_in_thread(desk.jobs.list_events, project_id, job_id, after)
    return JSONResponse(
        JobEventListResponse(events=[JobEventResponse.from_event(event) for event in events]).model_dump(by_alias=True)
    )


class EventStreamResponse(StreamingResponse):
    """Streams a job's events until the job ends or the client loses access. `extra_data` adds to each event's data.

    Counts as an open stream from when it is sent until it ends.
    """

    def __init__(
        self,
        desk: Desk,
        streams: StreamRegistry,
        holder: StreamHolder,
        job: Job,
        after: int,
        extra_data: Callable[[JobEvent], dict[str, Any]] = lambda _: {},
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._desk = desk
        self._streams = streams
        self._extra_data = extra_data
        self._stream_args = holder, job.project_id, job.id, after
        all_headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__((), media_type="text/event-stream", headers=all_headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.open(*self._stream_args) as stream:
            self.body_iterator = self._generate_events(stream)
            await super().__call__(scope, receive, send)

    async def _generate_events(self, stream: LiveStream) -> AsyncIterator[bytes]:
        yield SSE_RETRY_FIELD
        while not self._desk.database.notifications.is_closing and not stream.is_over:
            stream.wake_event.clear()
            try:
                job, events = await self._streams.read(stream)
            except StoreUnavailable:  # temporary: the client need not reconnect
                yield b": store unavailable\n\n"
                await asyncio.sleep(STORE_RETRY_SECONDS)
                continue
            except RequestError:  # the job no longer exists
                return
            for event in events:
                stream.last_sent_seq = event.seq
                view = JobEventResponse.from_event(event)
                data = json.dumps({"at": view.at, **view.data, **self._extra_data(event)})
                yield f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode()
            if job.status is not ACTIVE and stream.last_sent_seq >= job.last_event:
                return
            while not await _wait_until_woken(stream.wake_event):
                yield b": keep-alive\n\n"


async def _wait_until_woken(wake_event: asyncio.Event) -> bool:
    """Waits for the event. Returns False after PING_SECONDS, when it is time for a keep-alive."""
    try:
        await asyncio.wait_for(wake_event.wait(), PING_SECONDS)
    except TimeoutError:
        return False
    return True


async def get_streams(request: Request) -> StreamRegistry:
    streams: StreamRegistry = request.app.state.streams
    return streams


CurrentStreams = Annotated[StreamRegistry, Depends(get_streams)]
