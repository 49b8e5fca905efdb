"""Rejects cross-site request forgery: checks the origin and the token of a form."""

import hmac
from functools import lru_cache
from urllib.parse import urlsplit

from fastapi import Request

from copydesk.analytics.ip_addresses import parse_ip
from copydesk.core.errors import RequestError
from copydesk.core.settings import Settings
from copydesk.web.http.client_address import normalize_address

DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class CsrfRejected(RequestError):
    status, code = 403, "foreign_form"
    message = "This form was not sent from its own page, or the page is too old. Go back, reload it and try again."


class CrossOriginRejected(CsrfRejected):
    message = "This form was not sent from the dashboard. Open the dashboard at the address in COPYDESK_BASE_URL."


def constant_time_equals(actual: str, expected: str) -> bool:
    """Compares in constant time. Encodes first, because compare_digest accepts non-ASCII only as bytes."""
    return hmac.compare_digest(actual.encode(), expected.encode())


def check_token(form_token: str, session_token: str) -> None:
    """Raises CsrfRejected for a form without the token of the session that sends it."""
    if not constant_time_equals(form_token, session_token):
        raise CsrfRejected


def check_origin(request: Request, settings: Settings) -> None:
    """Raises CrossOriginRejected for a form that another site sent.

    Browsers always send Sec-Fetch-Site or Origin with a form. A request with neither is from another program, which has
    only the cookies that it was given."""
    fetch_site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if fetch_site is not None:
        is_same_origin = fetch_site in ("same-origin", "none")
    else:
        allowed_origins = own_origins(settings.base_url, request.scope.get("server"))
        is_same_origin = (
            origin is None
            or origin.lower() in allowed_origins
            or _is_same_ip_origin(origin, request.headers.get("host", ""))
        )
    if not is_same_origin:
        raise CrossOriginRejected


def _is_same_ip_origin(origin: str, host: str) -> bool:
    """Returns whether a page at an IP address sent a form to that address. DNS rebinding needs a name."""
    try:
        address = parse_ip(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
    is_specific = address is not None and any(address)  # 0.0.0.0 reaches this machine from any page
    return is_specific and origin.lower() == f"http://{host.lower()}"


@lru_cache(maxsize=64)
def own_origins(base_url: str, server: tuple[str, int | None] | None) -> frozenset[str]:
    """Returns the origins of the service's own pages: the configured address, and the one that this request reached.

    Ignores the Host header, because the client chooses it. On a loopback address, all its names are the same."""
    parts = urlsplit(base_url)
    origins = _format_origins(parts.scheme, parts.hostname or "", parts.port)
    if server is not None:
        origins |= _format_origins("http", normalize_address(server[0]) or server[0], server[1])
    return frozenset(origins)


def _format_origins(scheme: str, host: str, port: int | None) -> set[str]:
    """Returns an address as browsers write it in an origin, without the scheme's usual port."""
    suffix = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    names = {host, *(LOOPBACK_NAMES if is_loopback else ())}
    return {f"{scheme}://{f'[{name}]' if ':' in name else name}{suffix}" for name in names}
