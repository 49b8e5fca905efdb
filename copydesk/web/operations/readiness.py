"""Whether this process should be sent work. Each part is asked in a bounded time, whatever has become of it."""

import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import text

from copydesk.core.db.migrate import HEAD, UNFINISHED
from copydesk.core.errors import Explained
from copydesk.core.runtime.cached_probe import Asked
from copydesk.desk import Desk

PATIENCE_SECONDS = 1.5
LEAST_FREE = 32 * 1024 * 1024
"""Bytes on the disk of the data folder, below which no store can be relied on to write."""
VERSION = text("select version_num from alembic_version")
READ_ONLY = text("select current_setting('transaction_read_only') = 'on'")


class NotReady(Explained):
    """A part of the service cannot do its work; the message says why."""


@dataclass(frozen=True)
class Report:
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

    def __init__(self, desk: Desk, *, with_analytics: bool, least_free: int = LEAST_FREE) -> None:
        self.desk = desk
        self.is_draining = False
        self._least_free = least_free
        self._parts: dict[str, Asked[int | None]] = {
            "database": Asked(self._database),
            "disk": Asked(self._disk),
        }
        if with_analytics:
            self._parts["analytics"] = Asked(self._backlog)

    def report(self) -> Report:
        if self.is_draining:
            return Report({"draining": "This process is about to stop."})
        until = time.monotonic() + PATIENCE_SECONDS
        asked = {name: part.begin() for name, part in self._parts.items()}
        faults = {name: _fault(answer, until - time.monotonic()) for name, answer in asked.items()}
        counted = "analytics" in asked and not faults["analytics"]
        return Report(faults, asked["analytics"].result() if counted else None)

    def _database(self) -> None:
        """An older schema than ours fails our statements; a newer one is that of the release that comes next, beside
        which this one goes on until it is stopped."""
        with self.desk.database.read() as tx:
            version = tx.execute(VERSION).scalar()
            if not self.desk.database.is_sqlite and tx.execute(READ_ONLY).scalar():
                raise NotReady("The database takes no changes: it is a replica, or was set so.")
        if version is None or version == UNFINISHED or version < HEAD:
            raise NotReady(f"The database's schema is {version}, and this version of Copydesk needs {HEAD}.")

    def _disk(self) -> None:
        if shutil.disk_usage(self.desk.settings.data).free < self._least_free:
            raise NotReady("The disk of the data folder is full.")
        if not os.access(self.desk.settings.data, os.W_OK):
            raise NotReady("The data folder cannot be written to.")

    def _backlog(self) -> int:
        """Views that wait to be folded, of a store that answers."""
        if not self.desk.may_have_views:
            return 0
        self.desk.store.ping()
        return self.desk.store.backlog()


def _fault(answer: "Future[int | None]", seconds: float) -> str | None:
    """In words that may be shown to anybody: what a driver says may name a host or a user."""
    try:
        answer.result(max(0.0, seconds))
    except TimeoutError:
        return "There is no answer."
    except Explained as error:
        return str(error)
    except Exception as error:
        return f"It fails ({type(error).__name__})."
    return None
