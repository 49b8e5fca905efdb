"""Rendering HTML: templates that escape everything, and headers that let a page do nothing but show itself."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from copydesk.core.clock import iso
from copydesk.core.errors import Refusal

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "X-Robots-Tag": "noindex",
}
STATIC = Path(__file__).parents[1] / "static"


def shown_time(at: int) -> Markup:
    """In UTC, which a script turns into the reader's own zone."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return Markup('<time datetime="{}">{}</time>').format(iso(at), moment.strftime("%Y-%m-%d %H:%M UTC"))


@cache
def asset(name: str) -> str:
    """Its address, which changes with what is in it, so that a browser may keep it for ever."""
    return f"/static/{name}?v={sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["time"] = shown_time
_templates.globals["asset"] = asset


def page(
    template: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    refusal: Refusal | None = None,
    **values: Any,
) -> HTMLResponse:
    """`visit`, `project` and `tab` make the frame around it; a refusal is said above what was typed."""
    if refusal is not None:
        status, headers, values["error"] = refusal.status, refusal.headers, refusal.message
    shown = {"visit": None, "project": None, "tab": "", "error": "", **values}
    return HTMLResponse(
        _templates.get_template(template).render(**shown), status_code=status, headers={**HEADERS, **(headers or {})}
    )
