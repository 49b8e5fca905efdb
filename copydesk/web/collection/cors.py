"""CORS: which origins may send views from a browser, and the headers that the browser needs."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from copydesk.core.errors import RequestError

PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Content-Type",
    "Access-Control-Max-Age": "86400",
}
CROSS_ORIGIN_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}
"""Headers for files that other sites load. Sites with cross-origin isolation could not load them otherwise."""


class OriginRefused(RequestError):
    status, code = 403, "origin_refused"
    message = "This project does not accept page views from this site."


def build_cors_headers(origins: Sequence[str], origin: str | None) -> dict[str, str]:
    """Returns the headers that let the page read the response. Raises OriginRefused for an origin that is not allowed.

    The list keeps out copies of the site on other domains. It does not stop forged requests, which can send any origin.
    """
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
    """Returns whether the origin matches. `*.` in the pattern matches subdomains at any depth."""
    scheme, _, host = pattern.partition("://*")
    return origin == pattern if not host else origin.startswith(f"{scheme}://") and origin.endswith(host)
