"""A ClickHouse server, or the replicas of a shard: queries, statements and inserts over HTTP, with retry and failover.

Every statement may be sent twice, so it must be idempotent or have a deduplication token.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar, cast

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import all_managers, get_pool_manager
from urllib3 import HTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError

from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import CircuitBreaker
from copydesk.analytics.stores.clickhouse.connection.errors import translate_error
from copydesk.analytics.stores.clickhouse.connection.url import ClickHouseAddress
from copydesk.core.errors import StoreUnavailable
from copydesk.core.runtime.batches import split_into_batches

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
CONNECT_TIMEOUT_SECONDS, SHORT_TIMEOUT_SECONDS, LONG_TIMEOUT_SECONDS = 3, 10, 900
"""Timeouts for connecting, for reading and logging, and for folding and maintenance."""
RETRY_WINDOW_SECONDS = CONNECT_TIMEOUT_SECONDS + 1
"""A call that fails within this time is retried once."""
DEFAULT_SETTINGS = {
    "async_insert": 0,
    "mutations_sync": 1,
    "max_partitions_per_insert_block": 0,
    "allow_nondeterministic_mutations": 1,
}
"""Corrections delete by subqueries, which ClickHouse calls nondeterministic: each replica runs them. Ours read tables
that are on all replicas."""
DEDUPLICATION_SETTINGS = {
    "max_threads": 1,
    "max_insert_threads": 1,
    "max_insert_block_size": 100_000_000,
    "min_insert_block_size_rows": 100_000_000,
    "min_insert_block_size_bytes": 0,
    "insert_deduplicate": 1,
    "deduplicate_insert": "enable",
    "deduplicate_insert_select": "enable_even_for_bad_queries",
}
"""With these settings, an insert is one block. ClickHouse deduplicates blocks by the token, and a retry might split
rows into other blocks. It calls queries without an order "bad"; ours return the same rows again, and only the token is
compared."""
MAX_BATCHES_PER_STATEMENT, MAX_EVENTS_PER_STATEMENT, MAX_PROJECTS_PER_STATEMENT = 1_000, 3_000, 1_000
"""How many ids a statement may have: a parameter of ClickHouse holds at most 128 KiB."""
CLIENT_ERRORS = (ClickHouseError, HTTPError, OSError)


class Node:
    """A server or a shard. Thread-safe. Connects at the first use, and uses one replica until it fails."""

    def __init__(
        self,
        replicas: Sequence[ClickHouseAddress],
        settings: Mapping[str, Any] | None = None,
        pool: PoolManager | None = None,
    ) -> None:
        self._replicas = replicas
        self._failovers = 0
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._pool = pool or get_pool_manager(maxsize=16)
        self._client: Client | None = None
        self._circuit_breaker, self._failover_lock = CircuitBreaker(), threading.Lock()

    def query(
        self, query: str, params: Mapping[str, Any] | None = None, timeout_seconds: int = SHORT_TIMEOUT_SECONDS
    ) -> Rows:
        return self._run_with_retry(
            timeout_seconds, lambda client: client.query(query, parameters=dict(params or {})).result_rows
        )

    def execute(self, statement: str, params: Mapping[str, Any] | None = None, dedup_token: str = "") -> None:
        """Runs a statement. With a token, it inserts its rows only once, even if it is sent again."""
        # Not client.command, which sends parameters in the URL: proxies limit the length of URLs.
        self._run_with_retry(
            LONG_TIMEOUT_SECONDS,
            lambda client: client.raw_query(
                statement, dict(params or {}), settings=_deduplication_settings(client, dedup_token)
            ),
        )

    def insert(
        self, table: str, columns: Mapping[str, Sequence[Any]], column_types: Sequence[str], dedup_token: str
    ) -> None:
        """Inserts rows, given by column, once. The types save a request to the server."""
        names = list(columns)
        data = list(columns.values())
        self._run_with_retry(
            SHORT_TIMEOUT_SECONDS,
            lambda client: client.insert(
                table,
                data,
                names,
                column_type_names=list(column_types),
                column_oriented=True,
                settings=_deduplication_settings(client, dedup_token),
            ),
        )

    def stream(
        self, query: str, params: Mapping[str, Any], settings: Mapping[str, Any], file_format: str
    ) -> HTTPResponse:
        """Returns the response to a query in this format; the caller reads and closes it."""
        return self._run_with_retry(
            LONG_TIMEOUT_SECONDS,
            lambda client: cast(
                HTTPResponse, client.raw_stream(query, dict(params), settings=dict(settings), fmt=file_format)
            ),
        )

    def get_client(self, timeout_seconds: int = LONG_TIMEOUT_SECONDS) -> Client:
        """Returns a client with this timeout."""
        try:
            return self._client_with_timeout(timeout_seconds)
        except CLIENT_ERRORS as error:
            raise translate_error(error) from error

    def pin_replica(self) -> "Node":
        """Returns a node with only the current replica, so that later statements see the results of earlier ones."""
        self.query("select 1")
        with self._failover_lock:
            pinned_node = Node([self._current_replica()], self._settings, self._pool)
            pinned_node._client = self._client
        return pinned_node

    def close(self) -> None:
        self._client = None
        self._pool.clear()
        all_managers.pop(self._pool, None)

    def _run_with_retry(self, timeout_seconds: int, operation: Callable[[Client], T]) -> T:
        """Runs an operation; retries it once if it failed fast: the connection may have been stale, or another replica
        may answer."""
        started_at = time.monotonic()
        failovers = self._failovers
        try:
            return operation(self._client_with_timeout(timeout_seconds))
        except CLIENT_ERRORS as error:
            store_error = translate_error(error)
            if type(store_error) is not StoreUnavailable:
                raise store_error from error
            self._fail_over(failovers)
            if time.monotonic() - started_at > RETRY_WINDOW_SECONDS:
                raise store_error from error
        try:
            return operation(self._client_with_timeout(timeout_seconds))
        except CLIENT_ERRORS as error:
            raise translate_error(error) from error

    def _fail_over(self, failovers: int) -> None:
        """Switches to the next replica. Callers that failed at the same replica switch only once."""
        with self._failover_lock:
            if failovers == self._failovers and len(self._replicas) > 1:
                self._failovers, self._client, self._circuit_breaker = failovers + 1, None, CircuitBreaker()

    def _current_replica(self) -> ClickHouseAddress:
        return self._replicas[self._failovers % len(self._replicas)]

    def _client_with_timeout(self, timeout_seconds: int) -> Client:
        """Returns a copy of the client with this timeout.

        Creating a client would request all settings from the server.
        """
        client: Any = copy(self._client or self._get_or_connect())
        client._backend = copy(client._backend)
        client.timeout = Timeout(connect=CONNECT_TIMEOUT_SECONDS, read=timeout_seconds)
        client.http_retries = 0
        return cast(Client, client)

    def _get_or_connect(self) -> Client:
        with self._circuit_breaker.guard():
            failovers = self._failovers
            client = self._client or self._connect(self._current_replica())
            with self._failover_lock:
                if failovers == self._failovers:
                    self._client = client
            return client

    def _connect(self, address: ClickHouseAddress) -> Client:
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            username=address.user,
            password=address.password,
            database=address.database,
            secure=address.secure,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            send_receive_timeout=SHORT_TIMEOUT_SECONDS,
            autogenerate_session_id=False,
            query_retries=0,
            show_clickhouse_errors="scrub",
            client_name="copydesk",
            pool_mgr=self._pool,
            settings=self._settings,
        )


def split_into_chunks(items: Sequence[T], size: int = MAX_BATCHES_PER_STATEMENT) -> Iterator[list[T]]:
    """Returns the items in chunks that fit into a statement.

    Returns one empty chunk for no items, so that the caller's loop runs once.
    """
    return split_into_batches(items, size) if items else iter([[]])


def _deduplication_settings(client: Client, dedup_token: str) -> dict[str, Any]:
    if not dedup_token:
        return {}
    supported = {name: value for name, value in DEDUPLICATION_SETTINGS.items() if name in client.server_settings}
    return {**supported, "insert_deduplication_token": dedup_token}
