"""Messages that a page shows once (flash messages), after the redirect that follows a form."""

import base64
import binascii
from urllib.parse import urlsplit

from fastapi import Request, Response

from copydesk.core.settings import Settings
from copydesk.core.text.truncation import truncate
from copydesk.web.dashboard.auth.cookies import delete_cookie, set_cookie, uses_https
from copydesk.web.responses.redirects import redirect

MAX_MESSAGE_CHARS = 800
MESSAGE_LIFETIME_SECONDS = 60


def redirect_with_message(settings: Settings, location: str, message: str) -> Response:
    """Redirects to a page of the dashboard, which shows the message once; "" means that there is none."""
    response = redirect(location)
    if not message:
        return response
    text = f"{urlsplit(location).path}\n{truncate(message, MAX_MESSAGE_CHARS)}"
    value = (
        base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode().rstrip("=")
    )  # cookies would quote the padding
    set_cookie(response, settings, _cookie_name(settings), value, MESSAGE_LIFETIME_SECONDS)
    return response


def read_message(request: Request, settings: Settings) -> str:
    """Returns the message for this page, or "" if there is none."""
    value = request.cookies.get(_cookie_name(settings), "")
    try:
        text = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""
    path, _, message = text.partition("\n")
    return message if path == request.url.path else ""


def delete_message(response: Response, settings: Settings) -> None:
    delete_cookie(response, settings, _cookie_name(settings))


def _cookie_name(settings: Settings) -> str:
    return "__Host-copydesk-message" if uses_https(settings) else "copydesk-message"
