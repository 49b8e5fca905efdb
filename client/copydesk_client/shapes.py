"""Types of the API's responses, for type checkers."""

from typing import Any, Literal, NotRequired, TypedDict


class Source(TypedDict):
    repository: str
    ref: str


class Usage(TypedDict):
    requests: int
    inputTokens: int
    outputTokens: int
    costUsd: float | None


class ChangedFile(TypedDict):
    path: str
    change: Literal["added", "modified", "renamed", "deleted"]
    previous: str | None
    additions: int
    deletions: int


class Question(TypedDict):
    text: str
    choices: list[str]


class Job(TypedDict):
    """A job as the API returns it."""

    id: str
    status: Literal["active", "completed", "archived", "failed"]
    source: Source
    model: str
    prLink: str | None
    createdAt: str
    archivedAt: str | None
    prompt: str
    title: str | None
    summary: str | None
    phase: str
    reason: str | None
    message: str | None
    branch: str
    updatedAt: str
    finishedAt: str | None
    filesChanged: list[ChangedFile]
    checks: list[Any]
    risk: list["Risk"]
    """What a reviewer must look at, the gravest first."""
    usage: Usage
    question: Question | None
    """The agent's question before it continues."""
    secondLook: dict[str, Any] | None
    evidence: list[dict[str, Any]]
    createdBy: "Creator | None"
    automation: str | None
    pullRequest: "PullRequest | None"


class Risk(TypedDict):
    kind: Literal[
        "failed_check",
        "intended",
        "refuted_evidence",
        "missing_evidence",
        "objection",
        "vanished_address",
        "executed_file",
        "please_check",
        "unsure",
        "not_judged",
    ]
    text: str


class Creator(TypedDict):
    kind: Literal["key", "person", "automation", "review_comment"]
    name: str
    id: str | None


class PullRequest(TypedDict):
    number: int
    state: Literal["open", "merged", "closed"]


class AutomationRun(TypedDict):
    id: str
    jobId: str
    firedAt: str
    trigger: dict[str, Any]
    outcome: str
    message: str | None
    appended: bool


class AutomationRunPage(TypedDict):
    runs: list[AutomationRun]
    nextCursor: str | None


class Notice(TypedDict):
    code: str
    text: str
    since: str


class FileSource(TypedDict):
    file: str
    commit: str
    problem: str | None


class FileProblem(TypedDict):
    line: int | None
    message: str


class AutomationFile(TypedDict):
    file: str
    automationId: str | None
    problems: list[FileProblem]


class AutomationFiles(TypedDict):
    enabled: bool
    branch: str | None
    commit: str | None
    readAt: str | None
    problem: str | None
    files: list[AutomationFile]


class Automation(TypedDict):
    id: str
    name: str
    enabled: bool
    kind: str
    prompt: str
    trigger: dict[str, Any]
    mode: Literal["pull_request", "merge"]
    grouping: Literal["append", "new"]
    context: list[str] | None
    model: str | None
    draft: bool
    reviewers: list[str]
    dailyLimit: int
    monthlyCostUsd: float | None
    paths: list[str]
    maxLines: int
    createdAt: str
    updatedAt: str
    lastRun: AutomationRun | None
    nextRun: str | None
    notice: Notice | None
    source: FileSource | None


class KeyProject(TypedDict):
    id: str
    name: str


class Key(TypedDict):
    id: str
    name: str
    scopes: list[str]
    createdAt: str
    expiresAt: str | None
    project: KeyProject


class JobPage(TypedDict):
    jobs: list[Job]
    nextCursor: str | None


class Event(TypedDict):
    seq: int
    kind: str
    data: dict[str, Any]


class Counts(TypedDict):
    human: int
    ai: int
    total: int


class PageCounts(TypedDict):
    path: str
    human: int
    ai: int
    total: int


class Visitors(TypedDict):
    totals: Counts
    visitors: list[PageCounts]
    hasMore: bool


class Views(TypedDict):
    totals: Counts
    views: list[PageCounts]
    hasMore: bool


Agent = TypedDict("Agent", {"agent": str | None, "operator": str | None, "class": str, "visitors": int, "views": int})


class Agents(TypedDict):
    agents: list[Agent]
    hasMore: bool


class ReferrerTotals(TypedDict):
    ai: int
    search: int
    social: int
    site: int
    direct: int


class Referrer(TypedDict):
    referrer: str | None
    """The host; None for `direct`."""
    kind: Literal["ai", "search", "social", "site", "direct"]
    visitors: int
    views: int


class Referrers(TypedDict):
    totals: ReferrerTotals
    referrers: list[Referrer]
    hasMore: bool


class SectionTotals(TypedDict):
    human: int
    ai: int
    total: int
    views: int


class Section(SectionTotals):
    section: str


class Sections(TypedDict):
    totals: SectionTotals
    sections: list[Section]
    hasMore: bool


class PageComment(TypedDict):
    id: str
    createdAt: str
    helpful: bool | None
    status: str
    comment: str


class PageRatings(TypedDict):
    thumbsUp: int
    thumbsDown: int
    total: int
    comments: list[PageComment]


class LeadingSearch(TypedDict):
    searchQuery: str
    hits: int


class PageCommit(TypedDict):
    path: str
    commit: str
    at: str
    author: str
    subject: str
    url: str | None


class PageJob(TypedDict):
    id: str
    status: str
    prLink: str | None
    createdAt: str
    title: str


PageAgent = TypedDict(
    "PageAgent", {"agent": str | None, "operator": str | None, "class": str, "visitors": int | None, "views": int}
)
"""An agent that read one page. `visitors` is None if the page has too many views to count them."""


class PageReferrer(TypedDict):
    """`visitors` is None if the page has too many views to count them."""

    referrer: str | None
    """The host; None for `direct`."""
    kind: Literal["ai", "search", "social", "site", "direct"]
    visitors: int | None
    views: int


class PageDetail(TypedDict):
    path: str
    totals: SectionTotals
    timeseries: "list[Moment]"
    agents: list[PageAgent]
    referrers: list[PageReferrer]
    feedback: PageRatings
    searches: list[LeadingSearch]
    lastChanged: PageCommit | None
    jobs: list[PageJob]


class MissingReferrer(TypedDict):
    referrer: str
    requests: int


class MissingPage(TypedDict):
    path: str
    human: int
    ai: int
    total: int
    requests: int
    lastSeenAt: str
    referrers: list[MissingReferrer]


class OtherMissingPages(TypedDict):
    human: int
    ai: int
    total: int
    requests: int


class Missing(TypedDict):
    missing: list[MissingPage]
    hasMore: bool
    other: OtherMissingPages | None
    """All paths beyond the limit of missing paths, counted together."""


class StaleCommit(TypedDict):
    commit: str
    at: str
    author: str
    subject: str
    url: str | None


class StaleSource(TypedDict):
    repository: str
    """The name of the context repository; empty for the project's own."""
    path: str
    names: list[str]
    commits: list[StaleCommit]
    commitCount: int


class StalePage(TypedDict):
    path: str
    readers: int
    file: str
    lastEdit: StaleCommit
    sources: list[StaleSource]
    sourceCount: int


class StaleState(TypedDict):
    status: Literal["computing", "ready", "failed"]
    comparedAt: str | None
    requestedAt: str | None
    problem: str | None


class Stale(StaleState):
    stale: list[StalePage]
    hasMore: bool
    hasSources: bool | None
    """False if there is no code to compare with."""
    isComplete: bool | None


class HistoryDay(TypedDict):
    date: str
    source: str
    """The tool that counted: plausible or umami."""
    visitors: int
    pageviews: int


class History(TypedDict):
    history: list[HistoryDay]
    hasMore: bool


class HistoryPage(TypedDict):
    path: str
    source: str
    visitors: int
    """The sum of the daily visitors."""
    pageviews: int


class HistoryPages(TypedDict):
    pages: list[HistoryPage]
    hasMore: bool


class Moment(TypedDict):
    date: str
    human: int
    ai: int
    total: int
    views: Counts


class Timeseries(TypedDict):
    interval: Literal["hour", "day", "week", "month"]
    timeseries: list[Moment]


class Remark(TypedDict):
    """Feedback on a page, or on a code snippet, which has `code`, `filename` and `lang` instead of a rating."""

    id: str
    path: str
    comment: str | None
    createdAt: str
    source: str
    status: str
    helpful: NotRequired[bool]
    rated: NotRequired[bool]
    contact: NotRequired[str | None]
    code: NotRequired[str]
    filename: NotRequired[str | None]
    lang: NotRequired[str | None]


class Feedback(TypedDict):
    feedback: list[Remark]
    nextCursor: str | None
    hasMore: bool


class PageRemarks(TypedDict):
    path: str
    thumbsUp: int
    thumbsDown: int
    code: int
    total: int


class FeedbackByPage(TypedDict):
    feedback: list[PageRemarks]
    hasMore: bool


class DroppedEvent(TypedDict):
    index: int
    reason: str


class Taken(TypedDict):
    """How many of the sent events were accepted, and which were dropped."""

    accepted: int
    duplicates: int
    dropped: list[DroppedEvent]


class TemplateField(TypedDict):
    name: str
    label: str
    required: bool
    default: str
    choices: list[str]
    multiline: bool


class Template(TypedDict):
    """A prompt template; `builtIn` means that every project has it."""

    name: str
    title: str
    description: str
    prompt: str
    fields: list[TemplateField]
    builtIn: bool
    createdAt: str | None
    createdBy: str | None
    updatedAt: str | None


class Share(TypedDict):
    """A public link to analytics, without its secret part."""

    id: str
    name: str
    parts: list[str]
    createdAt: str
    createdBy: str
    expiresAt: str | None
    lastUsedAt: str | None
    revokedAt: str | None


class CreatedShare(Share):
    url: str


class Webhook(TypedDict):
    """An endpoint that gets the project's events, without its secret."""

    id: str
    url: str
    format: str
    events: list[str]
    enabled: bool
    state: str
    createdAt: str
    createdBy: str
    lastSuccessAt: str | None
    failingSince: str | None
    lastError: str | None
    previousSecretUntil: str | None


class CreatedWebhook(Webhook):
    secret: str


class WebhookDelivery(TypedDict):
    """An event that was sent or will be sent to a webhook."""

    id: str
    eventId: str
    event: str
    state: str
    createdAt: str
    endedAt: str | None
    nextAttemptAt: str | None
    attempts: int
    lastStatus: int | None
    error: str | None


class WebhookAttempt(TypedDict):
    number: int
    at: str
    durationMs: int
    status: int | None
    error: str | None
    response: str


class WebhookDeliveryDetails(WebhookDelivery):
    attemptLog: list[WebhookAttempt]
    data: dict[str, Any]


class WebhookDeliveryPage(TypedDict):
    deliveries: list[WebhookDelivery]
    nextCursor: str | None
