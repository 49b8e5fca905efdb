"""Sets and deletes the cookies of the dashboard."""

from fastapi import Response

from copydesk.core.accounts.sessions import SESSION_LIFETIME_MS
from copydesk.core.settings import Settings


def uses_https(settings: Settings) -> bool:
    return settings.base_url.startswith("https://")


def cookie_name(settings: Settings) -> str:
    """Returns the name of the session cookie.

    Browsers accept the prefix `__Host-` only over TLS and without a Domain, so a sibling host cannot set the cookie."""
    return "__Host-copydesk" if uses_https(settings) else "copydesk"


def set_cookie(response: Response, settings: Settings, name: str, value: str, seconds: int) -> None:
    """Sets a cookie that scripts cannot read and that browsers do not send with forms of other sites."""
    response.set_cookie(
        name, value, max_age=seconds, path="/", secure=uses_https(settings), httponly=True, samesite="lax"
    )


def delete_cookie(response: Response, settings: Settings, name: str) -> None:
    response.delete_cookie(name, path="/", secure=uses_https(settings), httponly=True, samesite="lax")


def set_session_cookie(response: Response, settings: Settings, secret: str) -> None:
    set_cookie(response, settings, cookie_name(settings), secret, SESSION_LIFETIME_MS // 1000)


def delete_session_cookie(response: Response, settings: Settings) -> None:
    delete_cookie(response, settings, cookie_name(settings))
