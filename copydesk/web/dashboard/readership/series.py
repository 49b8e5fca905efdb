"""Loads the points of a chart."""

from collections.abc import Sequence

from copydesk.analytics.stores.base import ALL_DAYS, DayRange, Interval, Store, TimeseriesPoint
from copydesk.core import clock
from copydesk.web.dashboard.readership.date_ranges import choose_interval


def load_series(store: Store, project_id: str, days: DayRange) -> tuple[Interval, DayRange, Sequence[TimeseriesPoint]]:
    """Returns the interval, the days and the points of a chart.

    For all time, the chart begins with the first month that has views, and its length decides the interval."""
    if days != ALL_DAYS:
        interval = choose_interval(days)
        return interval, days, store.load_timeseries(project_id, interval, days)
    months = store.load_timeseries(project_id, "month")
    first_day = months[0].day if months else clock.today()
    interval = choose_interval(DayRange(first_day, clock.today() + 1))
    series = months if interval == "month" else store.load_timeseries(project_id, interval)
    end = max(clock.today(), series[-1].day if series else 0) + 1
    return interval, DayRange(first_day, end), series
