"""From a view as it arrives to one that is kept: each stage passes it on or says why not."""

from collections.abc import Callable
from functools import lru_cache

from copydesk.analytics.classification.classifier import markdown_asked
from copydesk.analytics.ingest.raw_view import Raw, Site
from copydesk.analytics.page_paths import LONGEST_REMEMBERED, NOT_A_PAGE, Form, clean, host_of
from copydesk.analytics.page_view import Dropped, Reason, Verdict, View
from copydesk.core.clock import DAY

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


def recognise(raw: Raw) -> Raw:
    """Who asks is remembered: a visitor sees several pages, and classifying and hashing cost most of the way."""
    site, asked = raw.site, raw.accept if raw.accept and markdown_asked(raw.accept) else None
    who = _who if asked is None or len(asked) <= LONGEST_REMEMBERED else _who.__wrapped__
    day, form = site.key.day(raw.at), raw.place.form
    raw.verdict, raw.visitor = who(site, day, raw.user_agent, asked, form, raw.address, raw.signer, raw.visitor_id)
    return raw


@lru_cache(maxsize=1 << 15)
def _who(
    site: Site,
    day: int,
    agent: str | None,
    accept: str | None,
    form: Form,
    address: bytes | None,
    signer: str | None,
    visitor_id: str | None,
) -> tuple[Verdict, int | None]:
    verdict = site.classifier.judge(
        agent, accept, form, address=address, signer=signer, known_visitor=visitor_id is not None
    )
    return verdict, site.key.visitor(day * DAY, visitor_id, address, agent)


def kept(raw: Raw) -> View:
    site, place = raw.site, raw.place
    return View(
        site.project,
        place.path,
        raw.at,
        *raw.verdict,
        site.classifier.version,
        raw.visitor,
        place.host,
        host_of(raw.referrer) if raw.referrer else "",
        raw.status,
        site.key.event(raw.event_id) if raw.event_id else None,
    )


Stage = Callable[[Raw], Raw | View | Dropped]
STAGES: tuple[Stage, ...] = (only_pages, clean_path, recognise, kept)


def accept(raw: Raw) -> View | Dropped:
    for stage in STAGES:
        passed = stage(raw)
        if passed is not raw:
            break
    assert not isinstance(passed, Raw), "the last stage makes a view"
    return passed


@lru_cache(maxsize=1 << 10)
def asks_for_a_page(accepted: str) -> bool:
    """Whether HTML or Markdown would do: images, data and Next.js's own fetches are asked for by other types."""
    return any(kind in accepted.lower() for kind in PAGE_TYPES)
