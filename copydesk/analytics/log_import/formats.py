"""The supported log formats, and the detection of a log's format."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from copydesk.analytics.ip_addresses import parse_ip
from copydesk.analytics.log_import.cloudfront_format import CloudFrontFormat
from copydesk.analytics.log_import.json_formats import (
    CADDY_FIELDS,
    CLOUDFLARE_FIELDS,
    JSON_LINES_FIELDS,
    CaddyFormat,
    CloudflareFormat,
    JsonFormat,
)
from copydesk.analytics.log_import.log_line import LogLine
from copydesk.analytics.log_import.text_formats import TextFormat
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest

SAMPLE_LINES = 50
"""How many of the first lines the detection of the format reads."""


class LogFormat(Protocol):
    name: str

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for a line that is not a request."""

    def is_complete(self, line: str) -> bool:
        """Returns whether a last line without a newline is certainly complete."""


FORMATS: dict[str, Callable[[], LogFormat]] = {
    "combined": partial(TextFormat, "combined"),
    "vhost": partial(TextFormat, "vhost", host=True),
    "common": partial(TextFormat, "common", agent=False),
    "cloudfront": CloudFrontFormat,
    "caddy": partial(CaddyFormat, "caddy", CADDY_FIELDS),
    "cloudflare": partial(CloudflareFormat, "cloudflare", CLOUDFLARE_FIELDS),
    "jsonl": partial(JsonFormat, "jsonl", JSON_LINES_FIELDS),
}
AUTO_FORMAT = "auto"


class UnknownLogFormat(InvalidRequest):
    message = "The log is not in a format that Copydesk supports."


def detect_format(text: str, file_name: str) -> LogFormat:
    """Returns the format that parses most of the first lines; the earlier in `FORMATS` wins a tie.

    Creates a new instance each time, because some formats have state. Raises UnknownLogFormat if none fits.
    """
    lines = [line for line in text.split("\n") if line.strip()][:SAMPLE_LINES]
    if any(line.startswith("#Fields:") for line in lines):
        return CloudFrontFormat()
    sample = "\n".join(lines)
    scores = {
        format_name: sum(map(_score_line, create().parse_lines(sample))) for format_name, create in FORMATS.items()
    }
    best = max(scores, key=lambda known: scores[known])
    if lines and not scores[best]:
        format_names = ", ".join(FORMATS)
        first_line = ascii(lines[0][:200])
        raise UnknownLogFormat(
            f"{file_name} is not in a log format that Copydesk supports ({format_names}). It starts with: {first_line}"
        )
    return FORMATS[best]()


def _score_line(line: LogLine | Dropped | None) -> int:
    """Scores a parsed line: 2 with a valid client address, 1 with a host name in its place, 0 if it did not parse.

    Some servers log the client's host name, but usually it means that the line has a virtual host before the address
    and so another format.
    """
    if isinstance(line, LogLine):
        return 2 if parse_ip(line.address) else 1
    return 0 if line is None or line.reason in (DropReason.MALFORMED_LINE, DropReason.NO_PATH) else 1
