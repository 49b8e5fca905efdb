"""Authenticates API keys, with a cache that is valid until the database changes."""

from hashlib import sha256

from copydesk.core import clock
from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.desk import Desk
from copydesk.web.route_patterns import MCP_PATH, SEND_EVENTS_PATH

MAX_CACHED_KEYS = 1_000
CacheKey = tuple[bytes, str | None, str, str | None]


def required_scope(method: str, path: str) -> str:
    """Returns the scope that a key needs for this request. Tools of MCP need what the calls that they make need."""
    if method in ("GET", "HEAD", "OPTIONS") or path == MCP_PATH:
        return "read"
    return "events" if method == "POST" and SEND_EVENTS_PATH.fullmatch(path) else "write"


class ApiKeyCache:
    """Caches successful key checks until the database changes.

    A site's server may use its key a thousand times per second. Revoking a key changes the database, so it takes
    effect at once.
    """

    def __init__(self, desk: Desk) -> None:
        self._keys = desk.keys
        self._database = desk.database
        self._change_counter = -1
        self._entries = BoundedCache[CacheKey, tuple[ApiKey, Project]](MAX_CACHED_KEYS)

    async def authenticate(
        self, secret: str, project_id: str | None, scope: str, address: str | None
    ) -> tuple[ApiKey, Project]:
        change_counter = self._database.read_change_counter()
        if change_counter is None:
            return await run_in_thread(self._keys.authenticate, secret, project_id, scope, address)
        if change_counter != self._change_counter:
            self._change_counter = change_counter
            self._entries.clear()
        cache_key = sha256(secret.encode()).digest(), project_id, scope, address
        entry = self._entries.get(cache_key)
        if entry and (entry[0].expires_at is None or clock.now() < entry[0].expires_at):
            return entry
        # Readers of SQLite never wait, so a direct call costs less than a thread.
        return self._entries.store(cache_key, self._keys.authenticate(secret, project_id, scope, address))
