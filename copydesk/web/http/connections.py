"""Counts open connections, in total and per address, so that one client cannot use up all of them."""

import logging
import resource
import time

from copydesk.analytics.ip_addresses import NetworkTable, parse_ip, to_client_network
from copydesk.core.errors import RequestError

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 10_000
LOG_INTERVAL_SECONDS = 60.0
RESERVED_FILES = 256
"""File descriptors reserved for the databases, the worker and the log."""


class TooManyConnections(RequestError):
    status, code = 429, "too_many_connections"
    message = "Too many connections are open from this address. Close some or reuse them."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class ServerFull(RequestError):
    status, code = 503, "server_full"
    message = "The server has reached its limit of open connections. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class Connections:
    """Admits connections up to a limit per address and a total limit.

    A trusted proxy forwards the connections of many clients, so only the total limit applies to it.
    """

    def __init__(self, per_address: int, proxies: NetworkTable[bool], total: int | None = None) -> None:
        """`per_address` 0 means no limit per address, but one address never gets more than half of the total."""
        self.total = total or max_connections()
        self.per_address = min(per_address or self.total, max(1, self.total // 2))
        self._proxies = proxies
        self.lingering = 0
        """The number of refused connections that are not closed yet."""
        self._next_log_at = 0.0
        self._open = 0
        self._open_by_address: dict[bytes, int] = {}

    def admit(self, peer: str | None) -> RequestError | None:
        """Counts a connection. Returns the error if it exceeds a limit, else None. Call `release` in both cases."""
        self._open += 1
        address = self._counted_address(peer)
        if address is not None:
            count = self._open_by_address[address] = self._open_by_address.get(address, 0) + 1
            if count > self.per_address:
                return TooManyConnections()
        return ServerFull() if self._open > self.total else None

    def release(self, peer: str | None) -> None:
        self._open -= 1
        address = self._counted_address(peer)
        if address is None:
            return
        count = self._open_by_address.pop(address) - 1
        if count:
            self._open_by_address[address] = count

    def log_refusal(self, refusal: RequestError) -> None:
        """Logs at most one line per minute, so that a flood of connections does not flood the log."""
        if time.monotonic() >= self._next_log_at:
            self._next_log_at = time.monotonic() + LOG_INTERVAL_SECONDS
            log.warning("refusing connections: %s", refusal.code)

    def _counted_address(self, peer: str | None) -> bytes | None:
        """Returns the network that a connection is counted by, or None for a trusted proxy and for a local socket."""
        address = parse_ip(peer) if peer else None
        if address is None or self._proxies.get(address):
            return None
        return to_client_network(address)


def max_connections() -> int:
    """Returns the total limit: the process's limit of open files minus RESERVED_FILES, at most MAX_CONNECTIONS."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(RESERVED_FILES // 4, min(MAX_CONNECTIONS, files - RESERVED_FILES))
