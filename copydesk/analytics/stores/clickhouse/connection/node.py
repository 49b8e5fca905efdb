"""One server, or the replicas of one shard: asked, told and fed over HTTP. Every statement may be sent twice."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar, cast

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import all_managers, get_pool_manager
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from copydesk.analytics.stores.clickhouse.connection.circuit_breaker import Trying
from copydesk.analytics.stores.clickhouse.connection.errors import explained
from copydesk.analytics.stores.clickhouse.connection.url import Address
from copydesk.core.errors import StoreDown

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
CONNECT_SECONDS, QUICK_SECONDS, SLOW_SECONDS = 3, 10, 900
"""Readers and writers wait so long for an answer; folding and upkeep longer."""
SOON_SECONDS = CONNECT_SECONDS + 1
"""What failed within this time is tried once more."""
SETTINGS = {"async_insert": 0, "mutations_sync": 1, "max_partitions_per_insert_block": 0}
ONCE = {
    "max_threads": 1,
    "max_insert_threads": 1,
    "max_insert_block_size": 100_000_000,
    "min_insert_block_size_rows": 100_000_000,
    "min_insert_block_size_bytes": 0,
    "insert_deduplicate": 1,
    "deduplicate_insert": "enable",
    "deduplicate_insert_select": "enable_even_for_bad_queries",
}
"""An insert is one block, as only a block is recognised by its token when it comes again: of several, a second attempt
may draw the borders elsewhere. A query counts as bad where its rows have no order; ours give the same rows again, and
the token alone is compared."""
MOST_BATCHES, MOST_EVENTS, MOST_PROJECTS = 1_000, 3_000, 1_000
"""Whose ids are given to a statement: ClickHouse takes 128 KiB in a parameter."""
FAULTS = (ClickHouseError, HTTPError, OSError)


class Node:
    """Safe for many threads. It connects when it is first used, and stays with a replica until that fails."""

    def __init__(
        self, replicas: Sequence[Address], settings: Mapping[str, Any] | None = None, pool: PoolManager | None = None
    ) -> None:
        self._replicas, self._turned = replicas, 0
        self._settings = {**SETTINGS, **(settings or {})}
        self._pool = pool or get_pool_manager(maxsize=16)
        self._client: Client | None = None
        self._connecting, self._turning = Trying(), threading.Lock()

    def ask(self, query: str, given: Mapping[str, Any] | None = None, seconds: int = QUICK_SECONDS) -> Rows:
        return self._attempt(seconds, lambda client: client.query(query, parameters=dict(given or {})).result_rows)

    def act(self, statement: str, given: Mapping[str, Any] | None = None, token: str = "") -> None:
        """With a token, what it inserts is inserted once."""
        # No command, whose parameters travel in the URL: programs on the way take short ones only.
        self._attempt(
            SLOW_SECONDS,
            lambda client: client.raw_query(statement, dict(given or {}), settings=_once(client, token)),
        )

    def put(self, table: str, columns: Mapping[str, Sequence[Any]], types: Sequence[str], token: str) -> None:
        """Inserts rows, given by column, once. The types are told, so that the server need not be asked for them."""
        names, data = list(columns), list(columns.values())
        self._attempt(
            QUICK_SECONDS,
            lambda client: client.insert(
                table, data, names, column_type_names=list(types), column_oriented=True, settings=_once(client, token)
            ),
        )

    def client(self, seconds: int = SLOW_SECONDS) -> Client:
        """One that waits so long for an answer."""
        try:
            return self._waiting(seconds)
        except FAULTS as error:
            raise explained(error) from error

    def pinned(self) -> "Node":
        """The replica that answers now and no other: what was found there still holds at the next statement."""
        self.ask("select 1")
        with self._turning:
            one = Node([self._replica()], self._settings, self._pool)
            one._client = self._client
        return one

    def close(self) -> None:
        self._client = None
        self._pool.clear()
        all_managers.pop(self._pool, None)

    def _attempt(self, seconds: int, act: Callable[[Client], T]) -> T:
        """Again where it failed at once: the connection may have been an old one, or another replica may answer."""
        begun, turned = time.monotonic(), self._turned
        try:
            return act(self._waiting(seconds))
        except FAULTS as error:
            told = explained(error)
            if type(told) is not StoreDown:
                raise told from error
            self._turn_away(turned)
            if time.monotonic() - begun > SOON_SECONDS:
                raise told from error
        try:
            return act(self._waiting(seconds))
        except FAULTS as error:
            raise explained(error) from error

    def _turn_away(self, turned: int) -> None:
        """The next attempt begins with the next replica, once for all who failed at this one."""
        with self._turning:
            if turned == self._turned and len(self._replicas) > 1:
                self._turned, self._client, self._connecting = turned + 1, None, Trying()

    def _replica(self) -> Address:
        return self._replicas[self._turned % len(self._replicas)]

    def _waiting(self, seconds: int) -> Client:
        """The same connection, as patient as asked: to make a client anew is to ask the server for all its settings."""
        patient: Any = copy(self._client or self._connected())
        patient._backend = copy(patient._backend)
        patient.timeout, patient.http_retries = Timeout(connect=CONNECT_SECONDS, read=seconds), 0
        return cast(Client, patient)

    def _connected(self) -> Client:
        with self._connecting.alone():
            turned, client = self._turned, self._client or self._connect(self._replica())
            with self._turning:
                if turned == self._turned:
                    self._client = client
            return client

    def _connect(self, address: Address) -> Client:
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            username=address.user,
            password=address.password,
            database=address.database,
            secure=address.secure,
            connect_timeout=CONNECT_SECONDS,
            send_receive_timeout=QUICK_SECONDS,
            autogenerate_session_id=False,
            query_retries=0,
            show_clickhouse_errors="scrub",
            client_name="copydesk",
            pool_mgr=self._pool,
            settings=self._settings,
        )


def pieces(ids: Sequence[T], most: int = MOST_BATCHES) -> Iterator[Sequence[T]]:
    """So many at a time as may be given to a statement, and none at all once."""
    for first in range(0, max(len(ids), 1), most):
        yield ids[first : first + most]


def _once(client: Client, token: str) -> dict[str, Any]:
    if not token:
        return {}
    known = {name: value for name, value in ONCE.items() if name in client.server_settings}
    return {**known, "insert_deduplication_token": token}
