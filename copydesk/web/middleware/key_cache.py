"""Opening projects with keys: what a key opened is remembered for as long as nothing in the database changes."""

import re
from hashlib import sha256

from copydesk.core import clock
from copydesk.core.accounts.api_keys import Key
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import call
from copydesk.desk import Desk

MOST_REMEMBERED = 1_000
EVENTS = re.compile(r"/v1/analytics/[^/]+/events")
Asked = tuple[bytes, str, str, str | None]


def scope_needed(method: str, path: str) -> str:
    """Returns the scope that a key needs for this request."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return "read"
    return "events" if method == "POST" and EVENTS.fullmatch(path) else "write"


class Openings:
    """A server that sends every page view by itself uses its key a thousand times a second. A revoked key is refused
    at once all the same: revoking it is a change."""

    def __init__(self, desk: Desk) -> None:
        self._keys, self._database = desk.keys, desk.database
        self._version = -1
        self._opened: dict[Asked, tuple[Key, Project]] = {}

    async def open(self, secret: str, project_id: str, scope: str, address: str | None) -> tuple[Key, Project]:
        version = self._database.version()
        if version is None:
            return await call(self._keys.open, secret, project_id, scope, address)
        if version != self._version or len(self._opened) >= MOST_REMEMBERED:
            self._version, self._opened = version, {}
        asked = sha256(secret.encode()).digest(), project_id, scope, address
        known = self._opened.get(asked)
        if known and (known[0].expires_at is None or clock.now() < known[0].expires_at):
            return known
        # SQLite's readers never wait, so this costs less than going to a thread.
        self._opened[asked] = found = self._keys.open(secret, project_id, scope, address)
        return found
