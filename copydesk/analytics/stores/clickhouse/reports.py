"""Reports: sums over the index and the counts of all shards. Nothing looks at a visit, and only the rules at views."""

from collections.abc import Sequence
from typing import Any

from copydesk.analytics.stores.base import BITS, AgentRow, Choice, Interval, Moment, Page, Range, Row, RuleRow, Split
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import Rows
from copydesk.analytics.stores.clickhouse.folding.batches import Batches
from copydesk.analytics.stores.clickhouse.sql_files import sql
from copydesk.core.clock import DAY

KINDS = {bit: kind for kind, bit in BITS.items()}


class Reports:
    def __init__(self, cluster: Cluster, batches: Batches) -> None:
        self._cluster, self._batches = cluster, batches

    def visitors(self, project: str, days: Range, limit: int, offset: int, choice: Choice) -> Page:
        return _page(self._ask("visitors", project, days, limit=limit, offset=offset, **vars(choice)), limit)

    def views(self, project: str, days: Range, limit: int, offset: int) -> Page:
        ai = self._batches.mask(project)
        return _page(self._ask("views", project, days, limit=limit, offset=offset, ai=ai), limit)

    def agents(self, project: str, days: Range, limit: int, offset: int) -> tuple[Sequence[AgentRow], bool]:
        found = self._ask("agents", project, days, limit=limit, offset=offset)
        rows = [
            AgentRow(agent or None, operator or None, KINDS[kind], met, seen)
            for agent, operator, kind, met, seen in found
        ]
        return rows[:limit], len(rows) > limit

    def rules(self, project: str, days: Range, limit: int) -> Sequence[RuleRow]:
        found = self._ask("rules", project, Range(days.first * DAY, days.end * DAY), limit=limit)
        return [
            RuleRow(agent or None, operator or None, KINDS[kind], rule, seen)
            for agent, operator, kind, rule, seen in found
        ]

    def timeseries(self, project: str, interval: Interval, days: Range) -> Sequence[Moment]:
        ai = self._batches.mask(project)
        found = self._ask("timeseries", project, days, interval=interval, ai=ai)
        return [
            Moment(day, Split(human, ai, total), Split(human_views, ai_views, human_views + ai_views))
            for day, human, ai, total, human_views, ai_views in found
        ]

    def _ask(self, name: str, project: str, days: Range, **given: Any) -> Rows:
        return self._cluster.reader.ask(sql(name), {"project": project, "first": days.first, "end": days.end, **given})


def _page(found: Rows, limit: int) -> Page:
    """The first row is the site's; beyond the pages asked for there may be one more, which only says that it exists."""
    if not found:
        return Page(Split(), [], False)
    (_, *totals), *rows = found
    return Page(Split(*totals), [Row(path, Split(*count)) for path, *count in rows[:limit]], len(rows) > limit)
