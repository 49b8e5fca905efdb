"""Generates a year of plausible traffic: Zipf pages, visits of a few pages, returning visitors, a fifth of it AI."""

import random
from collections.abc import Iterator
from itertools import accumulate

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.core.clock import DAY

PAGE_COUNT = 2_000
DAYS = 365
FIRST_DAY = 20_454
"""2026-01-01."""
PROJECT, HOST, TABLE = "prj_benchmark", "docs.example.com", "2026-11-01"
PAGES_PER_VISIT = 3
CONCURRENT_VISITS = 30
"""Visits that are open at the same time."""
RETURNING_SHARE = 0.4
CLASS_SHARES = {
    VisitorClass.HUMAN: 0.65,
    VisitorClass.ASSISTANT: 0.20,
    VisitorClass.SEARCH: 0.06,
    VisitorClass.TRAINING: 0.05,
    VisitorClass.OTHER: 0.04,
}
AGENTS_BY_CLASS = {
    VisitorClass.HUMAN: (),
    VisitorClass.ASSISTANT: ("ChatGPT-User", "Claude-User", "Cursor", "Perplexity-User"),
    VisitorClass.SEARCH: ("Googlebot",),
}
REFERRERS = ("", HOST, "search.example.com", *(f"site-{number}.example.org" for number in range(200)))


def generate_days(
    views: int, days: range = range(FIRST_DAY, FIRST_DAY + DAYS), seed: int = 1
) -> Iterator[list[PageView]]:
    """Yields the views of each day, in order. Ten times the views come from ten times the visitors.

    Views reported by servers have event ids; views sent by the beacon have none.
    """
    chance = random.Random(seed)
    weights = list(accumulate(1 / rank for rank in range(1, PAGE_COUNT + 1)))
    paths = [f"/docs/section-{page % 40}/page-{page}" for page in range(PAGE_COUNT)]
    known_visitors: dict[VisitorClass, list[int]] = {kind: [] for kind in CLASS_SHARES}
    for number, day in enumerate(days):
        size = views * (number + 1) // len(days) - views * number // len(days)
        yield _generate_day(chance, size, day, known_visitors, weights, paths)


def _generate_day(
    chance: random.Random,
    size: int,
    day: int,
    known_visitors: dict[VisitorClass, list[int]],
    weights: list[float],
    paths: list[str],
) -> list[PageView]:
    kinds = chance.choices(list(CLASS_SHARES), list(CLASS_SHARES.values()), k=size // PAGES_PER_VISIT + 1)
    pages = chance.choices(paths, cum_weights=weights, k=size)
    times = sorted(chance.choices(range(day * DAY, (day + 1) * DAY), k=size))
    who = [(kind, _choose_visitor(chance, known_visitors[kind], kind)) for kind in kinds]
    views = []
    for number, (path, at) in enumerate(zip(pages, times, strict=True)):
        kind, visitor = who[min(number // PAGES_PER_VISIT + chance.randrange(CONCURRENT_VISITS), len(who) - 1)]
        names = AGENTS_BY_CLASS.get(kind, ("Other",))
        agent = names[visitor % len(names)] if names else ""
        rule, event = (f"token:{agent}", chance.getrandbits(128)) if agent else ("browser", None)
        referrer = "" if agent else REFERRERS[min(int(chance.paretovariate(0.8)), len(REFERRERS)) - 1]
        views.append(PageView(PROJECT, path, at, kind, agent, agent, rule, TABLE, visitor, HOST, referrer, 200, event))
    return views


def _choose_visitor(chance: random.Random, known_visitors: list[int], kind: VisitorClass) -> int:
    """Chooses a visitor.

    Crawlers come from a hundred addresses; some people and assistants return, mostly recent ones.
    """
    if len(known_visitors) > 100 and kind in (VisitorClass.SEARCH, VisitorClass.TRAINING, VisitorClass.OTHER):
        return chance.choice(known_visitors)
    if known_visitors and chance.random() < RETURNING_SHARE:
        return known_visitors[max(0, len(known_visitors) - 1 - int(chance.expovariate(4 / len(known_visitors))))]
    known_visitors.append(chance.getrandbits(63) or 1)
    return known_visitors[-1]
