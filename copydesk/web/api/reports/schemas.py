"""JSON schemas of reports of counts."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.base import Interval
from copydesk.analytics.stores.report_rows import AgentRow, Counts, HourPoint, ReportPage, TimeseriesPoint
from copydesk.core.clock import DAY, HOUR
from copydesk.web.api.schemas import ApiModel

TimeseriesInterval = Literal["hour", "day", "week", "month"]


class CountResponse(ApiModel):
    human: int
    ai: int
    total: int

    @classmethod
    def from_counts(cls, counts: Counts) -> "CountResponse":
        return cls(human=counts.human, ai=counts.ai, total=counts.total)


class PageCountResponse(ApiModel):
    path: str
    human: int
    ai: int
    total: int

    @classmethod
    def list_from_page(cls, page: ReportPage) -> list["PageCountResponse"]:
        return [cls(path=r.path, human=r.count.human, ai=r.count.ai, total=r.count.total) for r in page.rows]


class VisitorsResponse(ApiModel):
    totals: CountResponse
    """Unique visitors of the whole site over the range, on every page of results. `total` counts each visitor once."""
    visitors: list[PageCountResponse]
    """Highest first, then by path."""
    has_more: bool

    @classmethod
    def from_page(cls, page: ReportPage) -> "VisitorsResponse":
        return cls(
            totals=CountResponse.from_counts(page.totals),
            visitors=PageCountResponse.list_from_page(page),
            has_more=page.has_more,
        )


class ViewsResponse(ApiModel):
    totals: CountResponse
    """Views of the whole site over the range, on every page of results. `total` is the sum."""
    views: list[PageCountResponse]
    """Highest first, then by path."""
    has_more: bool

    @classmethod
    def from_page(cls, page: ReportPage) -> "ViewsResponse":
        return cls(
            totals=CountResponse.from_counts(page.totals),
            views=PageCountResponse.list_from_page(page),
            has_more=page.has_more,
        )


class AgentResponse(ApiModel):
    agent: str | None
    operator: str | None
    """The company or project that runs the agent, if known."""
    kind: VisitorClass = Field(alias="class")
    visitors: int
    views: int


class AgentsResponse(ApiModel):
    agents: list[AgentResponse]
    """Agents of every class, including those that count as neither human nor AI."""
    has_more: bool

    @classmethod
    def from_rows(cls, rows: Sequence[AgentRow], has_more: bool) -> "AgentsResponse":
        agents = [
            AgentResponse(
                agent=row.agent or None,
                operator=row.operator or None,
                kind=VisitorClass(row.kind),
                visitors=row.visitors,
                views=row.views,
            )
            for row in rows
        ]
        return cls(agents=agents, has_more=has_more)


class TimeseriesPointResponse(ApiModel):
    date: str
    """The first day of the interval, which can be before `dateFrom`; of an hour, its beginning as a date-time."""
    human: int
    ai: int
    total: int
    """Unique visitors in the part of the interval that is within the range."""
    views: CountResponse


class TimeseriesResponse(ApiModel):
    interval: TimeseriesInterval
    timeseries: list[TimeseriesPointResponse]
    """Oldest first, without intervals that have no views."""

    @classmethod
    def from_points(cls, interval: Interval, points: Sequence[TimeseriesPoint]) -> "TimeseriesResponse":
        rows = [_build_point(format_day(point.day), point.visitors, point.views) for point in points]
        return cls(interval=interval, timeseries=rows)

    @classmethod
    def from_hours(cls, points: Sequence[HourPoint]) -> "TimeseriesResponse":
        rows = [_build_point(format_hour(point.hour), point.visitors, point.views) for point in points]
        return cls(interval="hour", timeseries=rows)


def _build_point(moment: str, visitors: Counts, views: Counts) -> TimeseriesPointResponse:
    return TimeseriesPointResponse(
        date=moment,
        human=visitors.human,
        ai=visitors.ai,
        total=visitors.total,
        views=CountResponse.from_counts(views),
    )


def format_hour(hour: int) -> str:
    """Formats an hour, given as the number of hours since 1970."""
    day, hour_of_day = divmod(hour, DAY // HOUR)
    return f"{format_day(day)}T{hour_of_day:02}:00:00Z"
