"""Converts the rows of an embedded store to rows of ClickHouse, and compares the two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from copydesk.analytics.stores.clickhouse.connection.node import LONG_TIMEOUT_SECONDS, Node
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.core.db.sql_files import load_sql_file

load_sql = partial(load_sql_file, __package__)
ROWS_PER_PART = 20_000
EVENTS_OF_PART = "/* of the part */"
"""Where a statement gets the condition that selects the events of a part."""
PROJECT_COLUMN, SORT_COLUMN, SCOPE_COLUMN = {"project": "String"}, {"sort": "UInt8"}, {"scope": "UInt64"}
DAY_COLUMN, KIND_COLUMN, AGENT_COLUMNS = {"day": "UInt16"}, {"kind": "UInt8"}, {"agent": "String", "operator": "String"}
RULE_COLUMNS = {"rule": "String", "version": "String"}


@dataclass(frozen=True)
class MovedTable:
    """A table of ClickHouse. sql/<name>.sql selects its rows from the embedded store."""

    name: str
    columns: Mapping[str, str]
    shard_column: str
    """Column that assigns rows to shards. All rows of a visitor must be on one shard; other rows may be on any."""
    aggregate: str = ""
    """SQL function that combines `aggregated_column` of otherwise equal rows. If empty, equal rows count as one."""
    aggregated_column: str = ""

    def count_parts(self, source: DuckConnection) -> int:
        [(highest,)] = source.execute(f"select coalesce(max(rowid), -1) from {self.name}").fetchall()  # noqa: S608
        return int(highest) // ROWS_PER_PART + 1

    def read_part(
        self, source: DuckConnection, number: int, shards: int
    ) -> Iterator[tuple[int, dict[str, Sequence[Any]]]]:
        """Yields the columns of a part for each shard. The file does not change, so each read returns the same rows."""
        part_filter = f"moved.rowid >= {number * ROWS_PER_PART} and moved.rowid < {(number + 1) * ROWS_PER_PART}"
        statement = load_sql(self.name)
        if EVENTS_OF_PART in statement:
            statement = statement.replace(EVENTS_OF_PART, self._build_event_condition(source, part_filter))
        rows = source.execute(f"{statement} and {part_filter}").fetchall()
        shard_index = list(self.columns).index(self.shard_column)
        for shard in range(shards):
            if shard_rows := [row for row in rows if row[shard_index] % shards == shard]:
                yield shard, dict(zip(self.columns, zip(*shard_rows, strict=True), strict=True))

    def _build_event_condition(self, source: DuckConnection, part_filter: str) -> str:
        """Returns a condition for the events of a part, because joining all events to each part would take hours."""
        query = f"select coalesce(min(seq), 0), coalesce(max(seq), 0) from {self.name} as moved where {part_filter}"  # noqa: S608
        [(first, last)] = source.execute(query).fetchall()
        return f"where seq between {first} and {last}"

    def sum_source(self, source: DuckConnection) -> tuple[int, int]:
        row_text = f"concat_ws(chr(31), {', '.join(self._compared_columns)})"
        row_hash = f"md5_number_lower({row_text})::hugeint"
        rows_query = self._build_grouped_query(f"({load_sql(self.name)})")
        query = f"select count(*), coalesce(sum({row_hash}), 0) from ({rows_query})"  # noqa: S608
        [(rows, total)] = source.execute(query).fetchall()
        return int(rows), int(total)

    def sum_target(self, target: Node) -> tuple[int, int]:
        """Returns the number of distinct rows and the sum of half their MD5, which both engines can compute."""
        row_text = (
            f"arrayStringConcat([{', '.join(f'toString({column})' for column in self._compared_columns)}], char(31))"
        )
        row_hash = f"toUInt128(reinterpretAsUInt64(substring(MD5({row_text}), 9, 8)))"
        grouped = self._build_grouped_query(self.name).replace("bit_or", "groupBitOr")
        query = f"select count(), sum({row_hash}) from ({grouped})"  # noqa: S608
        [(rows, total)] = target.query(query, timeout_seconds=LONG_TIMEOUT_SECONDS)
        return int(rows), int(total)

    @property
    def _compared_columns(self) -> list[str]:
        return [*self._key_columns, *(["total"] if self.aggregate else [])]

    @property
    def _key_columns(self) -> list[str]:
        return [f'"{name}"' for name in self.columns if name != self.aggregated_column]

    def _build_grouped_query(self, rows: str) -> str:
        keys = ", ".join(self._key_columns)
        total = f", {self.aggregate}({self.aggregated_column or '*'}) as total" if self.aggregate else ""
        return f"select {keys}{total} from {rows} group by {keys}"  # noqa: S608 - ours


MOVED_TABLES = (
    MovedTable(
        "scopes",
        {**PROJECT_COLUMN, **SORT_COLUMN, **SCOPE_COLUMN, "path": "String", **AGENT_COLUMNS, **KIND_COLUMN},
        shard_column="scope",
    ),
    MovedTable("events", {**PROJECT_COLUMN, "id": "UInt64"}, shard_column="id"),
    MovedTable(
        "counts",
        {**PROJECT_COLUMN, **SORT_COLUMN, **SCOPE_COLUMN, **DAY_COLUMN, **KIND_COLUMN, "n": "Int64"},
        shard_column="scope",
        aggregate="sum",
        aggregated_column="n",
    ),
    MovedTable(
        "visits",
        {**PROJECT_COLUMN, "visitor": "UInt64", **SORT_COLUMN, **SCOPE_COLUMN, **DAY_COLUMN, "bits": "UInt8"},
        shard_column="visitor",
        aggregate="bit_or",
        aggregated_column="bits",
    ),
    MovedTable(
        "views",
        {**PROJECT_COLUMN, "at": "Int64", "path": "String", **KIND_COLUMN, **AGENT_COLUMNS, **RULE_COLUMNS,
         "visitor": "UInt64", "host": "String",
         "referrer": "String", "event": "Nullable(UInt64)", "missing": "UInt8",
         "source": "String", "source_kind": "UInt8"},
        shard_column="visitor",
        aggregate="count",
    ),
    MovedTable(
        "missing_referrers",
        {**PROJECT_COLUMN, **SCOPE_COLUMN, **DAY_COLUMN, **KIND_COLUMN, "referrer": "String", "n": "Int64",
         "last": "Int64"},
        shard_column="scope",
        aggregate="sum",
        aggregated_column="n",
    ),
)  # fmt: skip
