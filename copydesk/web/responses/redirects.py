"""Redirects that cannot lead to another site."""

from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import RedirectResponse

SIGN_IN_PATH = "/sign-in"


def redirect(location: str) -> Response:
    """Redirects with status 303 after a form, so that a reload does not send the form again."""
    return RedirectResponse(location, status_code=303)


def redirect_to_sign_in(request: Request) -> Response:
    path = request.scope["path"]
    query = request.scope["query_string"].decode("latin-1")
    target = path + (f"?{query}" if query else "")
    return redirect(
        SIGN_IN_PATH if request.method != "GET" or target == "/" else f"{SIGN_IN_PATH}?next={quote(target, safe='')}"
    )


def safe_redirect_path(path: str) -> str:
    """Returns the path to open after the sign-in, or `/` if it could lead to another site."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_local else "/"
