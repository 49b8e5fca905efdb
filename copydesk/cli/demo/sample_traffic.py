"""A week of sample page views, as a site's server would send them. Only their dates differ between runs."""

import random
from collections.abc import Iterator
from typing import Any

from copydesk.core.clock import DAY, format_iso, now

PAGES = ("/", "/setup", "/guides/themes", "/guides/export")
BROWSERS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605",
    "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
)
ASSISTANTS = (
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
    "axios/1.13.2",
)
CRAWLERS = ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "GPTBot/1.3")


def generate_week() -> Iterator[dict[str, Any]]:
    """Yields views of browsers, of assistants that fetch Markdown, of crawlers, and of one visitor who uses both a
    browser and an assistant."""
    rng = random.Random("copydesk")  # noqa: S311 - not used for secrets
    today = now() // DAY * DAY
    for day in range(today - 7 * DAY, today, DAY):
        for _ in range(rng.randint(20, 40)):
            reader = rng.randrange(80)
            for path in rng.sample(PAGES, rng.randint(1, 3)):
                yield _build_event(path, day, rng, BROWSERS[reader % 3], f"192.0.2.{reader}")
        for _ in range(rng.randint(5, 12)):
            fetcher = rng.randrange(20)
            path = rng.choice(PAGES)
            yield _build_event(
                f"{path.rstrip('/') or '/index'}.md", day, rng, ASSISTANTS[fetcher % 3], f"198.51.100.{fetcher}"
            )
        yield from (_build_event(path, day, rng, crawler, "203.0.113.9") for path in PAGES for crawler in CRAWLERS)
    for agent in (BROWSERS[0], ASSISTANTS[0]):
        yield {**_build_event("/setup", today - DAY, rng, agent, "192.0.2.250"), "visitorId": "reader-1"}


def _build_event(path: str, day: int, rng: random.Random, agent: str, address: str) -> dict[str, Any]:
    at = day + rng.randrange(DAY)
    accept_header = {"accept": "text/markdown, text/html, */*"} if path.endswith(".md") else {}
    event_id = f"{path}-{at}-{address}"
    return {
        "path": path,
        "timestamp": format_iso(at),
        "userAgent": agent,
        "ip": address,
        "eventId": event_id,
        **accept_header,
    }
