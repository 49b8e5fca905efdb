"""Rate limits that are counted in the database, so all processes share them. A window starts with its first request."""

from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, TextClause, text

from copydesk.core.db.database import Database
from copydesk.core.errors import RequestError

# A window that starts in the future is from before the clock was set back.
WINDOW_EXPIRED_SQL = "limits.started_at + :window <= {now} or limits.started_at > {now} + 1000"
ADD_USES_SQL = """
    insert into limits (bucket, started_at, used) values (:bucket, {now}, :uses)
    on conflict (bucket) do update set
        used = case when {over} then :uses else limits.used + :uses end,
        started_at = case when {over} then {now} else limits.started_at end
    returning used, started_at + :window - {now} as remaining
"""


class TooManyRequests(RequestError):
    status, code = 429, "too_many_requests"
    message = "Too many requests; try again later."


@dataclass(frozen=True)
class RateLimit:
    name: str
    quota: int
    window_ms: int
    setting: str = ""
    """The variable that sets the quota, if one does; messages name it."""

    def headers(self, remaining: int, reset_seconds: int) -> dict[str, str]:
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.quota};w={self.window_ms // 1000}',
            "RateLimit": f'"{self.name}";r={remaining};t={reset_seconds}',
        }

    def exceeded_error(self, reset_seconds: int) -> TooManyRequests:
        minutes = self.window_ms // 60_000
        period = "per minute" if minutes == 1 else f"per {minutes} minutes"
        setting = f" ({self.setting})" if self.setting else ""
        message = f"The limit of {self.quota} {period} is reached{setting}. Try again in {reset_seconds} s."
        return TooManyRequests(message, headers={**self.headers(0, reset_seconds), "Retry-After": str(reset_seconds)})


@cache
def _add_uses_statement(now: str) -> TextClause:
    return text(ADD_USES_SQL.format(now=now, over=WINDOW_EXPIRED_SQL.format(now=now)))


def consume(database: Database, tx: Connection, limit: RateLimit, owner: str) -> dict[str, str]:
    """Counts one use in the caller's transaction, so that refused and rolled-back requests are not counted."""
    used, remaining = add_uses(database, tx, limit, owner, 1)
    reset_seconds = max(1, -(-remaining // 1000))
    if used > limit.quota:
        raise limit.exceeded_error(reset_seconds)
    return limit.headers(limit.quota - used, reset_seconds)


def add_uses(database: Database, tx: Connection, limit: RateLimit, owner: str, uses: int) -> tuple[int, int]:
    """Adds uses to a window. Returns its total uses, including these, and the milliseconds until it ends."""
    params = {"bucket": f"{limit.name}:{owner}", "window": limit.window_ms, "uses": uses}
    used, remaining = tx.execute(_add_uses_statement(database.clock_sql), params).one()
    return used, remaining
