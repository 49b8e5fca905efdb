"""CloudFront's standard logs: fields between tabs, named by a line of their own, or a JSON record a line."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from copydesk.analytics.log_import.json_formats import Names, Records, loaded
from copydesk.analytics.log_import.log_line import MALFORMED, Line
from copydesk.analytics.page_view import Dropped

NAMES: Names = {
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
ENCODED = ("cs(Referer)", "cs(User-Agent)", "sc-content-type")
NOTHING = "-"


class CloudFront(Records):
    def __init__(self) -> None:
        super().__init__("cloudfront", NAMES)
        self._fields: tuple[str, ...] = ()

    def read(self, text: str) -> Iterator[Line | Dropped | None]:
        """One for each line: the request, why there is none, or None where it is empty or names the fields."""
        for line in text.split("\n"):
            if line.startswith("#"):
                if line.startswith("#Fields:"):
                    self._fields = tuple(line.removeprefix("#Fields:").split())
                yield None
            else:
                yield self._read(line) if line and not line.isspace() else None

    def whole(self, line: str) -> bool:
        return self._record(line) is not None

    def _read(self, line: str) -> Line | Dropped:
        record = self._record(line)
        return MALFORMED if record is None else self.line(line, _plain(record))

    def _record(self, line: str) -> Mapping[str, Any] | None:
        if line.startswith("{"):
            return loaded(line)
        values = line.split("\t")
        return dict(zip(self._fields, values, strict=True)) if len(values) == len(self._fields) else None


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """The day and the time, the path and the query are one each; what is percent-encoded is not; `-` is nothing."""
    told = {name: value for name, value in record.items() if value != NOTHING}
    told["time"] = f"{told.get('date')}T{told.get('time')}Z"
    if isinstance(query := told.get("cs-uri-query"), str):
        told["cs-uri-stem"] = f"{told.get('cs-uri-stem', '')}?{query}"
    for name in ENCODED:
        if isinstance(value := told.get(name), str) and "%" in value:
            once = unquote(value, errors="surrogateescape")
            told[name] = unquote(once, errors="surrogateescape") if "%20" in once else once  # older ones: encoded twice
    return told
