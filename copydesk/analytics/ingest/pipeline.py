"""The pipeline from a raw view to a stored page view. Each stage passes the view on or returns why it is dropped."""

from collections.abc import Callable
from functools import lru_cache

from copydesk.analytics.classification.classifier import normalize_markdown_accept
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig
from copydesk.analytics.page_paths import (
    MAX_CACHED_CHARS,
    NOT_A_PAGE,
    PageFormat,
    PageLocation,
    host_from_url,
    normalize_url,
)
from copydesk.analytics.page_view import MISSING_STATUSES, Classification, Dropped, DropReason, PageView
from copydesk.analytics.scanner_paths import is_scanner_path
from copydesk.core.clock import DAY

PAGE_MEDIA_TYPES = ("text/html", "application/xhtml", "text/markdown", "text/x-markdown", "text/plain", "text/*", "*/*")
NOT_GET, NOT_SUCCESSFUL = Dropped(DropReason.NOT_GET), Dropped(DropReason.NOT_SUCCESSFUL)
PREFETCH, SCAN = Dropped(DropReason.PREFETCH), Dropped(DropReason.SCAN)


def check_request(method: str, status: int, purpose: str | None, accept: str | None) -> Dropped | None:
    """Returns why a request is neither a page view nor a request for a missing page, judging by everything but its URL;
    None means that it may be one."""
    if method not in ("GET", "get"):
        return NOT_GET
    if not (200 <= status < 300 or status == 304 or status in MISSING_STATUSES):
        return NOT_SUCCESSFUL
    if purpose and "pre" in purpose.lower():  # prefetch, prerender, preview
        return PREFETCH
    if accept and not includes_page_type(accept):
        return NOT_A_PAGE
    return None


def drop_non_pages(raw: RawView) -> RawView | Dropped:
    return check_request(raw.method, raw.status, raw.purpose, raw.accept) or raw


def locate_page(url: str, status: int, site: SiteConfig) -> PageLocation | Dropped:
    location = normalize_url(url, site.base_path, site.kept_params)
    if status in MISSING_STATUSES and isinstance(location, PageLocation) and is_scanner_path(location.path):
        return SCAN
    return location


def normalize_path(raw: RawView) -> RawView | Dropped:
    location = locate_page(raw.url, raw.status, raw.site)
    if isinstance(location, Dropped):
        return location
    raw.location = location
    return raw


def classify_and_identify(raw: RawView) -> RawView:
    """Classifies the visitor and hashes its id. Cached, because these two are the most expensive steps of the pipeline
    and a visitor usually views several pages."""
    site = raw.site
    accept = raw.accept if raw.accept and normalize_markdown_accept(raw.accept) else None
    identify = (
        _classify_and_identify
        if accept is None or len(accept) <= MAX_CACHED_CHARS
        else _classify_and_identify.__wrapped__
    )
    day = site.hasher.day_to_hash(raw.at)
    page_format = raw.location.format
    raw.classification, raw.visitor = identify(
        site, day, raw.user_agent, accept, page_format, raw.address, raw.signer, raw.visitor_id
    )
    return raw


@lru_cache(maxsize=1 << 15)
def _classify_and_identify(
    site: SiteConfig,
    day: int,
    user_agent: str | None,
    accept: str | None,
    page_format: PageFormat,
    address: bytes | None,
    signer: str | None,
    visitor_id: str | None,
) -> tuple[Classification, int | None]:
    classification = site.classifier.classify(
        user_agent, accept, page_format, address=address, signer=signer, has_visitor_id=visitor_id is not None
    )
    return classification, site.hasher.hash_visitor(day * DAY, visitor_id, address, user_agent)


def build_view(raw: RawView) -> PageView:
    site = raw.site
    location = raw.location
    return PageView(
        site.project_id,
        location.path,
        raw.at,
        *raw.classification,
        site.classifier.version,
        raw.visitor,
        location.host,
        _find_referrer(raw, raw.referrer) if raw.referrer else "",
        raw.status,
        site.hasher.hash_event(raw.event_id) if raw.event_id else None,
    )


def _find_referrer(raw: RawView, referrer: str) -> str:
    """Returns the host of the referring page. For a missing page, returns the path if the page is on the same site:
    that page has the broken link."""
    host = host_from_url(referrer)
    if raw.status not in MISSING_STATUSES or not host or host != raw.location.host:
        return host
    page = normalize_url(referrer, raw.site.base_path, raw.site.kept_params)
    if isinstance(page, Dropped):
        return host
    return "" if page.path == raw.location.path else page.path


Stage = Callable[[RawView], RawView | PageView | Dropped]
STAGES: tuple[Stage, ...] = (drop_non_pages, normalize_path, classify_and_identify, build_view)


def run_pipeline(raw: RawView) -> PageView | Dropped:
    for stage in STAGES:
        result = stage(raw)
        if result is not raw:
            break
    assert not isinstance(result, RawView), "the last stage returns a view"
    return result


@lru_cache(maxsize=1 << 10)
def includes_page_type(media_types: str) -> bool:
    """Returns whether the media types include HTML or Markdown.

    Requests for images and data, and the internal fetches of Next.js, name other types.
    """
    return any(page_type in media_types.lower() for page_type in PAGE_MEDIA_TYPES)
