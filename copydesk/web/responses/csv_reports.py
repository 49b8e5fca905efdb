"""Reports as CSV (RFC 4180) that no spreadsheet takes for formulas."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

REPORT_COLUMNS = {
    "visitors": ("path", "human", "ai", "total"),
    "views": ("path", "human", "ai", "total"),
    "agents": ("agent", "operator", "class", "visitors", "views"),
    "timeseries": ("date", "human", "ai", "total", "viewsHuman", "viewsAi", "viewsTotal"),
}
"""Of each report as a table."""
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes text that begins with it for something to run; the full-width ones too."""


def render_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([_escape_formula(value) for value in row] for row in rows)
    return buffer.getvalue()


def render_report_csv(name: str, report: BaseModel) -> str:
    """The report of this name; its rows are the view's field of that name."""
    return render_csv(REPORT_COLUMNS[name], (flatten_row(row.model_dump()) for row in getattr(report, name)))


def flatten_row(row: dict[str, Any]) -> list[Any]:
    """The cells of a row; an object within it gives several."""
    return [cell for value in row.values() for cell in (value.values() if isinstance(value, dict) else [value])]


def _escape_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_PREFIXES) else value


def prefers_csv(accept: str) -> bool:
    """Whether an Accept header ranks CSV before JSON; among equals the one that is named more plainly, then JSON."""
    return _rank_media_type(accept, "text", "csv") > _rank_media_type(accept, "application", "json")


def _rank_media_type(accept: str, main_type: str, subtype: str) -> tuple[float, int]:
    """The weight that the plainest of the ranges that fit gives a media type, and how plain that is."""
    best_specificity, quality = 0, 0.0
    for part in accept.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        specificity = {f"{main_type}/{subtype}": 3, f"{main_type}/*": 2, "*/*": 1}.get(media_range, 0)
        if specificity > best_specificity:
            best_specificity, quality = specificity, _parse_quality(parameters)
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
