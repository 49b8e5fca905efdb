"""Builds the first analytics page: totals with their change, the chart, and the table of pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from copydesk.analytics.stores.base import ALL_DAYS, DayRange, Interval, PageQuery, Store
from copydesk.analytics.stores.report_rows import HourlyReport, ReportPage, SiteTotals, TimeseriesPoint
from copydesk.core import clock
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from copydesk.web.dashboard.readership.audience import KIND_LABELS
from copydesk.web.dashboard.readership.chart import Chart, build_chart, build_hour_chart
from copydesk.web.dashboard.readership.date_ranges import SelectedRange, choose_interval
from copydesk.web.dashboard.readership.figures import Tile, build_tiles
from copydesk.web.dashboard.readership.overview.comparison import Comparison, compare_with_previous, load_totals
from copydesk.web.dashboard.readership.overview.documentation_changes import DocumentationChange, list_changes
from copydesk.web.dashboard.readership.uncounted import list_uncounted


@dataclass(frozen=True)
class ReadershipReport:
    tiles: Sequence[Tile]
    chart: Chart
    pages: ReportPage
    comparison: Comparison
    changes: Sequence[DocumentationChange]
    """Merged pull requests and releases in the range, newest first."""
    sources: Mapping[str, int]
    """The number of people by kind of source; empty if none came."""
    run_up: int
    """The number of days in the chart before the range."""
    uncounted: int
    """The number of requests in the last days that were not counted as views."""
    is_empty: bool
    is_new: bool
    """Whether the project has no views at all."""


def build_report(
    desk: Desk, project: Project, selected: SelectedRange, page_query: PageQuery, limit: int, offset: int
) -> ReadershipReport:
    """Builds the report. Asks the store at most six questions, whatever the range."""
    store = desk.get_folded_store(project)
    now = clock.now()
    pages = store.count_visitors_by_page(project.id, selected.days, limit, offset, page_query)
    changes = list_changes(desk.database, project.id, selected.days)
    chart, views = build_range_chart(store, project.id, selected, changes, now)
    comparison = compare_with_previous(store, project.id, selected, now)
    return ReadershipReport(
        tiles=build_tiles(pages.totals, views, comparison.current, comparison.previous),
        chart=chart,
        pages=pages,
        comparison=comparison,
        changes=changes,
        sources=_count_sources(store, project.id, selected.days),
        run_up=count_run_up_days(selected, chart),
        uncounted=sum(row.requests for row in list_uncounted(desk, project)),
        is_empty=views == 0,
        is_new=views == 0 and not store.list_agents(project.id, ALL_DAYS, 1)[0],
    )


def _count_sources(store: Store, project_id: str, days: DayRange) -> dict[str, int]:
    totals = store.list_referrers(project_id, days, limit=0).totals
    counts = {label: getattr(totals, kind) for kind, label in KIND_LABELS.items()}
    return counts if any(counts.values()) else {}


def count_run_up_days(selected: SelectedRange, chart: Chart) -> int:
    """Returns the number of days in the chart before the range."""
    return len(chart.points) - 1 if selected.is_single_day and chart.interval == "day" else 0


def build_range_chart(
    store: Store, project_id: str, selected: SelectedRange, changes: Sequence[DocumentationChange], now: int
) -> tuple[Chart, int]:
    """Returns the chart, and the number of views in the range."""
    if selected.is_single_day:
        totals, report = load_hours_of_day(store, project_id, selected.days.first)
        if report is not None:
            times = [change.at for change in changes]
            return build_hour_chart(selected.days.first, report.hours, now, times), totals.views.total
    days = selected.run_up_days if selected.is_single_day else selected.days
    interval, span, series = load_series(store, project_id, days)
    views = sum(each.views.total for each in series if interval != "day" or each.day >= selected.days.first)
    change_days = [change.day for change in changes]
    return build_chart(interval, span, series, now // clock.DAY, change_days), views


def load_hours_of_day(store: Store, project_id: str, day: int) -> tuple[SiteTotals, HourlyReport | None]:
    """Returns the totals of a day, and its hours; None for the hours if raw views of the day were deleted."""
    totals = load_totals(store, project_id, DayRange(day, day + 1))
    report = store.load_hours(project_id, day * clock.DAY, (day + 1) * clock.DAY)
    return totals, report if report.views == totals.views else None


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
