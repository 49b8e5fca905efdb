"""One caller tries and the others wait: what took long and failed has failed for all of them."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from copydesk.analytics.stores.clickhouse.connection.errors import explained
from copydesk.core.errors import StoreDown

LONG_SECONDS, REST_SECONDS = 0.5, 2.0


class Trying:
    """Each caller has a thread that others wait for: they must not stand in a row before a server that is silent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed = -math.inf

    @contextmanager
    def alone(self) -> Iterator[None]:
        """StoreDown for whoever waited for a failure, and for whoever comes within the next moment."""
        came = time.monotonic()
        with self._lock:
            begun = time.monotonic()
            if self._failed > came - REST_SECONDS:
                raise StoreDown
            try:
                yield
            except Exception as error:
                if type(explained(error)) is StoreDown and time.monotonic() - begun > LONG_SECONDS:
                    self._failed = time.monotonic()
                raise
