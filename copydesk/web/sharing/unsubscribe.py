"""The link in a summary that ends its subscription: one click in the mail program (RFC 8058), or a page with a button.

Opening the page changes nothing, because programs that scan mails for viruses open every link.
"""

from fastapi import APIRouter, Request, Response

from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.sharing.summary.subscriptions import Subscriber
from copydesk.web.api.dependencies import OpenDesk
from copydesk.web.responses.html import render_page
from copydesk.web.sharing.share_access import NO_REFERRER, ShareLimiter

router = APIRouter(include_in_schema=False)


@router.get("/unsubscribe/{token}")
async def unsubscribe_page(request: Request, token: str, desk: OpenDesk) -> Response:
    _limit_rate(request)
    try:
        subscriber = await run_in_thread(desk.sharing.subscriptions.find_by_token, token)
        project = await run_in_thread(desk.projects.get, subscriber.project_id)
    except RequestError as error:
        error.headers.update(NO_REFERRER)
        raise
    return _render(subscriber, project.name)


@router.post("/unsubscribe/{token}")
async def unsubscribe(request: Request, token: str, desk: OpenDesk) -> Response:
    """Ends the subscription. Needs no CSRF token: the link itself is the permission, and mail programs send nothing
    else."""
    _limit_rate(request)
    try:
        subscriber = await run_in_thread(desk.sharing.subscriptions.unsubscribe, token)
        project = await run_in_thread(desk.projects.get, subscriber.project_id)
    except RequestError as error:
        error.headers.update(NO_REFERRER)
        raise
    return _render(subscriber, project.name)


def _limit_rate(request: Request) -> None:
    limiter: ShareLimiter = request.app.state.share_limiter
    limiter.consume_address(request.state.address)


def _render(subscriber: Subscriber, project_name: str) -> Response:
    return render_page(
        "unsubscribe.html",
        200,
        NO_REFERRER,
        title="Weekly summary",
        name=project_name,
        email=subscriber.email,
        is_over=subscriber.ended_at is not None,
        token_path=f"/unsubscribe/{subscriber.token}",
    )
