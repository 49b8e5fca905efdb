"""The page on which people request a link to set a new password, which is sent by mail."""

import asyncio
import logging

from fastapi import APIRouter, Request, Response

from copydesk.core.accounts.password_resets import PasswordResets
from copydesk.core.errors import RequestError
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.dashboard.auth.csrf import check_origin
from copydesk.web.dashboard.auth.form_data import read_form
from copydesk.web.dashboard.auth.sign_in_flow import provider_name
from copydesk.web.responses.html import render_page

router = APIRouter()
log = logging.getLogger(__name__)
FORGOT_PATH = "/sign-in/forgot"


@router.get(FORGOT_PATH)
async def forgot_password_page(desk: OpenDesk) -> Response:
    return _render_page(desk)


@router.post(FORGOT_PATH)
async def request_password_link(request: Request, desk: OpenDesk) -> Response:
    """Answers before it looks for the account, so that the answer takes equally long for every address."""
    check_origin(request, desk.settings)
    email = (await read_form(request)).get("email")
    if not desk.sharing.account_mails.is_enabled:
        return _render_page(desk)
    try:
        email = await run_in_thread(PasswordResets(desk.people).count_request, email, request.state.address)
    except RequestError as error:
        if isinstance(error, TooManyRequests):
            log.warning("rate limit of password links reached for an IP address or an email address")
        return _render_page(desk, error, email)
    tasks: set[asyncio.Task[None]] = request.app.state.background_tasks
    task = asyncio.create_task(run_in_thread(_send_link, desk, email))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return _render_page(desk, email=email, is_requested=True)


def _send_link(desk: Desk, email: str) -> None:
    try:
        link = PasswordResets(desk.people).create_link(email)
        if link is not None:
            desk.sharing.account_mails.send_requested_reset(link.person, link.secret)
    except Exception:  # nobody waits for the result
        log.exception("a password link could not be sent")


def _render_page(
    desk: Desk, error: RequestError | None = None, email: str = "", *, is_requested: bool = False
) -> Response:
    return render_page(
        "forgot-password.html",
        error=error,
        title="New password",
        email=email,
        is_requested=is_requested,
        sends_mail=desk.sharing.account_mails.is_enabled,
        provider=provider_name(desk.settings),
    )
