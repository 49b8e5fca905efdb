"""Live streams of jobs' events: how many there may be, which has something to send, and who may still listen."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from copydesk.core.accounts.api_keys import Key
from copydesk.core.accounts.sessions import Session
from copydesk.core.db.notifications import ANYTHING
from copydesk.core.errors import Refusal, StoreDown
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk
from copydesk.jobs.job import ACTIVE, Job
from copydesk.jobs.storage.records import Event, Progress, job_topic

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""How long at most until a stream ends whose key or session did, where the database sends no signal of it."""
AWAY_SECONDS = 1.0
REST = 4
"""After a look at the database, the next one waits this multiple of its duration."""
RETRY_AFTER = {"Retry-After": "10"}


class TooManyStreams(TooManyRequests):
    code = "too_many_streams"
    message = "Too many live event streams are open for this API key or person."


class StreamsBusy(Refusal):
    status, code = 503, "streams_busy"
    message = "The server has reached its limit of live event streams; try again later, or poll the job."


class Holder(NamedTuple):
    """Who listens: an API key, or a person in a session of the dashboard. A person's sessions share one cap."""

    key_id: str | None
    session_id: str | None
    owner: str
    address: str | None = None

    @classmethod
    def from_key(cls, key: Key, address: str | None) -> "Holder":
        return cls(key.id, None, key.id, address)

    @classmethod
    def from_session(cls, session: Session) -> "Holder":
        return cls(None, session.id, session.person_id)


@dataclass(eq=False)
class Stream:
    holder: Holder
    project_id: str
    job_id: str
    seen: int
    """The number of the last event that was sent."""
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something to send, or the stream is over."""
    is_over: bool = False
    """Whether its holder may listen no longer."""

    def may_listen(self, known: "Known") -> bool:
        if self.holder.session_id is not None:
            return self.holder.session_id in known.sessions
        key = known.keys.get(self.holder.key_id or "")
        is_open = key is not None and key.is_open and key.project_id == self.project_id
        return is_open and key is not None and "read" in key.scopes and key.admits(self.holder.address)


class Known(NamedTuple):
    """What one look at the database tells of all streams."""

    jobs: dict[str, Progress]
    keys: dict[str, Key]
    sessions: set[str]


class Streams:
    """Looks at the database once for all streams, and wakes only those that have something to send: a stream costs
    nothing while its job does nothing, however much goes on elsewhere."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._max_total, self._max_per_owner = desk.settings.streams, desk.settings.streams_per_key
        self._open: set[Stream] = set()
        self._owners: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None
        self._reads: dict[tuple[str, int], asyncio.Future[tuple[Job, list[Event]]]] = {}

    def check_room(self, holder: Holder) -> None:
        """Raises TooManyStreams or StreamsBusy where another stream would be one too many."""
        if self._owners[holder.owner] >= self._max_per_owner:
            message = f"{self._max_per_owner} live streams of events are open for this API key or person; close some."
            raise TooManyStreams(message, headers=RETRY_AFTER)
        if len(self._open) >= self._max_total:
            raise StreamsBusy(headers=RETRY_AFTER)

    @contextmanager
    def open(self, holder: Holder, project_id: str, job_id: str, after: int) -> Iterator[Stream]:
        """Takes a place for a stream, unless `check_room` raises."""
        self.check_room(holder)
        stream, topic = Stream(holder, project_id, job_id, after), job_topic(job_id)
        self._open.add(stream)
        self._owners[holder.owner] += 1
        self._topics[topic] += 1
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_all())
        try:
            yield stream
        finally:
            self._open.remove(stream)
            _count_down(self._owners, holder.owner)
            _count_down(self._topics, topic)
            if not self._open and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def read(self, stream: Stream) -> tuple[Job, list[Event]]:
        """Returns the job and its events that the stream has not sent. Streams that are as far share one read."""
        key = stream.job_id, stream.seen
        reading = self._reads.get(key)
        if reading is None:
            reading = asyncio.ensure_future(call(self._desk.jobs.events, stream.project_id, *key))
            self._reads[key] = reading
            reading.add_done_callback(lambda done: self._reads.pop(key, None))
        return await asyncio.shield(reading)

    async def _watch_all(self) -> None:
        signals, loop, bell = self._desk.database.signals, asyncio.get_running_loop(), asyncio.Event()

        def ring(topic: str) -> None:
            if topic == ANYTHING or topic in self._topics:
                loop.call_soon_threadsafe(bell.set)

        with signals.heard(ring):
            while not signals.closing:
                bell.clear()
                rest = await self._look() * REST
                if signals.closing:
                    break
                await asyncio.sleep(min(rest, CHECK_SECONDS))
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), CHECK_SECONDS)
        for stream in self._open:
            stream.bell.set()

    async def _look(self) -> float:
        """Rings the bells of streams that have something to send or are over. Returns the seconds that it took."""
        streams, began = list(self._open), asyncio.get_running_loop().time()
        try:
            known = await call(self._read_known, streams)
        except StoreDown:  # it will be back, and nobody has to listen anew for that
            await asyncio.sleep(AWAY_SECONDS)
            return 0
        except Exception:
            log.exception("live streams could not be looked after; trying again")
            await asyncio.sleep(AWAY_SECONDS)
            return 0
        self._reads.clear()  # what began before this look may lack what it found
        for stream in streams:
            job = known.jobs.get(stream.job_id)
            stream.is_over = not stream.may_listen(known)
            if stream.is_over or job is None or job.last_event > stream.seen or job.status is not ACTIVE:
                stream.bell.set()
        return asyncio.get_running_loop().time() - began

    def _read_known(self, streams: Sequence[Stream]) -> Known:
        key_ids = {stream.holder.key_id for stream in streams if stream.holder.key_id}
        session_ids = {stream.holder.session_id for stream in streams if stream.holder.session_id}
        return Known(
            self._desk.jobs.progress({stream.job_id for stream in streams}),
            self._desk.keys.get_all(key_ids),
            self._desk.people.sessions.find_live(session_ids, "viewer"),
        )


def _count_down(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
