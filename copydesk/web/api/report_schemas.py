"""How numbers and feedback look in JSON."""

from collections.abc import Sequence

from pydantic import Field

from copydesk.analytics.date_ranges import date_of
from copydesk.analytics.feedback import PageRemarks, Remark
from copydesk.analytics.page_view import Class
from copydesk.analytics.stores.base import AgentRow, Interval, Moment, Page, Split
from copydesk.core.clock import iso
from copydesk.web.api.schemas import View


class CountView(View):
    human: int
    ai: int
    total: int

    @classmethod
    def of(cls, split: Split) -> "CountView":
        return cls(human=split.human, ai=split.ai, total=split.total)


class PageCountView(View):
    path: str
    human: int
    ai: int
    total: int

    @classmethod
    def all(cls, page: Page) -> list["PageCountView"]:
        return [cls(path=r.path, human=r.count.human, ai=r.count.ai, total=r.count.total) for r in page.rows]


class VisitorsView(View):
    totals: CountView
    """Unique visitors of the whole site over the range, whatever the page of results; `total` is the union."""
    visitors: list[PageCountView]
    """Most first, then by path."""
    has_more: bool

    @classmethod
    def of(cls, page: Page) -> "VisitorsView":
        return cls(totals=CountView.of(page.totals), visitors=PageCountView.all(page), has_more=page.has_more)


class ViewsView(View):
    totals: CountView
    """Views of the whole site over the range, whatever the page of results; `total` is the sum."""
    views: list[PageCountView]
    """Most first, then by path."""
    has_more: bool

    @classmethod
    def of(cls, page: Page) -> "ViewsView":
        return cls(totals=CountView.of(page.totals), views=PageCountView.all(page), has_more=page.has_more)


class AgentView(View):
    agent: str | None
    operator: str | None
    """Who runs it, where that is known."""
    kind: Class = Field(alias="class")
    visitors: int
    views: int


class AgentsView(View):
    agents: list[AgentView]
    """Every agent of every class, those that count as neither human nor AI too."""
    has_more: bool

    @classmethod
    def of(cls, rows: Sequence[AgentRow], has_more: bool) -> "AgentsView":
        agents = [
            AgentView(
                agent=row.agent or None,
                operator=row.operator or None,
                kind=Class(row.kind),
                visitors=row.visitors,
                views=row.views,
            )
            for row in rows
        ]
        return cls(agents=agents, has_more=has_more)


class MomentView(View):
    date: str = Field(json_schema_extra={"format": "date"})
    """The first day of the interval, which may lie before `dateFrom`."""
    human: int
    ai: int
    total: int
    """Unique visitors of the interval, as far as it lies in the range."""
    views: CountView


class TimeseriesView(View):
    interval: Interval
    timeseries: list[MomentView]
    """Oldest first; intervals in which there was nothing are left out."""

    @classmethod
    def of(cls, interval: Interval, moments: Sequence[Moment]) -> "TimeseriesView":
        rows = [
            MomentView(
                date=date_of(moment.day),
                human=moment.visitors.human,
                ai=moment.visitors.ai,
                total=moment.visitors.total,
                views=CountView.of(moment.views),
            )
            for moment in moments
        ]
        return cls(interval=interval, timeseries=rows)


class RemarkView(View):
    id: str
    path: str
    helpful: bool | None
    """Null where the reader left a comment alone."""
    comment: str | None
    created_at: str

    @classmethod
    def of(cls, remark: Remark) -> "RemarkView":
        return cls(**{**vars(remark), "created_at": iso(remark.created_at)})


class FeedbackView(View):
    feedback: list[RemarkView]
    """Newest first."""
    next_cursor: str | None
    has_more: bool


class PageRemarksView(View):
    path: str
    helpful: int
    unhelpful: int
    comments: int
    total: int

    @classmethod
    def of(cls, page: PageRemarks) -> "PageRemarksView":
        return cls(**vars(page))


class FeedbackByPageView(View):
    pages: list[PageRemarksView]
    """Most first, then by path."""
    has_more: bool
