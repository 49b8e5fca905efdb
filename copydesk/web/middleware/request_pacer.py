"""Starts a few requests at a time, so that a burst does not block the event loop."""

import asyncio
from collections import deque

MAX_REQUESTS_PER_TURN = 8


class RequestPacer:
    """Starts at most MAX_REQUESTS_PER_TURN requests per iteration of the event loop. The others follow in order.

    Between two iterations the loop handles its connections, and requests that do not wait here, such as /healthz.
    """

    def __init__(self) -> None:
        self._started_this_turn = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait_for_turn(self) -> None:
        loop = asyncio.get_running_loop()
        if self._started_this_turn == 0:
            loop.call_soon(self._next_turn)
        self._started_this_turn += 1
        if self._started_this_turn > MAX_REQUESTS_PER_TURN:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn

    def _next_turn(self) -> None:
        self._started_this_turn = 0
        while self._waiting and self._started_this_turn < MAX_REQUESTS_PER_TURN:
            turn = self._waiting.popleft()
            if not turn.done():  # canceled: its client disconnected
                turn.set_result(None)
                self._started_this_turn += 1
        if self._started_this_turn:
            self._started_this_turn += len(self._waiting)  # new requests wait behind them
            asyncio.get_running_loop().call_soon(self._next_turn)
