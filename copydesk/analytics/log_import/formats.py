"""The formats of logs that can be read, and which of them a log is written in."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from copydesk.analytics.ip_addresses import packed
from copydesk.analytics.log_import.cloudfront_format import CloudFront
from copydesk.analytics.log_import.json_formats import CADDY, CLOUDFLARE, JSON_LINES, Caddy, Cloudflare, Records
from copydesk.analytics.log_import.log_line import Line
from copydesk.analytics.log_import.text_formats import Text
from copydesk.analytics.page_view import Dropped, Reason
from copydesk.core.errors import InvalidRequest

LOOKED_AT = 50
"""First lines by which a format is told."""


class Format(Protocol):
    name: str

    def read(self, text: str) -> Iterator[Line | Dropped | None]:
        """One for each line: the request, why there is none, or None for a line that tells of no request."""

    def whole(self, line: str) -> bool:
        """Whether a line that nothing ends is surely complete."""


FORMATS: dict[str, Callable[[], Format]] = {
    "combined": partial(Text, "combined"),
    "vhost": partial(Text, "vhost", host=True),
    "common": partial(Text, "common", agent=False),
    "cloudfront": CloudFront,
    "caddy": partial(Caddy, "caddy", CADDY),
    "cloudflare": partial(Cloudflare, "cloudflare", CLOUDFLARE),
    "jsonl": partial(Records, "jsonl", JSON_LINES),
}
AUTO = "auto"


class UnknownFormat(InvalidRequest):
    message = "The log is not in a format that Copydesk can read."


def format_of(text: str, name: str) -> Format:
    """The format that reads most of the first lines, the earlier of equals. A new one each time: some remember."""
    lines = [line for line in text.split("\n") if line.strip()][:LOOKED_AT]
    if any(line.startswith("#Fields:") for line in lines):
        return CloudFront()
    sample = "\n".join(lines)
    fit = {known: sum(map(_fit, make().read(sample))) for known, make in FORMATS.items()}
    best = max(fit, key=lambda known: fit[known])
    if lines and not fit[best]:
        tried, first = ", ".join(FORMATS), ascii(lines[0][:200])
        raise UnknownFormat(f"{name} is not a log that Copydesk reads (tried: {tried}). It begins with: {first}")
    return FORMATS[best]()


def _fit(line: Line | Dropped | None) -> int:
    """Some servers write a host for the address; but mostly that is a host before it, in another format."""
    if isinstance(line, Line):
        return 2 if packed(line.address) else 1
    return 0 if line is None or line.reason in (Reason.MALFORMED_LINE, Reason.NO_PATH) else 1
