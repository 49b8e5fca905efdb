"""The days that a report covers. Tools and resources take the first and the last day, both included."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypedDict

from pydantic import Field

from copydesk.mcp.tools.tool import Arguments, ArgumentsRefused

DEFAULT_DAYS = 30


class DayRange(TypedDict):
    firstDay: str | None
    lastDay: str | None


class DayRangeArguments(Arguments):
    first_day: date | None = None
    """The first day, such as 2026-01-31, in UTC."""
    last_day: date | None = None
    """The last day, included. By default, today."""
    last_days: Annotated[int, Field(ge=1, le=3660)] | None = None
    """Instead of firstDay and lastDay: this many days up to today. By default, 30."""

    def resolve(self) -> tuple[dict[str, str | None], DayRange]:
        """Returns the parameters of the API, and the range for the result."""
        first, last = self._find_days()
        if first is not None and last is not None and first > last:
            raise ArgumentsRefused(f"firstDay {first} is after lastDay {last}. Both days are included; swap them.")
        end = last + timedelta(days=1) if last is not None and last < date.max else None
        query = {"dateFrom": _format(first), "dateTo": _format(end)}
        return query, {"firstDay": _format(first), "lastDay": _format(last)}

    def _find_days(self) -> tuple[date | None, date | None]:
        today = datetime.now(UTC).date()
        if self.first_day is None and self.last_day is None:
            return today - timedelta(days=(self.last_days or DEFAULT_DAYS) - 1), today
        if self.last_days is not None:
            raise ArgumentsRefused("Use either lastDays, or firstDay and lastDay.")
        return self.first_day, self.last_day or max(today, self.first_day or today)


def _format(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def add_range(result: Any, days: DayRange) -> dict[str, Any]:
    return {"range": days, **result}
