"""The badge of a link, and its number as JSON. Other sites embed them, so they may be cached and read from anywhere."""

from hashlib import blake2b
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import DayRange, Store
from copydesk.core import clock
from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.text.plurals import pluralize
from copydesk.web.api.schemas import ApiModel
from copydesk.web.responses.etags import etag_matches
from copydesk.web.sharing.badge_svg import render_badge
from copydesk.web.sharing.share_access import NO_REFERRER, SharedBadge, SharedRequest

Metric = Literal["visitors", "views", "ai"]
METRIC_NAMES: dict[Metric, tuple[str, str]] = {
    "visitors": ("visitor", "visitors"),
    "views": ("view", "views"),
    "ai": ("AI visitor", "AI visitors"),
}
MAX_BADGE_DAYS = 366
CACHE_SECONDS = 300
"""How long browsers and proxies may show a badge without asking again. A revoked badge disappears after this time."""
MAX_CACHED_NUMBERS = 10_000
BADGE_HEADERS = {
    **NO_REFERRER,
    "Cache-Control": f"public, max-age={CACHE_SECONDS}",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}

router = APIRouter()
MetricParam = Annotated[Metric, Query(description="What to count: visitors, views, or visitors through AI.")]
DaysParam = Annotated[
    int, Query(ge=1, le=MAX_BADGE_DAYS, description="The number of days, of which today is the last.")
]


class NumberResponse(ApiModel):
    """The number of a badge. The fields `schemaVersion`, `label` and `message` are those of shields.io endpoints."""

    metric: Metric
    value: int
    days: int
    date_from: str = Field(json_schema_extra={"format": "date"})
    """The first day."""
    date_to: str = Field(json_schema_extra={"format": "date"})
    """The day after the last."""
    schema_version: int = 1
    label: str
    message: str


class NumberCache:
    """Keeps the number of each badge for a minute. It is read only after the link was checked."""

    def __init__(self) -> None:
        self._numbers: BoundedCache[tuple[str, Metric, DayRange, int], int] = BoundedCache(MAX_CACHED_NUMBERS)

    async def count(self, shared: SharedRequest, metric: Metric, days: DayRange) -> int:
        key = shared.project.id, metric, days, clock.now() // (60 * clock.SECOND)
        number = self._numbers.get(key)
        if number is None:
            number = await run_in_thread(lambda: _count(shared.desk.get_folded_store(shared.project), *key[:3]))
            self._numbers.store(key, number)
        return number


@router.get("/share/{token}/badge.svg", include_in_schema=False)
async def badge(
    request: Request, shared: SharedBadge, metric: MetricParam = "visitors", days: DaysParam = 30
) -> Response:
    number = await _count_days(request, shared, metric, days)
    svg = render_badge(number.label, number.message, _describe(shared.project.name, number))
    return _respond(request, svg, "image/svg+xml", {})


@router.get("/share/{token}/number.json", include_in_schema=False)
async def badge_number(
    request: Request, shared: SharedBadge, metric: MetricParam = "visitors", days: DaysParam = 30
) -> Response:
    number = await _count_days(request, shared, metric, days)
    text = number.model_dump_json(by_alias=True)
    return _respond(request, text, "application/json", {"Access-Control-Allow-Origin": "*"})


async def _count_days(request: Request, shared: SharedRequest, metric: Metric, days: int) -> NumberResponse:
    today = clock.today()
    span = DayRange(today + 1 - days, today + 1)
    cache: NumberCache = request.app.state.badge_numbers
    value = await cache.count(shared, metric, span)
    return NumberResponse(
        metric=metric,
        value=value,
        days=days,
        date_from=format_day(span.first),
        date_to=format_day(span.end),
        label=f"{METRIC_NAMES[metric][1]}, {_format_days(days)}",
        message=f"{value:,}",
    )


def _count(store: Store, project_id: str, metric: Metric, days: DayRange) -> int:
    if metric == "views":
        return store.count_views_by_page(project_id, days, 1).totals.total
    totals = store.count_visitors_by_page(project_id, days, 1).totals
    return totals.ai if metric == "ai" else totals.total


def _describe(name: str, number: NumberResponse) -> str:
    singular, plural = METRIC_NAMES[number.metric]
    return f"{name}: {number.message} {singular if number.value == 1 else plural} in {_format_days(number.days)}"


def _format_days(days: int) -> str:
    return pluralize(days, "day")


def _respond(request: Request, text: str, media_type: str, headers: dict[str, str]) -> Response:
    body = text.encode()
    etag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    all_headers = {**BADGE_HEADERS, **headers, "ETag": etag}
    if etag_matches(etag, request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=all_headers)
    return Response(body, media_type=media_type, headers=all_headers)
