"""Formats that the user describes with `--fields`: for each field of a request, its name or its column."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from copydesk.analytics.log_import.formats.json_lines import (
    FieldNames,
    JsonFormat,
    line_from_fields,
    parse_record,
)
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine
from copydesk.analytics.page_view import Dropped
from copydesk.core.errors import InvalidRequest

FIELD_BY_OPTION = {
    "time": "when",
    "url": "url",
    "request": "request",
    "method": "method",
    "status": "status",
    "address": "address",
    "agent": "agent",
    "host": "host",
    "referrer": "referrer",
    "forwarded": "forwarded",
    "accept": "accept",
    "type": "type",
    "visitor": "visitor_id",
    "event": "event_id",
}
DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
DELIMITER_OPTION = "delimiter"
TOKEN_PATTERN = re.compile(r'"((?:[^"\\]|\\.)*+)"|\[([^\]]{0,200}+)\]|(\S++)')
"""A value between quotes or brackets, or up to the next blank."""
CUSTOM_FORMAT = "fields"


class InvalidFieldMap(InvalidRequest):
    message = "--fields is invalid."


def parse_field_map(text: str) -> tuple[tuple[str, str], ...]:
    """Parses `time=ts,url=uri,status=code,…`. Raises InvalidFieldMap with a one-sentence message."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    field_map = {option.strip(): name.strip() for option, _, name in pairs}
    options = ", ".join((*FIELD_BY_OPTION, DELIMITER_OPTION))
    if unknown := [option for option in field_map if option not in FIELD_BY_OPTION and option != DELIMITER_OPTION]:
        raise InvalidFieldMap(f"--fields: {unknown[0]!r} is not a field. The fields are {options}.")
    if empty := [option for option, name in field_map.items() if not name]:
        raise InvalidFieldMap(f"--fields: {empty[0]} needs a name or a column number, as in {empty[0]}=3.")
    if field_map.get(DELIMITER_OPTION, "space") not in DELIMITERS:
        raise InvalidFieldMap(f"--fields: delimiter is one of {', '.join(DELIMITERS)}.")
    if not {"time", "status"} <= field_map.keys() or not {"url", "request"} & field_map.keys():
        raise InvalidFieldMap("--fields needs at least time, status, and url or request.")
    return tuple(field_map.items())


class CustomFormat(JsonFormat):
    """A log whose fields are named by the user: names in JSON records, names of a header line, or column numbers."""

    def __init__(self, field_map: tuple[tuple[str, str], ...]) -> None:
        names = {FIELD_BY_OPTION[option]: name for option, name in field_map if option in FIELD_BY_OPTION}
        field_names: FieldNames = {"url": (), **{field: (name,) for field, name in names.items()}}
        super().__init__(CUSTOM_FORMAT, field_names)
        self._names = names
        self._has_numbers = all(name.isdecimal() for name in names.values())
        self._delimiter = DELIMITERS.get(dict(field_map).get(DELIMITER_OPTION, ""))
        self._columns: list[str] = []

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line or a header."""
        for line in text.split("\n"):
            yield self._parse_line(line) if line and not line.isspace() else None

    def is_complete(self, line: str) -> bool:
        return line.startswith("{") and parse_record(line) is not None

    def _parse_line(self, line: str) -> LogLine | Dropped | None:  # type: ignore[override]
        if line.startswith("{"):
            record = parse_record(line)
            return MALFORMED if record is None else self.line_from_record(line, record)
        values = self._split(line)
        if self._has_numbers:
            columns = [str(number) for number in range(1, len(values) + 1)]
        elif set(self._names.values()) <= set(values) or line.startswith("#"):
            self._columns = values
            return None
        else:
            columns = self._columns
        if len(values) != len(columns):
            return MALFORMED
        return self._line_from_columns(line, dict(zip(columns, values, strict=True)))

    def _line_from_columns(self, line: str, record: Mapping[str, str]) -> LogLine | Dropped:
        if not set(self._names.values()) <= record.keys():
            return MALFORMED  # a line with too few columns is cut off
        fields: dict[str, Any] = {
            field: record[name] for field, name in self._names.items() if record[name] not in ("", "-")
        }
        if "url" not in fields and "request" not in fields:
            return MALFORMED
        return line_from_fields(line, fields)

    def _split(self, line: str) -> list[str]:
        delimiter = self._delimiter or ("\t" if "\t" in line else " ")
        if delimiter == " ":
            return [quoted or bracketed or word for quoted, bracketed, word in TOKEN_PATTERN.findall(line)]
        if '"' in line:
            return next(csv.reader([line], delimiter=delimiter), [])
        return line.split(delimiter)
