"""Reports as CSV (RFC 4180) that no spreadsheet takes for formulas."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

COLUMNS = {
    "visitors": ("path", "human", "ai", "total"),
    "views": ("path", "human", "ai", "total"),
    "agents": ("agent", "operator", "class", "visitors", "views"),
    "timeseries": ("date", "human", "ai", "total", "viewsHuman", "viewsAi", "viewsTotal"),
}
"""Of each report as a table."""
RUNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes text that begins with it for something to run; the full-width ones too."""


def sheet(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return written.getvalue()


def report_sheet(name: str, view: BaseModel) -> str:
    """The report of this name; its rows are the view's field of that name."""
    return sheet(COLUMNS[name], (flat(row.model_dump()) for row in getattr(view, name)))


def flat(row: dict[str, Any]) -> list[Any]:
    """The cells of a row; an object within it gives several."""
    return [cell for value in row.values() for cell in (value.values() if isinstance(value, dict) else [value])]


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(RUNS) else value


def prefers_csv(accept: str) -> bool:
    """Whether an Accept header ranks CSV before JSON; among equals the one that is named more plainly, then JSON."""
    return _rank(accept, "text", "csv") > _rank(accept, "application", "json")


def _rank(accept: str, kind: str, form: str) -> tuple[float, int]:
    """The weight that the plainest of the ranges that fit gives a media type, and how plain that is."""
    best, weight = 0, 0.0
    for part in accept.lower().split(","):
        wanted, *parameters = (piece.strip() for piece in part.split(";"))
        plainness = {f"{kind}/{form}": 3, f"{kind}/*": 2, "*/*": 1}.get(wanted, 0)
        if plainness > best:
            best, weight = plainness, _weight(parameters)
    return (weight, best) if weight else (0.0, 0)


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
