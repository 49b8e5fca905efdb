"""The server process: the API and, by default, a worker. It stops cleanly on a signal."""

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

from copydesk.analytics.ip_addresses import build_trusted_networks
from copydesk.core.runtime import memory, thread_pool
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.web.app import create_app
from copydesk.web.http.connections import Connections
from copydesk.web.http.protocol import HttpProtocol, enforce_deadlines
from copydesk.web.operations.health import Health
from copydesk.web.operations.readiness import Readiness

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
TICKS_PER_SECOND = 10
ACCEPTS_PER_TURN = 8
"""How many copies of each listening socket there are. More accept faster, but each costs CPU time per connection."""


@contextmanager
def _catch_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handles SIGINT and SIGTERM. Does nothing outside of the main thread, where Python does not allow it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handlers = {each: signal.signal(each, handler) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, previous in previous_handlers.items():
            signal.signal(each, previous)


class _UvicornServer(uvicorn.Server):
    """A Uvicorn server that drains before it stops, and ends live streams, which would delay the stop."""

    def __init__(self, config: uvicorn.Config, desk: Desk, readiness: Readiness) -> None:
        super().__init__(config)
        self.desk = desk
        self.readiness = readiness
        self.exit_at = math.inf

    def drain(self) -> None:
        """Makes /readyz fail and schedules the stop. Load balancers have `drain_seconds` to send requests elsewhere."""
        self.readiness.is_draining = True
        self.exit_at = time.monotonic() + self.desk.settings.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or time.monotonic() >= self.exit_at
        if counter % TICKS_PER_SECOND == 0:
            connections = cast("set[HttpProtocol]", self.server_state.connections)
            enforce_deadlines(connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `Server.run`, which handles them longer, until the worker has released its jobs."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            thread_pool.get_thread_pools().close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.readiness.is_draining = True
        self.desk.database.notifications.stop()
        await super().shutdown(sockets)


def _duplicate_sockets(sockets: list[socket.socket]) -> list[socket.socket]:
    """Returns each listening socket several times.

    The event loop accepts one connection per socket in each iteration. Without the copies, a client that opens a
    thousand connections would make all others wait for a thousand iterations.
    """
    return [copy for each in sockets for copy in (each, *(each.dup() for _ in range(ACCEPTS_PER_TURN - 1)))]


def _create_protocol_class(settings: Settings) -> type[HttpProtocol]:
    """Returns the protocol class of one server. Its connections share their counters and limits."""

    class ConfiguredProtocol(HttpProtocol):
        open_connections = Connections(
            settings.connections_per_address, build_trusted_networks(settings.trusted_proxies)
        )
        header_seconds = settings.header_seconds

    return ConfiguredProtocol


class Server:
    """The server and its worker. `started` is true once the server accepts requests."""

    def __init__(self, desk: Desk, *, with_worker: bool = True) -> None:
        self.desk = desk
        self.worker = desk.create_worker() if with_worker else None
        app = create_app(desk)
        self.health: Health = app.state.health
        config = uvicorn.Config(
            app,
            http=_create_protocol_class(desk.settings),
            ws="none",
            proxy_headers=False,  # COPYDESK_TRUSTED_PROXIES decides which proxies are trusted
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = _UvicornServer(config, desk, self.health.readiness)

    def run(self, sockets: list[socket.socket]) -> None:
        """Serves on these sockets until a signal or `stop`. The worker then releases its running jobs."""
        memory.tune_garbage_collector()
        self.health.metrics.worker = self.worker
        with _catch_signals(self._handle_signal):
            thread = threading.Thread(target=self.worker.run, name="worker") if self.worker else None
            if thread:
                thread.start()
            self.desk.fold_scheduler.start()
            if self.desk.may_have_views:  # an earlier process may have left views that are not folded
                self.desk.fold_scheduler.notify_new_views()
            try:
                self._server.run(_duplicate_sockets(sockets))
            finally:
                self.desk.fold_scheduler.stop()
                if self.worker and thread:
                    self.worker.stop()
                    thread.join()

    def stop(self) -> None:
        self._server.should_exit = True

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Drains at the first signal and stops at the second. Another Ctrl-C stops without waiting for requests."""
        seconds = self.desk.settings.drain_seconds
        if self.health.readiness.is_draining or not seconds:
            self._server.handle_exit(number, frame)
            return
        self._server.drain()
        if self.worker:
            self.worker.drain(seconds)

    @property
    def started(self) -> bool:
        return self._server.started
