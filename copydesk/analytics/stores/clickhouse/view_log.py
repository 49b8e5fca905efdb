"""Logging: rows into ClickHouse, then the batch into the main database, which makes it exist. No event twice."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import BITS, Logged, day_of, event_number
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import MOST_EVENTS, pieces
from copydesk.analytics.stores.clickhouse.folding.batches import Batches, Known
from copydesk.analytics.stores.clickhouse.sql_files import sql

COLUMNS = {
    "batch": "UInt128", "project": "String", "path": "String", "at": "Int64", "kind": "UInt8", "agent": "String",
    "operator": "String", "rule": "String", "version": "String", "visitor": "UInt64", "host": "String",
    "referrer": "String", "event": "Nullable(UInt64)",
}  # fmt: skip
Event = tuple[str, int]


class Log:
    def __init__(self, cluster: Cluster, batches: Batches) -> None:
        self._cluster, self._batches = cluster, batches

    def write(self, views: Sequence[View]) -> Logged:
        times = [view.at for view in views]
        for at in (min(times), max(times)) if times else ():
            day_of(at)
        if not views:
            return Logged(0)
        events = [_event(view) for view in views]
        taken: set[Event] = set()
        while True:
            batch, known = self._batches.begin()
            taken |= self._taken(events, known.batches)
            wanted, duplicates = _new(events, taken)
            if not wanted:
                return Logged(0, duplicates)
            rows = self._put(batch, [(views[position], events[position]) for position in wanted])
            overtaken = self._commit(batch, rows, [events[position] for position in wanted], known)
            if not overtaken:
                return Logged(len(wanted), duplicates)
            taken |= overtaken

    def _commit(self, batch: int, rows: Mapping[int, int], events: Sequence[Event | None], known: Known) -> set[Event]:
        """Makes the batch exist, unless some of its events came to exist since they were looked for: those."""
        with self._batches.database.write() as tx:
            number = self._batches.number(tx)
            self._batches.refuse_late(tx, batch)
            if number > known.last + 1:
                now = self._batches.known(tx)
                if overtaken := self._taken(events, now.batches - known.batches):
                    return overtaken
            self._batches.add(tx, number, batch, rows)
        return set()

    def _put(self, batch: int, views: Sequence[tuple[View, Event | None]]) -> dict[int, int]:
        """How many rows went to each shard."""
        shards: dict[int, list[tuple[View, Event | None]]] = defaultdict(list)
        for view, event in views:
            shards[(view.visitor or 0) % len(self._cluster.shards)].append((view, event))
        for shard, some in shards.items():
            self._cluster.shards[shard].put("inbox", _columns(batch, some), list(COLUMNS.values()), f"{batch:032x}")
        return {shard: len(some) for shard, some in shards.items()}

    def _taken(self, events: Sequence[Event | None], batches: frozenset[int]) -> set[Event]:
        sent = {event for event in events if event is not None}
        if not sent:
            return set()
        found = set[Event]()
        for wanted, some in product(pieces(sorted(sent), MOST_EVENTS), pieces(sorted(batches))):
            projects, ids = (sorted(set(column)) for column in zip(*wanted, strict=True))
            asked = {"projects": projects, "ids": ids, "batches": some}
            found.update((project, number) for project, number in self._cluster.reader.ask(sql("known"), asked))
        return found & sent


def _event(view: View) -> Event | None:
    return None if view.event is None else (view.project, event_number(view.event))


def _new(events: Sequence[Event | None], taken: set[Event]) -> tuple[list[int], tuple[int, ...]]:
    """The positions of those to log, and of those that were logged before or come twice."""
    wanted, duplicates, met = [], [], set(taken)
    for position, event in enumerate(events):
        if event is not None:
            if event in met:
                duplicates.append(position)
                continue
            met.add(event)
        wanted.append(position)
    return wanted, tuple(duplicates)


def _columns(batch: int, rows: Sequence[tuple[View, Event | None]]) -> dict[str, Sequence[Any]]:
    views = [view for view, _ in rows]
    columns = zip(*views, strict=True)
    project, path, at, kind, agent, operator, rule, version, visitor, host, referrer, _, _ = columns
    return {
        "batch": [batch] * len(rows),
        "project": project,
        "path": path,
        "at": at,
        "kind": [BITS[name] for name in kind],
        "agent": agent,
        "operator": operator,
        "rule": rule,
        "version": version,
        "visitor": [number or 0 for number in visitor],
        "host": host,
        "referrer": referrer,
        "event": [event and event[1] for _, event in rows],
    }
