"""Redirects that cannot lead to another site."""

from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from starlette.responses import RedirectResponse

SIGN_IN_PATH = "/sign-in"


def redirect(location: str) -> Response:
    """Redirects with status 303 after a form, so that a reload does not send the form again."""
    return RedirectResponse(location, status_code=303)


def redirect_to_sign_in(request: Request) -> Response:
    """Redirects to the sign-in page, which leads back to this page, or to the page whose form was sent."""
    if request.method == "GET":
        path = request.scope["path"]
        query = request.scope["query_string"].decode("latin-1")
    else:
        page = urlsplit(request.headers.get("referer", ""))
        path, query = safe_redirect_path(page.path), page.query
    target = path + (f"?{query}" if query else "")
    is_start = target == "/" or path in (SIGN_IN_PATH, "/sign-out")
    return redirect(SIGN_IN_PATH if is_start else f"{SIGN_IN_PATH}?next={quote(target, safe='')}")


def safe_redirect_path(path: str) -> str:
    """Returns the path to open after the sign-in, or `/` if it could lead to another site."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_local else "/"
