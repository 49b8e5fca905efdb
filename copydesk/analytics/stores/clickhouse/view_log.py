"""Logs views: inserts rows into ClickHouse, then commits their batch in the main database. Detects duplicate events."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from copydesk.analytics.page_view import MISSING_STATUSES, PageView
from copydesk.analytics.stores.base import CLASS_BITS, LogResult, day_from_milliseconds, shorten_event_hash
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import MAX_EVENTS_PER_STATEMENT, split_into_chunks
from copydesk.analytics.stores.clickhouse.folding.batches import BatchSnapshot, ViewBatches
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.analytics.stores.names.missing_paths import MissingPathLimit
from copydesk.analytics.stores.names.referrer_hosts import ReferrerHostLimit
from copydesk.analytics.stores.names.referrer_sources import Source

INBOX_COLUMNS = {
    "batch": "UInt128", "project": "String", "path": "String", "at": "Int64", "kind": "UInt8", "agent": "String",
    "operator": "String", "rule": "String", "version": "String", "visitor": "UInt64", "host": "String",
    "referrer": "String", "event": "Nullable(UInt64)", "missing": "UInt8",
    "source": "String", "source_kind": "UInt8",
}  # fmt: skip
EventKey = tuple[str, int]
NAMES_MAX_AGE_SECONDS = 60.0
SELECT_HOSTS = "select distinct path from scopes where project = {project:String} and sort > 5"
SELECT_MISSING_PATHS = "select distinct path from scopes where project = {project:String} and sort = 3"


class ViewLog:
    def __init__(self, cluster: Cluster, batches: ViewBatches) -> None:
        self._cluster = cluster
        self._batches = batches
        self._missing_path_limit = MissingPathLimit(NAMES_MAX_AGE_SECONDS)
        self._host_limit = ReferrerHostLimit(NAMES_MAX_AGE_SECONDS)

    def write(self, views: Sequence[PageView]) -> LogResult:
        times = [view.at for view in views]
        for at in (min(times), max(times)) if times else ():
            day_from_milliseconds(at)
        if not views:
            return LogResult(0)
        event_keys = [_event_key(view) for view in views]
        known_events: set[EventKey] = set()
        while True:
            batch_id, snapshot = self._batches.begin_batch()
            known_events |= self._find_known_events(event_keys, snapshot.pending_ids)
            new_positions, duplicates = _split_duplicates(event_keys, known_events)
            if not new_positions:
                return LogResult(0, duplicates)
            new_views = self._missing_path_limit.apply(
                [views[position] for position in new_positions], self._load_missing_paths
            )
            row_counts = self._insert_rows(
                batch_id, list(zip(new_views, [event_keys[position] for position in new_positions], strict=True))
            )
            conflicts = self._commit(
                batch_id, row_counts, [event_keys[position] for position in new_positions], snapshot
            )
            if not conflicts:
                return LogResult(len(new_positions), duplicates)
            known_events |= conflicts

    def _commit(
        self,
        batch_id: int,
        row_counts: Mapping[int, int],
        event_keys: Sequence[EventKey | None],
        snapshot: BatchSnapshot,
    ) -> set[EventKey]:
        """Commits the batch and returns an empty set. If other batches have logged some of its events since the check,
        commits nothing and returns these events."""
        with self._batches.database.write() as tx:
            number = self._batches.allocate_number(tx)
            self._batches.reject_late(tx, batch_id)
            if number > snapshot.last_number + 1:
                current_snapshot = self._batches.read_snapshot(tx)
                if conflicts := self._find_known_events(
                    event_keys, current_snapshot.pending_ids - snapshot.pending_ids
                ):
                    return conflicts
            self._batches.add_batch(tx, number, batch_id, row_counts)
        return set()

    def _insert_rows(self, batch_id: int, views: Sequence[tuple[PageView, EventKey | None]]) -> dict[int, int]:
        """Inserts rows into their shards. Returns the number of rows per shard."""
        shards: dict[int, list[tuple[PageView, EventKey | None]]] = defaultdict(list)
        for view, event_key in views:
            shards[(view.visitor or 0) % len(self._cluster.shards)].append((view, event_key))
        for shard, shard_views in shards.items():
            sources = [self._host_limit.find_source(view, self._load_hosts) for view, _ in shard_views]
            self._cluster.shards[shard].insert(
                "inbox", _to_columns(batch_id, shard_views, sources), list(INBOX_COLUMNS.values()), f"{batch_id:032x}"
            )
        return {shard: len(some) for shard, some in shards.items()}

    def _load_hosts(self, project: str) -> list[str]:
        return [host for (host,) in self._cluster.reader.query(SELECT_HOSTS, {"project": project})]

    def _load_missing_paths(self, project: str) -> list[str]:
        return [path for (path,) in self._cluster.reader.query(SELECT_MISSING_PATHS, {"project": project})]

    def _find_known_events(self, event_keys: Sequence[EventKey | None], batch_ids: frozenset[int]) -> set[EventKey]:
        sent_keys = {event for event in event_keys if event is not None}
        if not sent_keys:
            return set()
        known_events = set[EventKey]()
        for key_chunk, batch_chunk in product(
            split_into_chunks(sorted(sent_keys), MAX_EVENTS_PER_STATEMENT), split_into_chunks(sorted(batch_ids))
        ):
            projects, ids = (sorted(set(column)) for column in zip(*key_chunk, strict=True))
            params = {"projects": projects, "ids": ids, "batches": batch_chunk}
            known_events.update(
                (project, number) for project, number in self._cluster.reader.query(load_sql("known"), params)
            )
        return known_events & sent_keys


def _event_key(view: PageView) -> EventKey | None:
    return None if view.event is None else (view.project, shorten_event_hash(view.event))


def _split_duplicates(
    event_keys: Sequence[EventKey | None], known_events: set[EventKey]
) -> tuple[list[int], tuple[int, ...]]:
    """Returns the positions of views to log, and of duplicates: logged before, or repeated in this call."""
    new_positions = []
    duplicates = []
    seen = set(known_events)
    for position, event_key in enumerate(event_keys):
        if event_key is not None:
            if event_key in seen:
                duplicates.append(position)
                continue
            seen.add(event_key)
        new_positions.append(position)
    return new_positions, tuple(duplicates)


def _to_columns(
    batch_id: int, rows: Sequence[tuple[PageView, EventKey | None]], sources: Sequence[Source | None]
) -> dict[str, Sequence[Any]]:
    views = [view for view, _ in rows]
    columns = zip(*views, strict=True)
    project, path, at, kind, agent, operator, rule, version, visitor, host, referrer, status, _ = columns
    return {
        "batch": [batch_id] * len(rows),
        "project": project,
        "path": path,
        "at": at,
        "kind": [CLASS_BITS[name] for name in kind],
        "agent": agent,
        "operator": operator,
        "rule": rule,
        "version": version,
        "visitor": [number or 0 for number in visitor],
        "host": host,
        "referrer": referrer,
        "event": [event_key and event_key[1] for _, event_key in rows],
        "missing": [int(number in MISSING_STATUSES) for number in status],
        "source": [source.host if source else "" for source in sources],
        "source_kind": [int(source.kind) if source else 0 for source in sources],
    }
