"""Rate limits, counted in the database and so shared by every process. A window opens with its first request."""

from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, TextClause, text

from copydesk.core.db.database import Database
from copydesk.core.errors import Refusal

# A window that begins in the future is from before the clock was set back.
OVER = "limits.started_at + :window <= {now} or limits.started_at > {now} + 1000"
ADD = """
    insert into limits (bucket, started_at, used) values (:bucket, {now}, :uses)
    on conflict (bucket) do update set
        used = case when {over} then :uses else limits.used + :uses end,
        started_at = case when {over} then {now} else limits.started_at end
    returning used, started_at + :window - {now} as remaining
"""


class TooManyRequests(Refusal):
    status, code = 429, "too_many_requests"
    message = "Too many requests; try again later."


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

    def used_up(self, reset: int) -> TooManyRequests:
        minutes = self.window // 60_000
        span = "a minute" if minutes == 1 else f"per {minutes} minutes"
        message = f"The limit of {self.quota} {span} is used up; try again in {reset} s."
        return TooManyRequests(message, headers={**self.headers(0, reset), "Retry-After": str(reset)})


@cache
def _add(now: str) -> TextClause:
    return text(ADD.format(now=now, over=OVER.format(now=now)))


def take(database: Database, tx: Connection, limit: Limit, owner: str) -> dict[str, str]:
    """Counts one use in the caller's transaction, so that what is refused or rolled back is not counted."""
    used, remaining = add(database, tx, limit, owner, 1)
    reset = max(1, -(-remaining // 1000))
    if used > limit.quota:
        raise limit.used_up(reset)
    return limit.headers(limit.quota - used, reset)


def add(database: Database, tx: Connection, limit: Limit, owner: str, uses: int) -> tuple[int, int]:
    """The uses of all in this window, these included, and the milliseconds until it closes."""
    given = {"bucket": f"{limit.name}:{owner}", "window": limit.window, "uses": uses}
    used, remaining = tx.execute(_add(database.clock), given).one()
    return used, remaining
