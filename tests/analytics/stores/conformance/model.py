"""What every answer must be: views in a list, visitors in sets, counted by looking at each."""

from collections.abc import Callable, Hashable, Iterable
from datetime import date, timedelta
from typing import TypeVar

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import (
    AI,
    BITS,
    MOST_FIRST,
    AgentRow,
    Choice,
    Interval,
    Logged,
    Moment,
    Page,
    Range,
    Row,
    Split,
)
from copydesk.core.clock import DAY

K = TypeVar("K", bound=Hashable)
EPOCH = date(1970, 1, 1)


class Model:
    def __init__(self) -> None:
        self.logged: list[View] = []
        self.folded: list[View] = []
        self.events: set[tuple[str, int]] = set()
        self.ai: dict[str, frozenset[str]] = {}

    def log(self, views: Iterable[View]) -> Logged:
        accepted, duplicates = 0, []
        for position, view in enumerate(views):
            if view.event is not None:
                if (view.project, view.event) in self.events:
                    duplicates.append(position)
                    continue
                self.events.add((view.project, view.event))
            self.logged.append(view)
            accepted += 1
        return Logged(accepted, tuple(duplicates))

    def fold(self) -> int:
        count, self.folded, self.logged = len(self.logged), self.folded + self.logged, []
        return count

    def forget(self, project: str) -> None:
        self.logged = [view for view in self.logged if view.project != project]
        self.folded = [view for view in self.folded if view.project != project]
        self.events = {event for event in self.events if event[0] != project}
        self.ai.pop(project, None)

    def forget_visitor(self, project: str, visitor: int) -> None:
        def nobody(view: View) -> View:
            theirs = view.project == project and view.visitor == visitor
            return view._replace(visitor=None) if theirs else view

        self.logged, self.folded = list(map(nobody, self.logged)), list(map(nobody, self.folded))

    def visitors(self, project: str, days: Range, limit: int, offset: int, choice: Choice = MOST_FIRST) -> Page:
        return self._page(self._within(project, days), self._visitors, project, limit, offset, choice)

    def views(self, project: str, days: Range, limit: int, offset: int) -> Page:
        return self._page(self._within(project, days), self._views, project, limit, offset)

    def agents(self, project: str, days: Range, limit: int, offset: int) -> tuple[list[AgentRow], bool]:
        groups = _grouped(self._within(project, days), lambda v: (v.agent, v.operator, v.kind.value))
        rows = [
            AgentRow(agent or None, operator or None, kind, len({v.visitor for v in group} - {None}), len(group))
            for (agent, operator, kind), group in groups.items()
        ]
        rows.sort(key=lambda row: (-row.visitors, -row.views, row.agent or "", row.operator or "", BITS[row.kind]))
        return rows[offset : offset + limit], len(rows) > offset + limit

    def timeseries(self, project: str, interval: Interval, days: Range) -> list[Moment]:
        groups = _grouped(self._within(project, days), lambda v: begin_of(v.at // DAY, interval))
        made = [Moment(day, self._visitors(project, g), self._views(project, g)) for day, g in groups.items()]
        return sorted((moment for moment in made if moment.views.total), key=lambda moment: moment.day)

    def _within(self, project: str, days: Range) -> list[View]:
        return [v for v in self.folded if v.project == project and days.first <= v.at // DAY < days.end]

    def _page(
        self,
        views: list[View],
        count: Callable[[str, list[View]], Split],
        project: str,
        limit: int,
        offset: int,
        choice: Choice = MOST_FIRST,
    ) -> Page:
        rows = [Row(path, count(project, group)) for path, group in _grouped(views, lambda v: v.path).items()]
        rows = [row for row in rows if row.count.total and choice.search.lower() in row.path.lower()]
        rows.sort(key=lambda row: row.path)
        by = {row.path: row.path if choice.by == "path" else getattr(row.count, choice.by) for row in rows}
        rows.sort(key=lambda row: by[row.path], reverse=choice.descending)
        return Page(count(project, views), rows[offset : offset + limit], len(rows) > offset + limit)

    def _visitors(self, project: str, views: list[View]) -> Split:
        human = {v.visitor for v in views if v.kind == "human"} - {None}
        ai = {v.visitor for v in views if v.kind in self.ai.get(project, AI)} - {None}
        return Split(len(human), len(ai), len(human | ai))

    def _views(self, project: str, views: list[View]) -> Split:
        human = sum(v.kind == "human" for v in views)
        ai = sum(v.kind in self.ai.get(project, AI) for v in views)
        return Split(human, ai, human + ai)


def begin_of(day: int, interval: Interval) -> int:
    moment = EPOCH + timedelta(day)
    if interval == "week":
        moment -= timedelta(moment.weekday())
    elif interval == "month":
        moment = moment.replace(day=1)
    return (moment - EPOCH).days


def _grouped(views: list[View], key: Callable[[View], K]) -> dict[K, list[View]]:
    groups: dict[K, list[View]] = {}
    for view in views:
        groups.setdefault(key(view), []).append(view)
    return groups
