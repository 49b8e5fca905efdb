"""Builds the hourly report, in the same way for every store."""

from collections.abc import Iterable, Sequence
from typing import Any

from copydesk.analytics.stores.base import Counts, HourlyReport, HourPoint


def build_hourly_report(results: Iterable[Sequence[Any]]) -> HourlyReport:
    """Builds the report from rows of the hour, human, AI and total visitors, and human and AI views.

    The row of the hour -1 has the totals. Omits hours in which neither people nor AI came.
    """
    visitors = views = Counts()
    hours = []
    for hour, human, ai, total, human_views, ai_views in results:
        point = HourPoint(hour, Counts(human, ai, total), Counts(human_views, ai_views, human_views + ai_views))
        if hour < 0:
            visitors, views = point.visitors, point.views
        elif point.views.total:
            hours.append(point)
    return HourlyReport(visitors, views, hours)
