"""Whether this process should be sent work. Each part is asked in a bounded time, whatever has become of it."""

import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import text

from copydesk.core.db.migrate import SCHEMA_VERSION, UNFINISHED_VERSION
from copydesk.core.errors import UserFacingError
from copydesk.core.runtime.cached_probe import CachedProbe
from copydesk.desk import Desk

PROBE_TIMEOUT_SECONDS = 1.5
MIN_FREE_BYTES = 32 * 1024 * 1024
"""Bytes on the disk of the data folder, below which no store can be relied on to write."""
SELECT_SCHEMA_VERSION = text("select version_num from alembic_version")
SELECT_READ_ONLY = text("select current_setting('transaction_read_only') = 'on'")


class PartNotReady(UserFacingError):
    """A part of the service cannot do its work; the message says why."""


@dataclass(frozen=True)
class ReadinessReport:
    faults: Mapping[str, str | None]
    """By part: None where all is well."""
    backlog: int | None = None
    """Views that wait to be folded, where the store could be asked."""

    @property
    def is_ready(self) -> bool:
        return not any(self.faults.values())

    @property
    def parts(self) -> dict[str, str]:
        return {part: fault or "ok" for part, fault in self.faults.items()}


class Readiness:
    """`with_analytics` is for processes that serve: a worker has no business with the views."""

    def __init__(self, desk: Desk, *, with_analytics: bool, min_free_bytes: int = MIN_FREE_BYTES) -> None:
        self.desk = desk
        self.is_draining = False
        self._min_free_bytes = min_free_bytes
        self._probes: dict[str, CachedProbe[int | None]] = {
            "database": CachedProbe(self._check_database),
            "disk": CachedProbe(self._check_disk),
        }
        if with_analytics:
            self._probes["analytics"] = CachedProbe(self._read_backlog)

    def check(self) -> ReadinessReport:
        if self.is_draining:
            return ReadinessReport({"draining": "This process is about to stop."})
        deadline = time.monotonic() + PROBE_TIMEOUT_SECONDS
        futures = {name: probe.start() for name, probe in self._probes.items()}
        faults = {name: _describe_fault(future, deadline - time.monotonic()) for name, future in futures.items()}
        has_backlog = "analytics" in futures and not faults["analytics"]
        return ReadinessReport(faults, futures["analytics"].result() if has_backlog else None)

    def _check_database(self) -> None:
        """An older schema than ours fails our statements; a newer one is that of the release that comes next, beside
        which this one goes on until it is stopped."""
        with self.desk.database.read() as tx:
            version = tx.execute(SELECT_SCHEMA_VERSION).scalar()
            if not self.desk.database.is_sqlite and tx.execute(SELECT_READ_ONLY).scalar():
                raise PartNotReady("The database takes no changes: it is a replica, or was set so.")
        if version is None or version == UNFINISHED_VERSION or version < SCHEMA_VERSION:
            raise PartNotReady(
                f"The database's schema is {version}, and this version of Copydesk needs {SCHEMA_VERSION}."
            )

    def _check_disk(self) -> None:
        if shutil.disk_usage(self.desk.settings.data).free < self._min_free_bytes:
            raise PartNotReady("The disk of the data folder is full.")
        if not os.access(self.desk.settings.data, os.W_OK):
            raise PartNotReady("The data folder cannot be written to.")

    def _read_backlog(self) -> int:
        """Views that wait to be folded, of a store that answers."""
        if not self.desk.may_have_views:
            return 0
        self.desk.store.ping()
        return self.desk.store.backlog()


def _describe_fault(future: "Future[int | None]", seconds: float) -> str | None:
    """In words that may be shown to anybody: what a driver says may name a host or a user."""
    try:
        future.result(max(0.0, seconds))
    except TimeoutError:
        return "There is no answer."
    except UserFacingError as error:
        return str(error)
    except Exception as error:
        return f"It fails ({type(error).__name__})."
    return None
