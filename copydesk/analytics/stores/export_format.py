"""The datasets that can be exported by day, their columns, and how each engine writes a column in each format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from copydesk.core.text.csv_cells import FORMULA_PREFIXES

EXPORT_SCHEMA_VERSION = 1
"""Increase it when columns change: files of another version are exported again."""
RAW_DATASET = "raw"
SECTIONS_DATASET = "sections"


class ExportFormat(StrEnum):
    """The format of a file; its value is also the file's suffix."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class ColumnType(Enum):
    """The type of a column: the value that a query returns, and the form in which it is written."""

    TEXT = "text"
    COUNT = "count"
    FLAG = "flag"
    DAY = "day"
    """Days since 1970, written as a date."""
    TIME = "time"
    """Milliseconds since 1970, written as a time in UTC."""
    HASH = "hash"
    """A hash of 63 bits, written as 16 hexadecimal digits: JSON and spreadsheets round numbers of this size."""


_PAGE_COLUMNS = {
    "date": ColumnType.DAY, "path": ColumnType.TEXT,
    "human": ColumnType.COUNT, "ai": ColumnType.COUNT, "total": ColumnType.COUNT,
}  # fmt: skip
EXPORT_COLUMNS: Mapping[str, Mapping[str, ColumnType]] = {
    RAW_DATASET: {
        "time": ColumnType.TIME, "path": ColumnType.TEXT, "missing": ColumnType.FLAG, "class": ColumnType.TEXT,
        "agent": ColumnType.TEXT, "operator": ColumnType.TEXT, "rule": ColumnType.TEXT, "agentTable": ColumnType.TEXT,
        "visitor": ColumnType.HASH, "host": ColumnType.TEXT, "referrer": ColumnType.TEXT,
    },
    "visitors": _PAGE_COLUMNS,
    "views": _PAGE_COLUMNS,
    "agents": {
        "date": ColumnType.DAY, "agent": ColumnType.TEXT, "operator": ColumnType.TEXT, "class": ColumnType.TEXT,
        "visitors": ColumnType.COUNT, "views": ColumnType.COUNT,
    },
    "referrers": {
        "date": ColumnType.DAY, "referrer": ColumnType.TEXT, "kind": ColumnType.TEXT,
        "visitors": ColumnType.COUNT, "views": ColumnType.COUNT,
    },
    SECTIONS_DATASET: {
        "date": ColumnType.DAY, "section": ColumnType.TEXT,
        "human": ColumnType.COUNT, "ai": ColumnType.COUNT, "total": ColumnType.COUNT, "views": ColumnType.COUNT,
    },
    "timeseries": {
        "date": ColumnType.DAY, "human": ColumnType.COUNT, "ai": ColumnType.COUNT, "total": ColumnType.COUNT,
        "viewsHuman": ColumnType.COUNT, "viewsAi": ColumnType.COUNT, "viewsTotal": ColumnType.COUNT,
    },
    "missing": {
        **_PAGE_COLUMNS, "requests": ColumnType.COUNT, "lastSeenAt": ColumnType.TIME, "referrers": ColumnType.TEXT,
    },
}  # fmt: skip
"""The columns of each dataset: raw views, and reports of one day. Each store has a query `export_<dataset>.sql` that
returns them."""


@dataclass(frozen=True)
class ExportDay:
    """The data of a day in a store. A fingerprint changes with the data that it stands for; "" means that there are
    none."""

    day: int
    raw_fingerprint: str
    report_fingerprint: str
    has_all_raw_views: bool
    """False if some raw views of the day were deleted; reports still count them."""

    def get_fingerprint(self, dataset: str) -> str:
        """Returns the fingerprint of a dataset. Sections also depend on which visitors read which pages together, which
        no number of a report says, so their fingerprint has that of the raw views too."""
        if dataset == RAW_DATASET:
            return self.raw_fingerprint
        if dataset == SECTIONS_DATASET and self.report_fingerprint:
            return f"{self.report_fingerprint}-{self.raw_fingerprint}"
        return self.report_fingerprint


def build_duckdb_select(dataset: str, file_format: ExportFormat, query: str) -> str:
    """Returns a query of the columns as DuckDB writes them."""
    expressions: dict[ColumnType, Callable[[str], str]] = {
        ColumnType.HASH: lambda column: f"format('{{:016x}}', {column})",
        ColumnType.DAY: lambda column: f"date '1970-01-01' + {column}::integer",
        ColumnType.TIME: lambda column: f"to_timestamp({column} / 1000.0)",
        ColumnType.COUNT: lambda column: f"{column}::bigint",
    }
    if file_format is not ExportFormat.PARQUET:
        expressions[ColumnType.TIME] = lambda column: f"strftime(make_timestamp_ms({column}), '%Y-%m-%dT%H:%M:%S.%gZ')"
    if file_format is ExportFormat.CSV:
        expressions[ColumnType.TEXT] = lambda column: (
            f"if(left({column}, 1) in ({_list_formula_prefixes()}), '''' || {column}, {column})"
        )
    return _build_select(dataset, expressions, query)


def build_clickhouse_select(dataset: str, file_format: ExportFormat, query: str) -> str:
    """Returns a query of the columns as ClickHouse writes them."""
    expressions: dict[ColumnType, Callable[[str], str]] = {
        ColumnType.HASH: lambda column: f"leftPad(lower(hex({column})), 16, '0')",
        ColumnType.DAY: lambda column: f"toDate(toUInt16({column}))",
        ColumnType.TIME: lambda column: f"fromUnixTimestamp64Milli({column}, 'UTC')",
        ColumnType.COUNT: lambda column: f"toInt64({column})",
        ColumnType.FLAG: lambda column: f"toBool({column})",
        ColumnType.TEXT: lambda column: f"toNullable(toString({column}))",
    }
    if file_format is not ExportFormat.PARQUET:
        expressions[ColumnType.TIME] = lambda column: (
            f"replaceOne(toString(fromUnixTimestamp64Milli({column}, 'UTC')), ' ', 'T') || 'Z'"
        )
    if file_format is ExportFormat.CSV:
        expressions[ColumnType.TEXT] = lambda column: (
            f"if(substringUTF8({column}, 1, 1) in ({_list_formula_prefixes()}), concat('''', {column}), {column})"
        )
    return _build_select(dataset, expressions, query)


def _build_select(dataset: str, expressions: Mapping[ColumnType, Callable[[str], str]], query: str) -> str:
    """Returns a query of the dataset's columns, converted by these expressions; others stay as they are."""
    columns = ", ".join(
        f'{expressions.get(column_type, str)(_quote_name(name))} as "{name}"'
        for name, column_type in EXPORT_COLUMNS[dataset].items()
    )
    return f"select {columns} from ({query.rstrip().rstrip(';')}) as rows"  # noqa: S608 - columns and queries are ours


def _quote_name(name: str) -> str:
    return f'rows."{name}"'


def _list_formula_prefixes() -> str:
    return ", ".join(f"'{prefix}'" for prefix in FORMULA_PREFIXES)
