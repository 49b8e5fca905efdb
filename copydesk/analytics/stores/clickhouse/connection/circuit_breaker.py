"""One caller tries and the others wait: what took long and failed has failed for all of them."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from copydesk.analytics.stores.clickhouse.connection.errors import translate_error
from copydesk.core.errors import StoreUnavailable

SLOW_FAILURE_SECONDS, COOL_DOWN_SECONDS = 0.5, 2.0


class CircuitBreaker:
    """Each caller has a thread that others wait for: they must not stand in a row before a server that is silent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at = -math.inf

    @contextmanager
    def guard(self) -> Iterator[None]:
        """StoreDown for whoever waited for a failure, and for whoever comes within the next moment."""
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
