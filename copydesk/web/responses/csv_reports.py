"""Renders reports as CSV (RFC 4180), with text escaped that a spreadsheet would run as a formula."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from copydesk.core.text.csv_cells import escape_formula

REPORT_COLUMNS = {
    "visitors": ("path", "human", "ai", "total"),
    "views": ("path", "human", "ai", "total"),
    "agents": ("agent", "operator", "class", "visitors", "views"),
    "timeseries": ("date", "human", "ai", "total", "viewsHuman", "viewsAi", "viewsTotal"),
}
"""The columns of each report."""
LIST_COLUMNS = {
    "feedback": (
        *("id", "createdAt", "path", "source", "status", "helpful", "rated", "comment", "contact"),
        *("code", "filename", "lang"),
    ),
    "feedback-by-page": ("path", "thumbsUp", "thumbsDown", "code", "total"),
    "searches": ("searchQuery", "hits", "ctr", "topClickedPage", "lastSearchedAt"),
    "missing": ("path", "human", "ai", "total", "requests", "lastSeenAt", "referrers"),
    "stale": ("path", "readers", "file", "lastEdit", "sources"),
    "referrers": ("referrer", "kind", "visitors", "views"),
    "sections": ("section", "human", "ai", "total", "views"),
    "history": ("date", "source", "visitors", "pageviews"),
    "history-pages": ("path", "source", "visitors", "pageviews"),
    "assistant": (
        *("id", "timestamp", "query", "response", "responseType", "resolutionStatus", "queryCategory", "pageUrl"),
        "sources",
    ),
}
"""The columns of each list. A row may lack some of them."""


def render_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([_escape_formula(value) for value in row] for row in rows)
    return buffer.getvalue()


def render_report_csv(name: str, report: BaseModel) -> str:
    """Renders a report as CSV. Its rows are in the field of this name."""
    return render_csv(REPORT_COLUMNS[name], (flatten_row(row.model_dump()) for row in getattr(report, name)))


def render_list_csv(name: str, rows: Iterable[BaseModel]) -> str:
    """Renders rows of a list as CSV. A cell with a list has one line for each of its objects."""
    dicts = (row.model_dump(mode="json", by_alias=True) for row in rows)
    return render_csv(LIST_COLUMNS[name], (to_cells(name, values) for values in dicts))


def get_columns(name: str) -> Sequence[str]:
    """Returns the columns of a report or a list."""
    return REPORT_COLUMNS[name] if name in REPORT_COLUMNS else LIST_COLUMNS[name]


def to_cells(name: str, row: dict[str, Any]) -> list[Any]:
    """Returns the cells of a row of a report or a list, as the API returns it."""
    if name in REPORT_COLUMNS:
        return flatten_row(row)
    return [_to_cell(row.get(column)) for column in LIST_COLUMNS[name]]


def _to_cell(value: Any) -> Any:
    """Returns the value. A list of objects becomes one line for each, and an object the text of its fields."""
    if isinstance(value, dict):
        return _join_fields(value)
    return "\n".join(_join_fields(item) for item in value) if isinstance(value, list) else value


def _join_fields(item: dict[str, Any]) -> str:
    """Returns the fields as text. Null and empty fields are left out; a list is separated by commas."""
    return " ".join(text for part in item.values() if (text := _join_parts(part)))


def _join_parts(part: Any) -> str:
    if isinstance(part, dict):
        return _join_fields(part)
    if isinstance(part, list):
        return ", ".join(_join_parts(each) for each in part)
    return "" if part is None else str(part)


def flatten_row(row: dict[str, Any]) -> list[Any]:
    """Returns the cells of a row. A nested object becomes several cells."""
    return [cell for value in row.values() for cell in (value.values() if isinstance(value, dict) else [value])]


def _escape_formula(value: Any) -> Any:
    return escape_formula(value) if isinstance(value, str) else value


def prefers_csv(accept: str) -> bool:
    """Returns whether an Accept header prefers CSV to JSON. If equal, the more specific range wins, then JSON."""
    return _rank_media_type(accept, "text", "csv") > _rank_media_type(accept, "application", "json")


def _rank_media_type(accept: str, main_type: str, subtype: str) -> tuple[float, int]:
    """Returns the quality of the most specific range that matches the media type, and its specificity."""
    best_specificity = 0
    quality = 0.0
    for part in accept.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        specificity = {f"{main_type}/{subtype}": 3, f"{main_type}/*": 2, "*/*": 1}.get(media_range, 0)
        if specificity > best_specificity:
            best_specificity = specificity
            quality = _parse_quality(parameters)
    return (quality, best_specificity) if quality else (0.0, 0)


def _parse_quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
