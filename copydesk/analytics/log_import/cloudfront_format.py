"""CloudFront's standard logs: tab-separated fields with a header line that names them, or one JSON record per line."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from copydesk.analytics.log_import.json_formats import FieldNames, JsonFormat, parse_record
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine
from copydesk.analytics.page_view import Dropped

CLOUDFRONT_FIELDS: FieldNames = {
    "when": ("time",),
    "url": ("cs-uri-stem",),
    "method": ("cs-method",),
    "status": ("sc-status",),
    "address": ("c-ip",),
    "host": ("x-host-header", "cs(Host)"),
    "referrer": ("cs(Referer)",),
    "agent": ("cs(User-Agent)",),
    "type": ("sc-content-type",),
}
PERCENT_ENCODED_FIELDS = ("cs(Referer)", "cs(User-Agent)", "sc-content-type")
EMPTY_FIELD = "-"


class CloudFrontFormat(JsonFormat):
    def __init__(self) -> None:
        super().__init__("cloudfront", CLOUDFRONT_FIELDS)
        self._columns: tuple[str, ...] = ()

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line or a header."""
        for line in text.split("\n"):
            if line.startswith("#"):
                if line.startswith("#Fields:"):
                    self._columns = tuple(line.removeprefix("#Fields:").split())
                yield None
            else:
                yield self._parse_line(line) if line and not line.isspace() else None

    def is_complete(self, line: str) -> bool:
        return self._parse_record(line) is not None

    def _parse_line(self, line: str) -> LogLine | Dropped:
        record = self._parse_record(line)
        return MALFORMED if record is None else self.line_from_record(line, _normalize_record(record))

    def _parse_record(self, line: str) -> Mapping[str, Any] | None:
        if line.startswith("{"):
            return parse_record(line)
        values = line.split("\t")
        return dict(zip(self._columns, values, strict=True)) if len(values) == len(self._columns) else None


def _normalize_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Joins date and time, and path and query; decodes percent-encoded fields; removes empty fields (`-`)."""
    fields = {name: value for name, value in record.items() if value != EMPTY_FIELD}
    fields["time"] = f"{fields.get('date')}T{fields.get('time')}Z"
    if isinstance(query := fields.get("cs-uri-query"), str):
        fields["cs-uri-stem"] = f"{fields.get('cs-uri-stem', '')}?{query}"
    for name in PERCENT_ENCODED_FIELDS:
        if isinstance(value := fields.get(name), str) and "%" in value:
            decoded = unquote(value, errors="surrogateescape")
            # Older logs are percent-encoded twice.
            fields[name] = unquote(decoded, errors="surrogateescape") if "%20" in decoded else decoded
    return fields
