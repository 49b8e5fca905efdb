"""Clients that send jobs and events, retry as good clients do, and record the accepted work."""

import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2 as httpx

from tests.faults.fleet import SCRIPTED_MODEL, Fleet, FleetProject

PROMPT = 'Replace "colour" with "color".'
RETRY_PAUSES_SECONDS = (0.1, 0.3, 0.6, 1.0)


@dataclass
class AcceptedWork:
    """The work that the servers accepted, and all other responses."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Idempotency key → job."""
    events: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def __str__(self) -> str:
        answers = ", ".join(f"{answer}: {count}" for answer, count in sorted(self.answers.items()))
        return f"{len(self.jobs)} jobs and {len(self.events)} events accepted ({answers}; slowest {self.slowest:.1f} s)"


class Traffic:
    def __init__(self, fleet: Fleet, *, jobs_per_second: float, events_per_second: float, scripted: bool) -> None:
        self.fleet, self.account = fleet, AcceptedWork()
        self._scripted = scripted
        self._rates = {self._send_job: jobs_per_second, self._send_event: events_per_second}
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._failures: list[BaseException] = []

    @contextmanager
    def run(self, clients: int = 2) -> Iterator[AcceptedWork]:
        """Sends while the block runs, and then until every started request is accepted."""
        threads = [
            threading.Thread(target=self._send_repeatedly, args=(send, clients / rate), daemon=True)
            for send, rate in self._rates.items()
            if rate
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self.account
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(120)
        assert not self._failures, self._failures
        assert not any(thread.is_alive() for thread in threads), "a client never got its answer"

    def _send_repeatedly(self, send: object, pause: float) -> None:
        assert callable(send)
        try:
            while not self._stopping.wait(pause):
                send(next(self._turns))
        except BaseException as failure:
            self._failures.append(failure)

    def _send_job(self, turn: int) -> None:
        site = self._site(turn)
        key = uuid.uuid4().hex
        model = SCRIPTED_MODEL if self._scripted and turn % 3 else "mechanic"
        headers = {**site.headers, "Idempotency-Key": key}
        answer = self._retry_until_accepted(turn, site.at(), {"prompt": PROMPT, "model": model}, headers, (200, 201))
        with self._lock:
            assert key not in self.account.jobs
            self.account.jobs[key] = answer.json()["id"]

    def _send_event(self, turn: int) -> None:
        site = self._site(turn)
        event = uuid.uuid4().hex
        body = {"path": "/guide", "eventId": event, "visitorId": event}
        answer = self._retry_until_accepted(turn, site.events, body, site.headers, (202,)).json()
        assert answer["accepted"] + answer["duplicates"] == 1, answer
        with self._lock:
            self.account.events.append(event)

    def _site(self, turn: int) -> FleetProject:
        return self.fleet.sites[turn % len(self.fleet.sites)]

    def _retry_until_accepted(
        self, turn: int, path: str, body: dict[str, str], headers: dict[str, str], accepted: Sequence[int]
    ) -> httpx.Response:
        """Tries one server after another, and records the result of each attempt."""
        for tried in itertools.count():
            server = self.fleet.servers[(turn + tried) % len(self.fleet.servers)]
            began = time.monotonic()
            try:
                answer = httpx.post(server.url + path, json=body, headers=headers, timeout=30)
            except httpx.TransportError as error:
                self._record_answer(type(error).__name__, began)
            else:
                self._record_answer(str(answer.status_code), began)
                if answer.status_code in accepted:
                    return answer
                assert answer.status_code == 503, (answer.status_code, answer.text)
            time.sleep(RETRY_PAUSES_SECONDS[min(tried, len(RETRY_PAUSES_SECONDS) - 1)])
        raise AssertionError

    def _record_answer(self, answer: str, began: float) -> None:
        with self._lock:
            self.account.answers[answer] += 1
            self.account.slowest = max(self.account.slowest, time.monotonic() - began)
