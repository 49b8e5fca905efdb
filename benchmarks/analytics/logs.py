"""Generates a plausible access log in the combined format: visits of a few pages with assets, crawlers, errors."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate, count
from pathlib import Path

PAGE_COUNT = 2_000
FIRST_SECOND = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ASSETS_PER_PAGE = 3
REQUESTS_PER_SECOND = 10
"""Page requests per second."""
KNOWN_VISITOR_SHARE, MAX_KNOWN_VISITORS = 0.7, 50_000
NON_VIEW_REQUESTS = (("GET", 404), ("GET", 301), ("HEAD", 200), ("POST", 405)) * 3
ASSET_NAMES = ("app", "vendor", "theme", "search", "logo", "hero", "inter", "icons")
ASSET_EXTENSIONS = ("js", "css", "svg", "png", "woff2", "webp")
HUMAN_AGENTS = tuple(
    agent.format(version)
    for version in range(110, 145)
    for agent in (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{0}.0.0.0 "
        "Safari/537.36",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{0}.0.0.0 "
        "Safari/537.36",
        "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0",
        "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{0}.0.0.0 Mobile "
        "Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.{0}"
        " Mobile/15E148 Safari/604.1",
    )
)
ASSISTANT_AGENTS = (
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
    "Claude-User (claude-code/2.1.90; +https://support.anthropic.com/)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)",
)
CRAWLER_AGENTS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
)


def write_log(path: Path, size: int, *, assets: int = ASSETS_PER_PAGE, seed: int = 1) -> int:
    """Writes a log of about `size` bytes and returns the number of lines."""
    bytes_written = lines = 0
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        for line in generate_lines(assets, seed):
            bytes_written += file.write(line)
            lines += 1
            if bytes_written >= size:
                return lines
    raise AssertionError("a log has no end")


def generate_lines(assets: int = ASSETS_PER_PAGE, seed: int = 1) -> Iterator[str]:
    """Generates lines.

    Of 100 visitors, 20 are assistants and 15 are crawlers; of 100 page requests, 12 are not page views. Page views of
    people also request their assets.
    """
    chance = random.Random(seed)
    weights = list(accumulate(1 / rank for rank in range(1, PAGE_COUNT + 1)))
    pages = [f"/docs/section-{page % 40}/page-{page}" for page in range(PAGE_COUNT)]
    known_visitors: list[tuple[str, str]] = []
    for second in count(FIRST_SECOND):
        stamp = datetime.fromtimestamp(second, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        for page in chance.choices(pages, cum_weights=weights, k=REQUESTS_PER_SECOND):
            address, agent = _choose_visitor(chance, known_visitors)
            luck, head, tail = chance.random(), f"{address} - - [{stamp}]", f'"{agent}"\n'
            method, status = NON_VIEW_REQUESTS[int(luck * 100)] if luck < 0.12 else ("GET", 200)
            referrer, size = "https://search.example.com/" if luck > 0.8 else "-", int(luck * 9000)
            yield f'{head} "{method} {page} HTTP/2.0" {status} {9000 + size} "{referrer}" {tail}'
            if status == 200 and agent in HUMAN_AGENTS:
                for _ in range(assets):
                    name = f"{chance.choice(ASSET_NAMES)}.{int(luck * 50):06x}.{chance.choice(ASSET_EXTENSIONS)}"
                    request = f'"GET /_assets/{name} HTTP/2.0" 200 {40_000 + size}'
                    yield f'{head} {request} "https://docs.example.com{page}" {tail}'


def _choose_visitor(chance: random.Random, known_visitors: list[tuple[str, str]]) -> tuple[str, str]:
    """Chooses a visitor. A visit has about three pages; 40% of visitors return, mostly recent ones."""
    if known_visitors and chance.random() < KNOWN_VISITOR_SHARE:
        return known_visitors[-1 - int(chance.expovariate(4 / len(known_visitors))) % len(known_visitors)]
    sort = chance.random()
    agents = HUMAN_AGENTS if sort < 0.65 else ASSISTANT_AGENTS if sort < 0.85 else CRAWLER_AGENTS
    known_visitors.append((_random_address(chance), chance.choice(agents)))
    if len(known_visitors) > MAX_KNOWN_VISITORS:
        del known_visitors[: MAX_KNOWN_VISITORS // 5]
    return known_visitors[-1]


def _random_address(chance: random.Random) -> str:
    number = chance.getrandbits(32)
    if chance.random() < 0.2:
        return f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::{number % 997 + 1:x}"
    return f"{number >> 24 or 1}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
