"""W3C extended logs: a header names the columns. CloudFront's standard logs, IIS, NetScaler and others."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from copydesk.analytics.log_import.formats.json_lines import FieldNames, JsonFormat, parse_record
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine
from copydesk.analytics.page_view import Dropped

W3C_FIELDS: FieldNames = {
    "when": ("time",),
    "url": ("cs-uri-stem", "cs-uri"),
    "method": ("cs-method",),
    "status": ("sc-status",),
    "address": ("c-ip",),
    "host": ("x-host-header", "cs(Host)", "cs-host"),
    "referrer": ("cs(Referer)",),
    "agent": ("cs(User-Agent)",),
    "forwarded": ("X-Forwarded-For", "x-forwarded-for", "cs(X-Forwarded-For)"),
    "type": ("sc-content-type",),
}
PERCENT_ENCODED_FIELDS = ("cs(Referer)", "cs(User-Agent)", "sc-content-type")
PLUS_ENCODED_FIELDS = ("cs(Referer)", "cs(User-Agent)", "X-Forwarded-For", "x-forwarded-for")
CLOUDFRONT_COLUMN_PREFIX = "x-edge-"
EMPTY_FIELD = "-"
HEADER_PATTERN = re.compile(r"#(Date|Fields):\s*(.*)")
DATE_PATTERN = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
QUOTED_VALUE_PATTERN = re.compile(r'(?<!\S)(?:"([^"]*+)"|(\S++))(?!\S)')
PLUS_PATTERN = re.compile(r"\+(\+?)")


class W3CFormat(JsonFormat):
    """A log whose columns are named by a `#Fields` line. Tabs or blanks separate the values.

    IIS and NetScaler write blanks within a value as plus signs; CloudFront encodes values with percent signs.
    """

    def __init__(self, name: str = "w3c") -> None:
        super().__init__(name, W3C_FIELDS, nested=False)
        self._columns: tuple[str, ...] = ()
        self._date = ""

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line or a header."""
        for line in text.split("\n"):
            if line.startswith("#"):
                self._read_header(line)
                yield None
            else:
                yield self._parse_line(line) if line and not line.isspace() else None

    def is_complete(self, line: str) -> bool:
        return self._parse_columns(line) is not None

    def _read_header(self, line: str) -> None:
        match = HEADER_PATTERN.match(line)
        if match and match[1] == "Fields":
            self._columns = tuple(match[2].split())
        elif match:
            self._date = match[2][:10]

    def _parse_line(self, line: str) -> LogLine | Dropped:
        record = self._parse_columns(line)
        return MALFORMED if record is None else self.line_from_record(line, self._normalize(record, "\t" in line))

    def _parse_columns(self, line: str) -> Mapping[str, Any] | None:
        values = line.split("\t") if "\t" in line else _split_at_blanks(line)
        if not self._accepts(line) or len(values) != len(self._columns):
            return None
        record = dict(zip(self._columns, values, strict=True))
        return record if DATE_PATTERN.fullmatch(record.get("date") or self._date) else None

    def _accepts(self, line: str) -> bool:
        return bool(self._columns) and not is_cloudfront(self._columns)

    def _normalize(self, record: Mapping[str, Any], percent_encoded: bool) -> dict[str, Any]:
        """Joins date and time, and path and query; decodes encoded fields; removes empty fields (`-`)."""
        fields = {name: value for name, value in record.items() if value != EMPTY_FIELD}
        fields["time"] = f"{fields.get('date') or self._date}T{fields.get('time')}Z"
        if isinstance(query := fields.get("cs-uri-query"), str) and "cs-uri-stem" in fields:
            fields["cs-uri-stem"] = f"{fields['cs-uri-stem']}?{query.removeprefix('?')}"
        for name in PERCENT_ENCODED_FIELDS if percent_encoded else PLUS_ENCODED_FIELDS:
            if isinstance(value := fields.get(name), str):
                fields[name] = _decode_percent(value) if percent_encoded else _decode_plus(value)
        return fields


class CloudFrontFormat(W3CFormat):
    """CloudFront's standard logs, as columns or with the same names in JSON records."""

    def __init__(self) -> None:
        super().__init__("cloudfront")

    def _accepts(self, line: str) -> bool:
        return is_cloudfront(self._columns) or "\t" in line

    def _parse_columns(self, line: str) -> Mapping[str, Any] | None:
        if not line.startswith("{"):
            return super()._parse_columns(line)
        record = parse_record(line)
        return record if record is not None and "cs-uri-stem" in record else None

    def _normalize(self, record: Mapping[str, Any], percent_encoded: bool) -> dict[str, Any]:
        return super()._normalize(record, percent_encoded=True)


def is_cloudfront(columns: tuple[str, ...]) -> bool:
    return any(column.startswith(CLOUDFRONT_COLUMN_PREFIX) for column in columns)


def _split_at_blanks(line: str) -> list[str]:
    """Returns the values of a line. Some servers put values that contain blanks in quotes."""
    if '"' not in line:
        return line.split(" ")
    return [quoted or word for quoted, word in QUOTED_VALUE_PATTERN.findall(line)]


def _decode_plus(value: str) -> str:
    return value if " " in value else PLUS_PATTERN.sub(r" \1", value)


def _decode_percent(value: str) -> str:
    if "%" not in value:
        return value
    decoded = unquote(value, errors="surrogateescape")
    # Older logs are percent-encoded twice.
    return unquote(decoded, errors="surrogateescape") if "%20" in decoded else decoded
