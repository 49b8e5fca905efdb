"""Serving: the API and, unless told otherwise, a worker, in one process that stops cleanly."""

import asyncio
import logging
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import cast

import uvicorn

from copydesk.analytics.addresses import trusted
from copydesk.core import memory
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web import threads
from copydesk.web.app import make_app
from copydesk.web.health import Health
from copydesk.web.http.connections import Connections
from copydesk.web.http.protocol import Protocol, enforce_deadlines
from copydesk.web.readiness import Readiness

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
TICKS_PER_SECOND = 10
ACCEPTS_PER_TURN = 8
"""Each copy of the listening socket costs a few microseconds of CPU time for every new connection."""


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Only the main thread may catch them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, handler) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)


class _Server(uvicorn.Server):
    """Is not ready before it stops, and ends live streams, which would otherwise hold it up to the last."""

    def __init__(self, config: uvicorn.Config, desk: Desk, readiness: Readiness) -> None:
        super().__init__(config)
        self.desk, self.readiness = desk, readiness
        self.leave_at = math.inf

    def drain(self) -> None:
        """Whoever sends requests here has that long to look at /readyz and to send them elsewhere."""
        self.readiness.is_draining = True
        self.leave_at = time.monotonic() + self.desk.settings.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or time.monotonic() >= self.leave_at
        if counter % TICKS_PER_SECOND == 0:
            connections = cast("set[Protocol]", self.server_state.connections)
            enforce_deadlines(connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are caught for longer than the serving lasts: the worker has yet to hand its jobs back."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            threads.pools().close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.readiness.is_draining = True
        self.desk.database.signals.dismiss()
        await super().shutdown(sockets)


def _multiply(sockets: list[socket.socket]) -> list[socket.socket]:
    """Returns each listening socket several times. The event loop accepts one connection of a socket in each of its
    turns, so a client that opens a thousand would otherwise have all others wait for a thousand turns."""
    return [copy for each in sockets for copy in (each, *(each.dup() for _ in range(ACCEPTS_PER_TURN - 1)))]


def _protocol_for(settings: Settings) -> type[Protocol]:
    """Returns the protocol of one server: its connections share their counts and their bounds."""

    class BoundProtocol(Protocol):
        open_connections = Connections(settings.connections_per_address, trusted(settings.trusted_proxies))
        header_seconds = settings.header_seconds

    return BoundProtocol


class Server:
    """`started` is set once requests are answered."""

    def __init__(self, desk: Desk, *, with_worker: bool = True) -> None:
        self.desk = desk
        self.worker = desk.worker() if with_worker else None
        app = make_app(desk)
        self.health: Health = app.state.health
        config = uvicorn.Config(
            app,
            http=_protocol_for(desk.settings),
            ws="none",
            proxy_headers=False,  # whose word is taken for the caller's address is our own setting
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = _Server(config, desk, self.health.readiness)

    def run(self, sockets: list[socket.socket]) -> None:
        """On these sockets, until a signal or stop(). Whatever the worker has under way is handed back."""
        memory.settle()
        self.health.gauges.worker = self.worker
        with _signals(self._signalled):
            thread = threading.Thread(target=self.worker.run, name="worker") if self.worker else None
            if thread:
                thread.start()
            self.desk.keeper.start()
            if self.desk.may_have_views:  # an earlier run may have left some to be counted
                self.desk.keeper.arrived()
            try:
                self._server.run(_multiply(sockets))
            finally:
                self.desk.keeper.stop()
                if self.worker and thread:
                    self.worker.stop()
                    thread.join()

    def stop(self) -> None:
        self._server.should_exit = True

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """The first signal begins the end, the second hurries it, and Ctrl-C after that waits for nobody."""
        seconds = self.desk.settings.drain_seconds
        if self.health.readiness.is_draining or not seconds:
            self._server.handle_exit(number, frame)
            return
        self._server.drain()
        if self.worker:
            self.worker.leave(seconds)

    @property
    def started(self) -> bool:
        return self._server.started
