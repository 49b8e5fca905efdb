"""Live streams of job events: their limits, which of them have something to send, and who still has access."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.accounts.person import Person
from copydesk.core.accounts.sessions import Session
from copydesk.core.db.notifications import ANY_TOPIC
from copydesk.core.errors import RequestError, StoreUnavailable
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.storage.records import JobEvent, JobProgress, job_topic

log = logging.getLogger(__name__)

ACCESS_CHECK_SECONDS = 2.0
"""How often access is checked without a notification: a stream ends this soon after its key or session."""
STORE_RETRY_SECONDS = 1.0
POLL_REST_FACTOR = 4
"""After a poll of the database, the next one waits this multiple of its duration."""
RETRY_AFTER_HEADERS = {"Retry-After": "10"}


class TooManyStreams(TooManyRequests):
    code = "too_many_streams"
    message = "Too many live event streams are open for this API key or person."


class StreamsBusy(RequestError):
    status, code = 503, "streams_busy"
    message = "The server has reached its limit of live event streams. Try again later, or poll the job."


class StreamHolder(NamedTuple):
    """The client of a stream: an API key, or a session of the dashboard. A person's sessions share one limit."""

    key_id: str | None
    session_id: str | None
    owner: str
    address: str | None = None

    @classmethod
    def from_key(cls, key: ApiKey, address: str | None) -> "StreamHolder":
        return cls(key.id, None, key.id, address)

    @classmethod
    def from_session(cls, session: Session) -> "StreamHolder":
        return cls(None, session.id, session.person_id)


@dataclass(eq=False)
class LiveStream:
    holder: StreamHolder
    project_id: str
    job_id: str | None
    """None for a stream that belongs to a key alone, such as that of an MCP session."""
    last_sent_seq: int
    """The sequence number of the last event that was sent."""
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something to send, or the stream must end."""
    is_over: bool = False
    """Whether the holder has lost access, or the server stops."""

    async def wait_until_over(self) -> None:
        while not self.is_over:
            self.wake_event.clear()
            await self.wake_event.wait()

    def may_listen(self, snapshot: "StreamSnapshot") -> bool:
        if self.holder.session_id is not None:
            person = snapshot.people.get(self.holder.session_id)
            return person is not None and person.sees(self.project_id)
        key = snapshot.keys.get(self.holder.key_id or "")
        is_open = key is not None and key.is_active and key.project_id == self.project_id
        return is_open and key is not None and "read" in key.scopes and key.allows_address(self.holder.address)

    def has_news(self, snapshot: "StreamSnapshot") -> bool:
        """Returns whether there is something to send, or the job has ended or is gone."""
        if self.job_id is None:
            return False
        job = snapshot.jobs.get(self.job_id)
        return job is None or job.last_event > self.last_sent_seq or job.status is not ACTIVE


class StreamSnapshot(NamedTuple):
    """The state of all streams, from one poll of the database."""

    jobs: dict[str, JobProgress]
    keys: dict[str, ApiKey]
    people: dict[str, Person]
    """The people of the open sessions, by session id."""


class StreamRegistry:
    """The open streams. Polls the database once for all of them, and wakes only those that have something to send.

    So a stream costs nothing while its job is idle, even if other jobs are busy.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._max_total = desk.settings.streams
        self._max_per_owner = desk.settings.streams_per_key
        self._open: set[LiveStream] = set()
        self._open_by_owner: Counter[str] = Counter()
        self._open_by_topic: Counter[str] = Counter()
        self._watch_task: asyncio.Task[None] | None = None
        self._pending_reads: dict[tuple[str, int], asyncio.Future[tuple[Job, list[JobEvent]]]] = {}

    def check_capacity(self, holder: StreamHolder) -> None:
        """Raises TooManyStreams or StreamsBusy if another stream would exceed a limit."""
        if self._open_by_owner[holder.owner] >= self._max_per_owner:
            message = f"{self._max_per_owner} live event streams are open for this API key or person. Close some."
            raise TooManyStreams(message, headers=RETRY_AFTER_HEADERS)
        if len(self._open) >= self._max_total:
            raise StreamsBusy(headers=RETRY_AFTER_HEADERS)

    @contextmanager
    def open_for_key(self, key: ApiKey, address: str | None) -> Iterator[LiveStream | None]:
        """Registers a stream without a job while the context lasts. Yields None if there is no room.

        There is room while half of the limits is free: the rest is for streams that have something to send.
        """
        holder = StreamHolder.from_key(key, address)
        is_crowded = self._open_by_owner[holder.owner] >= self._max_per_owner // 2
        if is_crowded or len(self._open) >= self._max_total // 2:
            yield None
            return
        with self.open(holder, key.project_id, None, 0) as stream:
            yield stream

    @contextmanager
    def open(self, holder: StreamHolder, project_id: str, job_id: str | None, after: int) -> Iterator[LiveStream]:
        """Registers a stream while the context lasts. Raises the same errors as `check_capacity`."""
        self.check_capacity(holder)
        stream = LiveStream(holder, project_id, job_id, after)
        topic = job_topic(job_id) if job_id else ""
        self._open.add(stream)
        self._open_by_owner[holder.owner] += 1
        self._open_by_topic[topic] += 1
        if self._watch_task is None or self._watch_task.done():  # done: the server stops
            self._watch_task = asyncio.create_task(self._watch_all())
        try:
            yield stream
        finally:
            self._open.remove(stream)
            _decrement(self._open_by_owner, holder.owner)
            _decrement(self._open_by_topic, topic)
            if not self._open and self._watch_task is not None:
                self._watch_task.cancel()
                self._watch_task = None

    async def read(self, stream: LiveStream) -> tuple[Job, list[JobEvent]]:
        """Returns the job and the events that the stream has not sent. Streams at the same event share one read."""
        assert stream.job_id is not None
        key = stream.job_id, stream.last_sent_seq
        pending_read = self._pending_reads.get(key)
        if pending_read is None:
            pending_read = asyncio.ensure_future(run_in_thread(self._desk.jobs.list_events, stream.project_id, *key))
            self._pending_reads[key] = pending_read
            pending_read.add_done_callback(lambda done: self._pending_reads.pop(key, None))
        return await asyncio.shield(pending_read)

    async def _watch_all(self) -> None:
        signals = self._desk.database.notifications
        loop = asyncio.get_running_loop()
        wake_event = asyncio.Event()

        def wake(topic: str) -> None:
            if topic == ANY_TOPIC or topic in self._open_by_topic:
                loop.call_soon_threadsafe(wake_event.set)

        with signals.subscribe(wake):
            while not signals.is_closing:
                wake_event.clear()
                rest_seconds = await self._wake_ready_streams() * POLL_REST_FACTOR
                if signals.is_closing:
                    break
                await asyncio.sleep(min(rest_seconds, ACCESS_CHECK_SECONDS))
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake_event.wait(), ACCESS_CHECK_SECONDS)
        for stream in self._open:
            stream.is_over = True
            stream.wake_event.set()

    async def _wake_ready_streams(self) -> float:
        """Wakes streams that have something to send or must end. Returns the duration in seconds."""
        streams = list(self._open)
        began = asyncio.get_running_loop().time()
        try:
            snapshot = await run_in_thread(self._read_snapshot, streams)
        except StoreUnavailable:  # temporary: clients need not reconnect
            await asyncio.sleep(STORE_RETRY_SECONDS)
            return 0
        except Exception:
            log.exception("checking the live event streams failed; retrying")
            await asyncio.sleep(STORE_RETRY_SECONDS)
            return 0
        self._pending_reads.clear()  # a read that began before this poll may miss the events that it found
        for stream in streams:
            stream.is_over = not stream.may_listen(snapshot)
            if stream.is_over or stream.has_news(snapshot):
                stream.wake_event.set()
        return asyncio.get_running_loop().time() - began

    def _read_snapshot(self, streams: Sequence[LiveStream]) -> StreamSnapshot:
        key_ids = {stream.holder.key_id for stream in streams if stream.holder.key_id}
        session_ids = {stream.holder.session_id for stream in streams if stream.holder.session_id}
        return StreamSnapshot(
            self._desk.jobs.read_progress({stream.job_id for stream in streams if stream.job_id}),
            self._desk.keys.get_all(key_ids),
            self._desk.people.sessions.find_people(session_ids),
        )


def _decrement(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
