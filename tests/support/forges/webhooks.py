"""Delivers a forge's webhooks: sends them in order from a thread, records them, and redelivers on demand."""

import json
import queue
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2

Sign = Callable[["Delivery", "Hook"], Mapping[str, str]]
DELIVERY_TIMEOUT_SECONDS = 10
"""GitHub and GitLab wait no longer for a response."""
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Saves each HTTP client from reading the machine's certificates."""


@dataclass(frozen=True)
class Hook:
    id: int
    url: str
    secret: str = field(repr=False)


@dataclass
class Delivery:
    """One event for one hook; `statuses` are the responses to each attempt, 0 for none."""

    event: str
    body: bytes
    hook: Hook
    id: str = field(default_factory=lambda: str(uuid4()))
    statuses: list[int] = field(default_factory=list)

    @property
    def payload(self) -> Any:
        return json.loads(self.body)


class Webhooks:
    """`sign` builds the forge's headers of a delivery; with `new_id_again`, a redelivery has a new id."""

    def __init__(self, sign: Sign, *, new_id_again: bool = False, failures_allowed: int | None = None) -> None:
        self._failures_allowed = failures_allowed
        self._failures: dict[int, int] = {}
        self.hooks: list[Hook] = []
        self.deliveries: list[Delivery] = []
        self._sign, self._new_id_again = sign, new_id_again
        self._waiting: queue.Queue[Delivery | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, url: str, secret: str) -> Hook:
        hook = Hook(len(self.hooks) + 1, url, secret)
        self.hooks.append(hook)
        return hook

    def is_disabled(self, hook: Hook) -> bool:
        """Returns whether the forge has disabled the hook after failures in a row."""
        return self._failures_allowed is not None and self._failures.get(hook.id, 0) >= self._failures_allowed

    def emit(self, event: str, payload: object) -> None:
        for hook in self.hooks:
            self._send(Delivery(event, json.dumps(payload).encode(), hook))

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Sends the same event again, as the forge's redeliver button does."""
        again = Delivery(delivery.event, delivery.body, delivery.hook) if self._new_id_again else delivery
        self._send(again)
        self.flush()
        return again

    def flush(self) -> None:
        """Waits until everything has been sent."""
        self._waiting.join()

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _send(self, delivery: Delivery) -> None:
        if delivery not in self.deliveries:
            self.deliveries.append(delivery)
        self._waiting.put(delivery)

    def _run(self) -> None:
        with httpx2.Client(timeout=DELIVERY_TIMEOUT_SECONDS, verify=NO_CERTIFICATES, trust_env=False) as client:
            while (delivery := self._waiting.get()) is not None:
                if self.is_disabled(delivery.hook):
                    self._waiting.task_done()
                    continue
                headers = {"Content-Type": "application/json", **self._sign(delivery, delivery.hook)}
                try:
                    answer = client.post(delivery.hook.url, content=delivery.body, headers=headers)
                    delivery.statuses.append(answer.status_code)
                except httpx2.HTTPError:
                    delivery.statuses.append(0)
                has_failed = not 200 <= delivery.statuses[-1] < 300
                self._failures[delivery.hook.id] = self._failures.get(delivery.hook.id, 0) + 1 if has_failed else 0
                self._waiting.task_done()
