"""Which sites' pages may send views from a browser, and what a browser must hear to be content."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from copydesk.core.errors import RequestError

PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Content-Type",
    "Access-Control-Max-Age": "86400",
}
CROSS_ORIGIN_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}
"""For what pages of other sites load: those that isolate themselves would not get it otherwise."""


class OriginRefused(RequestError):
    status, code = 403, "origin_refused"
    message = "This project does not accept page views from this site."


def build_cors_headers(origins: Sequence[str], origin: str | None) -> dict[str, str]:
    """The headers that let the page read the answer. A list keeps other sites' copies out, not forgers, who can name
    any origin."""
    if not origins:
        return {"Access-Control-Allow-Origin": "*"}
    if origin is None or not any(_matches_origin(origin.lower(), each) for each in origins):
        raise OriginRefused
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def parse_origin(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme and parts.netloc else None


def _matches_origin(origin: str, pattern: str) -> bool:
    """`*.` stands for any subdomain, however deep."""
    scheme, _, host = pattern.partition("://*")
    return origin == pattern if not host else origin.startswith(f"{scheme}://") and origin.endswith(host)
