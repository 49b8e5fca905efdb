"""Checks whether this process is ready for work. Each part is checked with a timeout."""

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
"""The free space on the disk of the data folder below which the stores may fail to write."""
SELECT_SCHEMA_VERSION = text("select version_num from alembic_version")
SELECT_READ_ONLY = text("select current_setting('transaction_read_only') = 'on'")


class PartNotReady(UserFacingError):
    """A part of the service does not work. The message says why."""


@dataclass(frozen=True)
class ReadinessReport:
    faults: Mapping[str, str | None]
    """The problem of each part, or None if the part works."""
    backlog: int | None = None
    """The number of views waiting to be folded, or None if the store is not checked or unavailable."""

    @property
    def is_ready(self) -> bool:
        return not any(self.faults.values())

    @property
    def parts(self) -> dict[str, str]:
        return {part: fault or "ok" for part, fault in self.faults.items()}


class Readiness:
    """Checks the parts of the service. `with_analytics` is for servers; workers do not use the analytics store."""

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
        """Raises PartNotReady if the database is read-only or its schema is older than this version needs.

        A newer schema belongs to the next release. This version can still work with it until it is stopped.
        """
        with self.desk.database.read() as tx:
            version = tx.execute(SELECT_SCHEMA_VERSION).scalar()
            if not self.desk.database.is_sqlite and tx.execute(SELECT_READ_ONLY).scalar():
                raise PartNotReady("The database is read-only: it is a replica, or it was set to read-only.")
        if version is None or version == UNFINISHED_VERSION or version < SCHEMA_VERSION:
            raise PartNotReady(
                f"The database has schema {version}, but this version of Copydesk needs {SCHEMA_VERSION}."
            )

    def _check_disk(self) -> None:
        if shutil.disk_usage(self.desk.settings.data).free < self._min_free_bytes:
            raise PartNotReady("The disk of the data folder is full.")
        if not os.access(self.desk.settings.data, os.W_OK):
            raise PartNotReady("The data folder is not writable.")

    def _read_backlog(self) -> int:
        """Returns the number of views waiting to be folded. Raises an error if the store does not respond."""
        if not self.desk.may_have_views:
            return 0
        self.desk.store.ping()
        return self.desk.store.backlog()


def _describe_fault(future: "Future[int | None]", seconds: float) -> str | None:
    """Returns a public description of the problem, or None. Omits driver messages, which may name a host or a user."""
    try:
        future.result(max(0.0, seconds))
    except TimeoutError:
        return "No response."
    except UserFacingError as error:
        return str(error)
    except Exception as error:
        return f"Failed ({type(error).__name__})."
    return None
