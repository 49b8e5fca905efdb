"""What every answer must be: views in a list, visitors in sets, counted by looking at each."""

from collections.abc import Callable, Hashable, Iterable
from datetime import date, timedelta
from typing import TypeVar

from copydesk.analytics.store import AI, AgentRow, Entry, Interval, Logged, Moment, Page, Range, Row, Split
from copydesk.core.clock import DAY

K = TypeVar("K", bound=Hashable)
EPOCH = date(1970, 1, 1)


class Model:
    def __init__(self) -> None:
        self.logged: list[Entry] = []
        self.folded: list[Entry] = []
        self.events: set[tuple[str, int]] = set()
        self.ai: dict[str, frozenset[str]] = {}

    def log(self, entries: Iterable[Entry]) -> Logged:
        accepted = duplicates = 0
        for entry in entries:
            if entry.event is not None:
                if (entry.project_id, entry.event) in self.events:
                    duplicates += 1
                    continue
                self.events.add((entry.project_id, entry.event))
            self.logged.append(entry)
            accepted += 1
        return Logged(accepted, duplicates)

    def fold(self) -> int:
        count, self.folded, self.logged = len(self.logged), self.folded + self.logged, []
        return count

    def forget(self, project: str) -> None:
        self.logged = [entry for entry in self.logged if entry.project_id != project]
        self.folded = [entry for entry in self.folded if entry.project_id != project]
        self.events = {event for event in self.events if event[0] != project}
        self.ai.pop(project, None)

    def forget_visitor(self, project: str, visitor: int) -> None:
        def nobody(entry: Entry) -> Entry:
            theirs = entry.project_id == project and entry.visitor == visitor
            return entry._replace(visitor=None) if theirs else entry

        self.logged, self.folded = list(map(nobody, self.logged)), list(map(nobody, self.folded))

    def visitors(self, project: str, days: Range, limit: int, offset: int) -> Page:
        return self._page(self._within(project, days), self._visitors, project, limit, offset)

    def views(self, project: str, days: Range, limit: int, offset: int) -> Page:
        return self._page(self._within(project, days), self._views, project, limit, offset)

    def agents(self, project: str, days: Range, limit: int, offset: int) -> tuple[list[AgentRow], bool]:
        groups = _grouped(self._within(project, days), lambda e: (e.agent, e.operator, e.kind))
        rows = [
            AgentRow(agent, operator, kind, len({e.visitor for e in group} - {None}), len(group))
            for (agent, operator, kind), group in groups.items()
        ]
        rows.sort(key=lambda row: (-row.visitors, -row.views, row.agent or "", row.operator or "", row.kind))
        return rows[offset : offset + limit], len(rows) > offset + limit

    def timeseries(self, project: str, interval: Interval, days: Range) -> list[Moment]:
        groups = _grouped(self._within(project, days), lambda e: begin_of(e.at // DAY, interval))
        made = [Moment(day, self._visitors(project, g), self._views(project, g)) for day, g in groups.items()]
        return sorted((moment for moment in made if moment.views.total), key=lambda moment: moment.day)

    def _within(self, project: str, days: Range) -> list[Entry]:
        return [e for e in self.folded if e.project_id == project and days.first <= e.at // DAY < days.end]

    def _page(
        self,
        entries: list[Entry],
        count: Callable[[str, list[Entry]], Split],
        project: str,
        limit: int,
        offset: int,
    ) -> Page:
        rows = [Row(path, count(project, group)) for path, group in _grouped(entries, lambda e: e.path).items()]
        rows = sorted((row for row in rows if row.count.total), key=lambda row: (-row.count.total, row.path))
        return Page(count(project, entries), rows[offset : offset + limit], len(rows) > offset + limit)

    def _visitors(self, project: str, entries: list[Entry]) -> Split:
        human = {e.visitor for e in entries if e.kind == "human"} - {None}
        ai = {e.visitor for e in entries if e.kind in self.ai.get(project, AI)} - {None}
        return Split(len(human), len(ai), len(human | ai))

    def _views(self, project: str, entries: list[Entry]) -> Split:
        human = sum(e.kind == "human" for e in entries)
        ai = sum(e.kind in self.ai.get(project, AI) for e in entries)
        return Split(human, ai, human + ai)


def begin_of(day: int, interval: Interval) -> int:
    moment = EPOCH + timedelta(day)
    if interval == "week":
        moment -= timedelta(moment.weekday())
    elif interval == "month":
        moment = moment.replace(day=1)
    return (moment - EPOCH).days


def _grouped(entries: list[Entry], key: Callable[[Entry], K]) -> dict[K, list[Entry]]:
    groups: dict[K, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups
