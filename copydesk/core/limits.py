"""Rate limits, counted in the database and so shared by every process. A window opens with its first request."""

from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, TextClause, text

from copydesk.core.database import Database
from copydesk.core.errors import Refusal

# A window that begins in the future is from before the clock was set back.
OVER = "limits.started_at + :window <= {now} or limits.started_at > {now} + 1000"
TAKE = """
    insert into limits (bucket, started_at, used) values (:bucket, {now}, 1)
    on conflict (bucket) do update set
        used = case when {over} then 1 else limits.used + 1 end,
        started_at = case when {over} then {now} else limits.started_at end
    returning used, started_at + :window - {now} as remaining
"""


class TooManyRequests(Refusal):
    """Too many requests; try again later."""

    status, code = 429, "too_many_requests"


@dataclass(frozen=True)
class Limit:
    name: str
    quota: int
    window: int
    """Milliseconds."""

    def headers(self, left: int, reset: int) -> dict[str, str]:
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.quota};w={self.window // 1000}',
            "RateLimit": f'"{self.name}";r={left};t={reset}',
        }


@cache
def _take(now: str) -> TextClause:
    return text(TAKE.format(now=now, over=OVER.format(now=now)))


def take(database: Database, tx: Connection, limit: Limit, owner: str) -> dict[str, str]:
    """Counts one use in the caller's transaction, so that what is refused or rolled back is not counted."""
    row = tx.execute(_take(database.clock), {"bucket": f"{limit.name}:{owner}", "window": limit.window}).one()
    reset = max(1, -(-row.remaining // 1000))
    headers = limit.headers(max(0, limit.quota - row.used), reset)
    if row.used > limit.quota:
        message = f"The limit of {limit.quota} per {limit.window // 60_000} minutes is used up; try again in {reset} s."
        raise TooManyRequests(message, headers={**headers, "Retry-After": str(reset)})
    return headers
