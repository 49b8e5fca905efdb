"""One server, or the replicas of one shard: asked, told and fed over HTTP. Every statement may be sent twice."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, cast

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import get_pool_manager
from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from copydesk.analytics.clickhouse.address import Address
from copydesk.analytics.clickhouse.errors import explained
from copydesk.core.errors import StoreDown

Rows = Sequence[Sequence[Any]]
CONNECT_SECONDS, QUICK_SECONDS, SLOW_SECONDS = 3, 10, 900
"""Readers and writers wait so long for an answer; folding and upkeep longer."""
SETTINGS = {"async_insert": 0, "mutations_sync": 1, "max_partitions_per_insert_block": 0}
ONCE = {
    "max_threads": 1,
    "max_insert_threads": 1,
    "max_insert_block_size": 100_000_000,
    "min_insert_block_size_rows": 100_000_000,
    "min_insert_block_size_bytes": 0,
    "deduplicate_insert_select": "force_enable",
}
"""An insert is one block, as only a block is recognised by its token when it comes again: of several, a second attempt
may draw the borders elsewhere."""
MOST_BATCHES, MOST_EVENTS = 1_000, 5_000
"""Whose ids are given to a statement: ClickHouse takes 128 KiB in a parameter, and programs on the way less."""
FAULTS = (ClickHouseError, HTTPError, OSError)


class Node:
    """Safe for many threads. It connects when it is first used, and stays with a replica until that fails."""

    def __init__(self, replicas: Sequence[Address], settings: Mapping[str, Any] | None = None) -> None:
        self._replicas = list(replicas)
        self._settings = {**SETTINGS, **(settings or {})}
        self._client: Client | None = None
        self._waiting: dict[int, Client] = {}
        self._connecting = threading.Lock()

    def ask(self, query: str, given: Mapping[str, Any] | None = None, seconds: int = QUICK_SECONDS) -> Rows:
        rows: Rows = self._attempt(
            seconds, lambda client: client.query(query, parameters=dict(given or {})).result_rows
        )
        return rows

    def act(self, statement: str, given: Mapping[str, Any] | None = None, token: str = "") -> None:
        """With a token, what it inserts is inserted once."""
        self._attempt(
            SLOW_SECONDS,
            lambda client: client.command(statement, dict(given or {}), settings=_once(client, token)),
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
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            if seconds not in self._waiting:
                self._waiting[seconds] = _waiting(self._client, seconds)
            return self._waiting[seconds]

    def close(self) -> None:
        with self._connecting:
            client, self._client, self._waiting = self._client, None, {}
        if client is not None:
            client.close()

    def _attempt(self, seconds: int, act: Any) -> Any:
        """Again where it failed at once: the connection may have been an old one, or another replica may answer."""
        begun = time.monotonic()
        try:
            return act(self.client(seconds))
        except FAULTS as error:
            if type(explained(error)) is not StoreDown or time.monotonic() - begun > CONNECT_SECONDS + 1:
                raise explained(error) from error
        except StoreDown as error:
            if type(error) is not StoreDown:
                raise
        self._turn_away()
        try:
            return act(self.client(seconds))
        except FAULTS as error:
            raise explained(error) from error

    def _turn_away(self) -> None:
        """The next attempt begins with the next replica."""
        if len(self._replicas) > 1:
            with self._connecting:
                self._replicas.append(self._replicas.pop(0))
                self._client, self._waiting = None, {}

    def _connect(self) -> Client:
        address = self._replicas[0]
        try:
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
                pool_mgr=get_pool_manager(maxsize=16, retries=False),
                settings=self._settings,
            )
        except FAULTS as error:
            raise explained(error) from error


def pieces(ids: Sequence[int], most: int = MOST_BATCHES) -> Iterator[Sequence[int]]:
    """So many at a time as may be given to a statement, and none at all once."""
    for first in range(0, max(len(ids), 1), most):
        yield ids[first : first + most]


def _waiting(client: Client, seconds: int) -> Client:
    """The same connection, more patient: to make a client anew is to ask the server for all its settings."""
    patient: Any = copy(client)
    patient._backend = copy(patient._backend)
    patient.timeout = Timeout(connect=CONNECT_SECONDS, read=seconds)
    return cast(Client, patient)


def _once(client: Client, token: str) -> dict[str, Any]:
    if not token:
        return {}
    known = {name: value for name, value in ONCE.items() if name in client.server_settings}
    return {**known, "insert_deduplication_token": token}
