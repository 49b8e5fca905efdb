"""The side that asks: calls the process that owns the file, and tells apart what becomes of a call."""

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from copydesk.analytics.stores.shared import protocol as wire
from copydesk.core.errors import StoreDown

PROOFS = 8
"""How often, within its patience, a guest that waits for an answer wants to see that the owner is alive."""


class Away(Exception):
    """Nobody serves the store at this moment. The call was not carried out."""


class OwnerSilent(StoreDown):
    code = "store_silent"
    message = (
        "The process that owns the analytics store does not respond: it is paused or overloaded. Try again shortly."
    )


class OwnerGone(StoreDown):
    code = "store_lost"
    message = (
        "The process that owns the analytics store ended during this call; it may or may not have been carried out."
    )


class OtherVersion(StoreDown):
    code = "store_version"
    message = "A process of another version of Copydesk owns the analytics store; restart that process."


class Guest:
    """Safe for many threads: each call has a line of its own, which serves the next one after it."""

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._idle: list[socket.socket] = []

    def call(self, name: str, arguments: Sequence[object]) -> Any:
        message = wire.call(name, arguments)
        line = self._sent(message)
        try:
            self._wait_for(line)
            answer = wire.receive(line)
        except TimeoutError:
            line.close()
            raise OwnerSilent from None
        except OSError:
            answer = None
        except BaseException:
            line.close()
            raise
        if answer is None:
            line.close()
            raise OwnerGone
        self._idle.append(line)
        return wire.answered(answer)

    def close(self) -> None:
        while (line := self._known()) is not None:
            line.close()

    def _sent(self, message: bytes) -> socket.socket:
        """The line on which the owner has the whole call. Of half a call the owner makes nothing."""
        while True:
            line = self._known() or self._new()
            try:
                wire.send(line, message)
            except TimeoutError:
                line.close()
                raise OwnerSilent from None
            except OSError:
                line.close()  # a line to an owner of before: there may be another one by now
            else:
                return line

    def _wait_for(self, line: socket.socket) -> None:
        """A call may take as long as it wants while its owner is alive: letting a new line in proves that it is."""
        waiting = select.poll()
        waiting.register(line, select.POLLIN)
        while not waiting.poll(self._patience * 1000 / PROOFS):
            with suppress(Away):  # an owner that is about to close lets nobody in, and answers those who are
                self._new().close()

    def _known(self) -> socket.socket | None:
        with suppress(IndexError):
            return self._idle.pop()
        return None

    def _new(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(self._patience)
        try:
            with wire.address(self._path) as address:
                line.connect(address)
            greeting = wire.receive(line)
        except TimeoutError:
            line.close()
            raise OwnerSilent from None
        except OSError:
            greeting = None
        if greeting != wire.GREETING:
            line.close()
            raise OtherVersion if greeting else Away
        return line
