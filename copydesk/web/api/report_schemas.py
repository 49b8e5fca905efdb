"""How numbers and feedback look in JSON."""

from collections.abc import Sequence

from pydantic import Field

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.feedback import FeedbackEntry, PageFeedback
from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.base import AgentRow, Counts, Interval, ReportPage, TimeseriesPoint
from copydesk.core.clock import format_iso
from copydesk.web.api.schemas import ApiModel


class CountResponse(ApiModel):
    human: int
    ai: int
    total: int

    @classmethod
    def from_split(cls, split: Counts) -> "CountResponse":
        return cls(human=split.human, ai=split.ai, total=split.total)


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
    """Unique visitors of the whole site over the range, whatever the page of results; `total` is the union."""
    visitors: list[PageCountResponse]
    """Most first, then by path."""
    has_more: bool

    @classmethod
    def from_page(cls, page: ReportPage) -> "VisitorsResponse":
        return cls(
            totals=CountResponse.from_split(page.totals),
            visitors=PageCountResponse.list_from_page(page),
            has_more=page.has_more,
        )


class ViewsResponse(ApiModel):
    totals: CountResponse
    """Views of the whole site over the range, whatever the page of results; `total` is the sum."""
    views: list[PageCountResponse]
    """Most first, then by path."""
    has_more: bool

    @classmethod
    def from_page(cls, page: ReportPage) -> "ViewsResponse":
        return cls(
            totals=CountResponse.from_split(page.totals),
            views=PageCountResponse.list_from_page(page),
            has_more=page.has_more,
        )


class AgentResponse(ApiModel):
    agent: str | None
    operator: str | None
    """Who runs it, where that is known."""
    kind: VisitorClass = Field(alias="class")
    visitors: int
    views: int


class AgentsResponse(ApiModel):
    agents: list[AgentResponse]
    """Every agent of every class, those that count as neither human nor AI too."""
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
    date: str = Field(json_schema_extra={"format": "date"})
    """The first day of the interval, which may lie before `dateFrom`."""
    human: int
    ai: int
    total: int
    """Unique visitors of the interval, as far as it lies in the range."""
    views: CountResponse


class TimeseriesResponse(ApiModel):
    interval: Interval
    timeseries: list[TimeseriesPointResponse]
    """Oldest first; intervals in which there was nothing are left out."""

    @classmethod
    def from_points(cls, interval: Interval, points: Sequence[TimeseriesPoint]) -> "TimeseriesResponse":
        rows = [
            TimeseriesPointResponse(
                date=format_day(point.day),
                human=point.visitors.human,
                ai=point.visitors.ai,
                total=point.visitors.total,
                views=CountResponse.from_split(point.views),
            )
            for point in points
        ]
        return cls(interval=interval, timeseries=rows)


class FeedbackEntryResponse(ApiModel):
    id: str
    path: str
    helpful: bool | None
    """Null where the reader left a comment alone."""
    comment: str | None
    created_at: str

    @classmethod
    def from_remark(cls, remark: FeedbackEntry) -> "FeedbackEntryResponse":
        return cls(**{**vars(remark), "created_at": format_iso(remark.created_at)})


class FeedbackResponse(ApiModel):
    feedback: list[FeedbackEntryResponse]
    """Newest first."""
    next_cursor: str | None
    has_more: bool


class PageFeedbackResponse(ApiModel):
    path: str
    helpful: int
    unhelpful: int
    comments: int
    total: int

    @classmethod
    def from_page_remarks(cls, page: PageFeedback) -> "PageFeedbackResponse":
        return cls(**vars(page))


class FeedbackByPageResponse(ApiModel):
    pages: list[PageFeedbackResponse]
    """Most first, then by path."""
    has_more: bool
