"""A circuit breaker: one caller tries while the others wait, and a slow failure fails all of them."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from copydesk.analytics.stores.clickhouse.connection.errors import translate_error
from copydesk.core.errors import StoreUnavailable

SLOW_FAILURE_SECONDS, COOL_DOWN_SECONDS = 0.5, 2.0


class CircuitBreaker:
    """Keeps request threads from waiting one after another for a server that does not respond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at = -math.inf

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Runs one caller at a time.

        After a slow failure, raises StoreUnavailable for the callers that waited for it, and for those that come within
        COOL_DOWN_SECONDS.
        """
        arrived_at = time.monotonic()
        with self._lock:
            started_at = time.monotonic()
            if self._failed_at > arrived_at - COOL_DOWN_SECONDS:
                raise StoreUnavailable
            try:
                yield
            except Exception as error:
                if (
                    type(translate_error(error)) is StoreUnavailable
                    and time.monotonic() - started_at > SLOW_FAILURE_SECONDS
                ):
                    self._failed_at = time.monotonic()
                raise
