"""JSON schemas of one page."""

from pydantic import Field

from copydesk.analytics.interactions.feedback import FeedbackEntry, FeedbackStatus
from copydesk.analytics.page_view import VisitorClass
from copydesk.analytics.stores.report_rows import PageAgentRow, PageDetail, PageReferrerRow
from copydesk.core.clock import format_iso
from copydesk.jobs.job import Status
from copydesk.jobs.storage.lookups.page_jobs import PageJob
from copydesk.jobs.workflow.isolation.page_lookups import PageCommit
from copydesk.web.api.reports.page_detail.activity import PageActivity
from copydesk.web.api.reports.referrers import ReferrerKind
from copydesk.web.api.reports.schemas import TimeseriesPointResponse, TimeseriesResponse
from copydesk.web.api.reports.sections import SectionTotalsResponse
from copydesk.web.api.schemas import ApiModel


class PageCommentResponse(ApiModel):
    id: str
    created_at: str
    helpful: bool | None
    """Null if the reader gave no rating."""
    status: FeedbackStatus
    comment: str

    @classmethod
    def from_entry(cls, entry: FeedbackEntry) -> "PageCommentResponse":
        return cls(
            id=entry.id,
            created_at=format_iso(entry.created_at),
            helpful=entry.helpful,
            status=entry.status,
            comment=entry.comment or "",
        )


class PageRatingsResponse(ApiModel):
    thumbs_up: int
    thumbs_down: int
    total: int
    """All feedback on the page, also comments without a rating."""
    comments: list[PageCommentResponse]
    """The last five, newest first."""


class LeadingSearchResponse(ApiModel):
    search_query: str
    hits: int
    """The number of searches after which the reader opened this page."""


class LastChangedResponse(ApiModel):
    path: str
    """The page's file in the repository."""
    commit: str
    at: str
    author: str
    subject: str
    url: str | None
    """The commit on the forge; null without a forge."""

    @classmethod
    def from_commit(cls, last_commit: PageCommit) -> "LastChangedResponse":
        commit = last_commit.commit
        return cls(
            path=last_commit.path,
            commit=commit.id,
            at=format_iso(commit.at),
            author=commit.author,
            subject=commit.subject,
            url=last_commit.url,
        )


class PageJobResponse(ApiModel):
    id: str
    status: Status
    pr_link: str | None
    created_at: str
    title: str
    """The title of the change, or else the beginning of the prompt."""

    @classmethod
    def from_job(cls, job: PageJob) -> "PageJobResponse":
        return cls(
            id=job.id, status=job.status, pr_link=job.pr_link, created_at=format_iso(job.created_at), title=job.title
        )


class PageAgentResponse(ApiModel):
    agent: str | None
    operator: str | None
    """The company or project that runs the agent, if known."""
    kind: VisitorClass = Field(alias="class")
    visitors: int | None
    """Null if the page has more than a million views in the range."""
    views: int

    @classmethod
    def from_row(cls, row: PageAgentRow) -> "PageAgentResponse":
        return cls(**{**vars(row), "kind": VisitorClass(row.kind)})


class PageReferrerResponse(ApiModel):
    referrer: str | None
    """The host, or an Android app; null for `direct`. `(other)` is all hosts of the kind beyond the limit of hosts."""
    kind: ReferrerKind
    visitors: int | None
    """Null if the page has more than a million views in the range."""
    views: int

    @classmethod
    def from_row(cls, row: PageReferrerRow) -> "PageReferrerResponse":
        return cls.model_validate(vars(row))


class PageDetailResponse(ApiModel):
    path: str
    totals: SectionTotalsResponse
    """Unique visitors, and views by people and AI."""
    timeseries: list[TimeseriesPointResponse]
    """Days with at least one view, in order."""
    agents: list[PageAgentResponse]
    """Agents of every class, most visitors first, or else most views, at most 50; from raw views."""
    referrers: list[PageReferrerResponse]
    """Where people came from, most visitors first, or else most views, at most 50; from raw views."""
    feedback: PageRatingsResponse
    searches: list[LeadingSearchResponse]
    """The searches after which readers opened this page, most frequent first, at most 10."""
    last_changed: LastChangedResponse | None
    """The last commit that touched the page; null if the page's file or its history is not known."""
    jobs: list[PageJobResponse]
    """The jobs that changed the page's file or whose prompt names the page, newest first, at most 10, of all time."""

    @classmethod
    def build(cls, path: str, detail: PageDetail, activity: PageActivity) -> "PageDetailResponse":
        ratings = activity.ratings
        return cls(
            path=path,
            totals=SectionTotalsResponse.model_validate({**vars(detail.totals), "views": detail.views}),
            timeseries=TimeseriesResponse.from_points("day", detail.timeseries).timeseries,
            agents=[PageAgentResponse.from_row(row) for row in detail.agents],
            referrers=[PageReferrerResponse.from_row(row) for row in detail.referrers],
            feedback=PageRatingsResponse(
                thumbs_up=ratings.thumbs_up,
                thumbs_down=ratings.thumbs_down,
                total=ratings.total,
                comments=[PageCommentResponse.from_entry(entry) for entry in activity.comments],
            ),
            searches=[LeadingSearchResponse(search_query=each.query, hits=each.hits) for each in activity.searches],
            last_changed=LastChangedResponse.from_commit(activity.commit) if activity.commit else None,
            jobs=[PageJobResponse.from_job(job) for job in activity.jobs],
        )
