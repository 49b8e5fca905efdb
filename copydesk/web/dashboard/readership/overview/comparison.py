"""Compares a range with the period before it. A day that is not over is compared with the same part of a day."""

from dataclasses import dataclass
from datetime import UTC, datetime

from copydesk.analytics.stores.base import DayRange, Store
from copydesk.analytics.stores.report_rows import Counts, SiteTotals
from copydesk.core import clock
from copydesk.web.dashboard.readership.date_ranges import SelectedRange, format_range
from copydesk.web.dashboard.readership.figures import PeriodTotals


@dataclass(frozen=True)
class Comparison:
    text: str
    """What is compared, as a sentence."""
    previous: PeriodTotals | None = None
    """None if there is nothing to compare with."""
    current: PeriodTotals | None = None
    """The compared part of the range; None means all of it."""


def compare_with_previous(store: Store, project_id: str, selected: SelectedRange, now: int) -> Comparison:
    """Compares the range with the period of the same length before it, without what is not over yet.

    Today is compared with yesterday until the same time. Of a longer range that includes today, the complete days are
    compared with those of the previous period."""
    days, today = selected.days, now // clock.DAY
    previous = selected.previous
    if previous is None:
        return Comparison("There is no earlier period to compare with.")
    if days.first >= today:
        return _compare_with_part_of_day(store, project_id, days, now)
    if days.end <= today:
        text = f"Compared with the previous period of the same length, {format_range(previous)}."
        return Comparison(text, _load_period(store, project_id, previous))
    complete = DayRange(days.first, today)
    previous = DayRange(previous.first, today - (days.end - days.first))
    text = (
        f"Today is incomplete, so the change leaves it out: {format_range(complete)} is compared with "
        f"{format_range(previous)}."
    )
    return Comparison(
        text, _load_period(store, project_id, previous), current=_load_period(store, project_id, complete)
    )


def _compare_with_part_of_day(store: Store, project_id: str, days: DayRange, now: int) -> Comparison:
    today = now // clock.DAY
    if days != DayRange(today, today + 1):
        return Comparison("These days are in the future, so there is nothing to compare.")
    # Raw views are kept for at least a day, so those of yesterday exist.
    until = now - clock.DAY
    report = store.load_hours(project_id, (today - 1) * clock.DAY, until + 1)
    moment = datetime.fromtimestamp(until / clock.SECOND, UTC)
    text = f"Today is incomplete. It is compared with yesterday until the same time, {moment:%H:%M} UTC."
    return Comparison(text, PeriodTotals(report.visitors, report.views.total))


def _load_period(store: Store, project_id: str, days: DayRange) -> PeriodTotals:
    totals = load_totals(store, project_id, days)
    return PeriodTotals(totals.visitors, totals.views.total)


def load_totals(store: Store, project_id: str, days: DayRange) -> SiteTotals:
    totals = store.count_site_totals([project_id], days)
    return totals[0] if totals else SiteTotals(project_id, Counts(), Counts(), 0)
