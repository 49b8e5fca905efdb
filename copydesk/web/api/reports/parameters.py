"""The query parameters that reports share: limits, offsets, cursors and date ranges.

Empty parameters do not arrive here: the request gate removes them.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from pydantic import BeforeValidator, Field, WithJsonSchema

from copydesk.analytics.date_ranges import TimeRange, clamp_day_range, clamp_time_range, parse_time
from copydesk.analytics.stores.base import DayRange
from copydesk.core.clock import DAY
from copydesk.web.api.dependencies import CurrentProject, OpenDesk, error_responses
from copydesk.web.api.reports.response import ReportRequest

MAX_ROWS, MAX_ENTRIES, MAX_CONVERSATIONS = 250, 100, 1000
MAX_OFFSET = 1 << 40
"""Larger than any number of rows, and within the integer range of the stores."""
WHOLE_NUMBER_PATTERN = re.compile(r"([0-9]{1,4000})(?:\.0*)?")
"""Generated clients send floats: 50.0 is 50. Anything else that is not only digits is probably a mistake."""
DATE_SCHEMA = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
REPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the response with the ETag in `If-None-Match`."},
    **error_responses(429),
}
TABLE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON, or CSV if `Accept` prefers it.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    },
    **REPORT_RESPONSES,
}


def _parse_whole_number(value: Any) -> int:
    """Returns the number, or -1 if the text is not a whole number."""
    match = WHOLE_NUMBER_PATTERN.fullmatch(str(value))
    return int(match[1]) if match else -1


def build_limit_validator(maximum: int) -> Callable[[Any], int]:
    def validate(value: Any) -> int:
        number = _parse_whole_number(value)
        if not 1 <= number <= maximum:
            raise ValueError(f"must be a whole number between 1 and {maximum}")
        return number

    return validate


def _validate_offset(value: Any) -> int:
    number = _parse_whole_number(value)
    if number < 0:
        raise ValueError("must be a whole number, 0 or more")
    return min(number, MAX_OFFSET)


def _parse_time_param(value: Any) -> Any:
    return parse_time(value) if isinstance(value, str) else value


async def create_report_request(
    request: Request,
    desk: OpenDesk,
    project: CurrentProject,
    if_none_match: Annotated[str | None, Header(description="The `ETag` of the response that the client has.")] = None,
) -> ReportRequest:
    return ReportRequest(request, desk, project)


DateFrom = Annotated[
    int | None,
    BeforeValidator(_parse_time_param),
    WithJsonSchema(DATE_SCHEMA),
    Query(alias="dateFrom", description="The first day, or a time on it, in UTC unless it has an offset."),
]
DateTo = Annotated[
    int | None,
    BeforeValidator(_parse_time_param),
    WithJsonSchema(DATE_SCHEMA),
    Query(alias="dateTo", description="The day after the last, or a time on it, in UTC unless it has an offset."),
]


async def read_day_params(date_from: DateFrom = None, date_to: DateTo = None) -> DayRange:
    first_day = None if date_from is None else date_from // DAY
    return clamp_day_range(first_day, None if date_to is None else date_to // DAY)


async def read_time_params(date_from: DateFrom = None, date_to: DateTo = None) -> TimeRange:
    return clamp_time_range(date_from, date_to)


CurrentReportRequest = Annotated[ReportRequest, Depends(create_report_request)]
DateRangeParams = Annotated[DayRange, Depends(read_day_params)]
TimeRangeParams = Annotated[TimeRange, Depends(read_time_params)]
"""For lists of single rows, which honor a time to the millisecond."""
RowLimit = Annotated[
    int,
    Field(ge=1, le=MAX_ROWS),
    BeforeValidator(build_limit_validator(MAX_ROWS)),
    Query(description="The maximum number of rows."),
]
EntryLimit = Annotated[
    int,
    Field(ge=1, le=MAX_ENTRIES),
    BeforeValidator(build_limit_validator(MAX_ENTRIES)),
    Query(description="The maximum number of rows."),
]
ConversationLimit = Annotated[
    int,
    Field(ge=1, le=MAX_CONVERSATIONS),
    BeforeValidator(build_limit_validator(MAX_CONVERSATIONS)),
    Query(description="The maximum number of rows."),
]
Offset = Annotated[
    int, Field(ge=0), BeforeValidator(_validate_offset), Query(description="The number of rows to skip.")
]
