"""Lets requests begin a few at a time, so that a burst of them does not hold up the event loop."""

import asyncio
from collections import deque

MAX_REQUESTS_PER_TURN = 8


class RequestPacer:
    """Lets at most so many requests begin in one turn of the event loop; the others follow in order.

    Between two turns the loop looks at its connections, and answers what does not wait here, such as /healthz."""

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
            if not turn.done():  # its client went away
                turn.set_result(None)
                self._started_this_turn += 1
        if self._started_this_turn:
            self._started_this_turn += len(self._waiting)  # who comes now waits behind them
            asyncio.get_running_loop().call_soon(self._next_turn)
