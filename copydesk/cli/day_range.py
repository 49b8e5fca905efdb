"""The days that a command covers: from the first to the last, both included, as on the pages of the dashboard."""

from typing import NamedTuple

from copydesk.core.errors import InvalidRequest


class DayBounds(NamedTuple):
    """The first day, and the day after the last, as days since 1970. None means that there is no bound."""

    first: int | None
    end: int | None

    @property
    def date_from(self) -> str | None:
        """The first day, as the API expects it."""
        return _format_bound(self.first)

    @property
    def date_to(self) -> str | None:
        """The day after the last, as the API expects it."""
        return _format_bound(self.end)


def parse_day_bounds(first: str | None, last: str | None) -> DayBounds:
    """Parses `--from` and `--to`. Raises InvalidRequest if one is not a date, or if they leave no day."""
    first_day = _parse_option("--from", first)
    last_day = _parse_option("--to", last)
    if first_day is not None and last_day is not None and first_day > last_day:
        raise InvalidRequest(f"--from {first} is after --to {last}. Both days are included; swap them.")
    return DayBounds(first_day, None if last_day is None else last_day + 1)


def _parse_option(option: str, text: str | None) -> int | None:
    from copydesk.analytics.date_ranges import InvalidDate, parse_day

    try:
        return parse_day(text) if text else None
    except InvalidDate as error:
        raise InvalidRequest(f"{option} {error}.") from None


def _format_bound(day: int | None) -> str | None:
    from copydesk.analytics.date_ranges import clamp_day_range, format_day

    return None if day is None else format_day(clamp_day_range(day, None).first)
