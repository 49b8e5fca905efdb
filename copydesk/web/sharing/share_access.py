"""Opens the link of a public request: limits the rate, finds the link by its token, and records its use."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from copydesk.analytics.ip_addresses import parse_ip, to_client_network
from copydesk.core.clock import SECOND
from copydesk.core.errors import RequestError, StoreUnavailable
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.in_memory import LocalRateLimiter
from copydesk.core.rate_limits.limits import RateLimit
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.settings import Settings
from copydesk.desk import Desk
from copydesk.sharing.share_links import BADGE, ShareLink
from copydesk.web.api.dependencies import OpenDesk

ADDRESSES_PER_LINK = 10
"""A link may be used as often as this many addresses may use it together."""
NO_REFERRER = {"Referrer-Policy": "no-referrer"}
"""The address of a shared page contains its token, so browsers must not send it to other pages."""


class ShareLimiter:
    """Limits requests for shared pages by address, and by link, in this process."""

    def __init__(self, settings: Settings) -> None:
        quota, setting = settings.share_per_address, "COPYDESK_SHARE_PER_ADDRESS"
        self._per_address = LocalRateLimiter(RateLimit("share-address", quota, 60 * SECOND, setting))
        self._per_link = LocalRateLimiter(RateLimit("share", quota * ADDRESSES_PER_LINK, 60 * SECOND, setting))

    def consume_address(self, address: str | None) -> None:
        self._per_address.consume(to_client_network(parse_ip(address or "") or b""))

    def consume_link(self, link: ShareLink) -> None:
        self._per_link.consume(link.id)


class SharedRequest(NamedTuple):
    """A request with a valid link. `token` is the secret part of the request's own path."""

    desk: Desk
    link: ShareLink
    project: Project
    token: str


def open_link(part: str | None) -> Callable[[Request, str, Desk], Awaitable[SharedRequest]]:
    """Returns a dependency that opens the link of the path, and refuses links that do not show this part."""

    async def open_shared(request: Request, token: str, desk: OpenDesk) -> SharedRequest:
        limiter: ShareLimiter = request.app.state.share_limiter
        try:
            limiter.consume_address(request.state.address)
            link, project = await run_in_thread(desk.sharing.links.open, token, part)
            limiter.consume_link(link)
        except RequestError as error:
            error.headers.update(NO_REFERRER)
            raise
        if link.should_record_use:
            with suppress(StoreUnavailable):  # the time of last use is not worth failing the request
                await run_in_thread(desk.sharing.links.record_use, link)
        return SharedRequest(desk, link, project, token)

    return open_shared


SharedPage = Annotated[SharedRequest, Depends(open_link(None))]
SharedAgents = Annotated[SharedRequest, Depends(open_link("agents"))]
SharedMissing = Annotated[SharedRequest, Depends(open_link("missing"))]
SharedSearches = Annotated[SharedRequest, Depends(open_link("searches"))]
SharedBadge = Annotated[SharedRequest, Depends(open_link(BADGE))]
