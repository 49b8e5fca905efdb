"""Renders HTML pages: templates that escape all values, and headers that restrict what a page may do."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from copydesk.core.clock import format_iso
from copydesk.core.errors import RequestError
from copydesk.core.projects.privacy_choices import PRIVACY_CHOICES
from copydesk.core.text.plurals import pluralize
from copydesk.jobs.check_summary import describe_passed
from copydesk.jobs.checks.findings import name_rule
from copydesk.web.responses.help_links import find_help_url
from copydesk.web.responses.markdown import mark_code_spans, render_markdown

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "X-Robots-Tag": "noindex",
}
CLI_ACTOR_PREFIX = "cli:"
STATIC_FOLDER = Path(__file__).parents[1] / "static"


def format_time(at: int) -> Markup:
    """Formats a time in UTC. A script converts it to the reader's time zone."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return Markup('<time datetime="{}">{}</time>').format(format_iso(at), moment.strftime("%Y-%m-%d %H:%M UTC"))


@cache
def asset_url(name: str) -> str:
    """Returns the URL of a static file with a hash of its content, so that browsers can cache it forever."""
    return f"/static/{name}?v={sha256((STATIC_FOLDER / name).read_bytes()).hexdigest()[:12]}"


def format_actor(actor: str) -> str:
    """Returns who did something: an email address, or the user of the command line."""
    name = actor.removeprefix(CLI_ACTOR_PREFIX)
    return actor if name == actor else f"{name}, from the command line"


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["time"] = format_time
_templates.filters["actor"] = format_actor
_templates.filters["name_rule"] = name_rule
_templates.filters["markdown"] = render_markdown
_templates.filters["code_spans"] = mark_code_spans
_templates.globals["asset"] = asset_url
_templates.globals["pluralize"] = pluralize
_templates.globals["describe_passed"] = describe_passed
_templates.globals["privacy_choices"] = PRIVACY_CHOICES


def _get_message(failure: RequestError | str | None) -> str:
    return failure.message if isinstance(failure, RequestError) else failure or ""


def render_page(
    template: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    error: RequestError | str | None = None,
    fault: RequestError | str | None = None,
    **values: Any,
) -> HTMLResponse:
    """Renders a template. `signed_in`, `project` and `tab` control the header and navigation.

    `error` is shown above the page's content, and `fault` at the form that caused it. A RequestError also sets the
    status and the headers, such as Retry-After.
    """
    for failure in (error, fault):
        if isinstance(failure, RequestError):
            status, headers = failure.status, failure.headers
    shown = {"error": _get_message(error), "fault": _get_message(fault)}
    context = {"signed_in": None, "project": None, "tab": "", **shown, **values}
    context["help_url"] = find_help_url(template)
    return HTMLResponse(
        _templates.get_template(template).render(**context),
        status_code=status,
        headers={**PAGE_HEADERS, **(headers or {})},
    )
