"""From a view as it arrives to one that is kept: each stage passes it on or says why not."""

from collections.abc import Callable
from functools import lru_cache

from copydesk.analytics.event import Raw
from copydesk.analytics.paths import NOT_A_PAGE, clean, host_of
from copydesk.analytics.view import Dropped, Reason, View

PAGE_TYPES = ("text/html", "application/xhtml", "text/markdown", "text/x-markdown", "text/plain", "text/*", "*/*")


NOT_GET, NOT_SUCCESSFUL = Dropped(Reason.NOT_GET), Dropped(Reason.NOT_SUCCESSFUL)
PREFETCH = Dropped(Reason.PREFETCH)


def refused(method: str, status: int, purpose: str | None, accept: str | None) -> Dropped | None:
    """Why a request can be no view, whatever it asked for."""
    if method not in ("GET", "get"):
        return NOT_GET
    if not (200 <= status < 300 or status == 304):
        return NOT_SUCCESSFUL
    if purpose and "pre" in purpose.lower():  # prefetch, prerender, preview
        return PREFETCH
    if accept and not asks_for_a_page(accept):
        return NOT_A_PAGE
    return None


def only_pages(raw: Raw) -> Raw | Dropped:
    return refused(raw.method, raw.status, raw.purpose, raw.accept) or raw


def clean_path(raw: Raw) -> Raw | Dropped:
    place = clean(raw.url, raw.site.base, raw.site.keep)
    if isinstance(place, Dropped):
        return place
    raw.place = place
    return raw


def classify(raw: Raw) -> Raw:
    raw.verdict = raw.site.classifier.judge(
        raw.user_agent,
        raw.accept,
        raw.place.form,
        address=raw.address,
        signer=raw.signer,
        known_visitor=raw.visitor_id is not None,
    )
    return raw


def identify(raw: Raw) -> View:
    site, place, verdict = raw.site, raw.place, raw.verdict
    return View(
        site.project,
        place.path,
        raw.at,
        verdict.kind,
        verdict.agent,
        verdict.operator,
        verdict.rule,
        site.classifier.version,
        site.key.visitor(raw.at, raw.visitor_id, raw.address, raw.user_agent),
        place.host,
        host_of(raw.referrer) if raw.referrer else "",
        raw.status,
        site.key.event(raw.event_id) if raw.event_id else None,
    )


Stage = Callable[[Raw], Raw | View | Dropped]
STAGES: tuple[Stage, ...] = (only_pages, clean_path, classify, identify)


def accept(raw: Raw) -> View | Dropped:
    for stage in STAGES:
        passed = stage(raw)
        if not isinstance(passed, Raw):
            return passed
    raise AssertionError("the last stage makes a view")


@lru_cache(maxsize=1 << 10)
def asks_for_a_page(accepted: str) -> bool:
    """Whether HTML or Markdown would do: images, data and Next.js's own fetches are asked for by other types."""
    return any(kind in accepted.lower() for kind in PAGE_TYPES)
