"""What the embedded store's rows become in ClickHouse, and whether the two hold the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from copydesk.analytics.stores.clickhouse.connection.node import SLOW_SECONDS, Node
from copydesk.analytics.stores.duckdb.database import Connection

PART = 20_000
NAME, SORT, SCOPE = {"project": "String"}, {"sort": "UInt8"}, {"scope": "UInt64"}
DAY, KIND, AGENT = {"day": "UInt16"}, {"kind": "UInt8"}, {"agent": "String", "operator": "String"}
RULE = {"rule": "String", "version": "String"}


@dataclass(frozen=True)
class Kind:
    """A table of ClickHouse. The one of the same name here is what its rows come from, by sql/<name>.sql."""

    name: str
    columns: Mapping[str, str]
    spread: str
    """The column by which rows go to shards. A visitor must be on one shard alone; for others any will do."""
    adding: str = ""
    """How rows that are otherwise the same add up, and what of them; without it, they are one row."""
    added: str = ""

    def parts(self, here: Connection) -> int:
        [(highest,)] = here.execute(f"select coalesce(max(rowid), -1) from {self.name}").fetchall()  # noqa: S608
        return int(highest) // PART + 1

    def part(self, here: Connection, number: int, shards: int) -> Iterator[tuple[int, dict[str, Sequence[Any]]]]:
        """The columns for each shard. Nothing changes the file, so that a part is the same whenever it is asked for."""
        which = f"moved.rowid >= {number * PART} and moved.rowid < {(number + 1) * PART}"
        rows = here.execute(f"{sql(self.name)} and {which}").fetchall()
        place = list(self.columns).index(self.spread)
        for shard in range(shards):
            if mine := [row for row in rows if row[place] % shards == shard]:
                yield shard, dict(zip(self.columns, zip(*mine, strict=True), strict=True))

    def sum_here(self, here: Connection) -> tuple[int, int]:
        line = f"concat_ws(chr(31), {', '.join(self._words)})"
        number = f"md5_number_lower({line})::hugeint"
        asked = f"select count(*), coalesce(sum({number}), 0) from ({self._grouped(f'({sql(self.name)})')})"  # noqa: S608
        [(rows, total)] = here.execute(asked).fetchall()
        return int(rows), int(total)

    def sum_there(self, there: Node) -> tuple[int, int]:
        """The number of different rows and the sum of half their MD5, which both engines know."""
        line = f"arrayStringConcat([{', '.join(f'toString({word})' for word in self._words)}], char(31))"
        number = f"toUInt128(reinterpretAsUInt64(substring(MD5({line}), 9, 8)))"
        grouped = self._grouped(self.name).replace("bit_or", "groupBitOr")
        [(rows, total)] = there.ask(f"select count(), sum({number}) from ({grouped})", seconds=SLOW_SECONDS)  # noqa: S608
        return int(rows), int(total)

    @property
    def _words(self) -> list[str]:
        return [*self._same, *(["total"] if self.adding else [])]

    @property
    def _same(self) -> list[str]:
        return [f'"{name}"' for name in self.columns if name != self.added]

    def _grouped(self, rows: str) -> str:
        same = ", ".join(self._same)
        total = f", {self.adding}({self.added or '*'}) as total" if self.adding else ""
        return f"select {same}{total} from {rows} group by {same}"  # noqa: S608 - ours


KINDS = (
    Kind("scopes", {**NAME, **SORT, **SCOPE, "path": "String", **AGENT, **KIND}, spread="scope"),
    Kind("events", {**NAME, "id": "UInt64"}, spread="id"),
    Kind("counts", {**NAME, **SORT, **SCOPE, **DAY, **KIND, "n": "Int64"}, spread="scope", adding="sum", added="n"),
    Kind(
        "visits",
        {**NAME, "visitor": "UInt64", **SORT, **SCOPE, **DAY, "bits": "UInt8"},
        spread="visitor",
        adding="bit_or",
        added="bits",
    ),
    Kind(
        "views",
        {**NAME, "at": "Int64", "path": "String", **KIND, **AGENT, **RULE, "visitor": "UInt64", "host": "String",
         "referrer": "String"},
        spread="visitor",
        adding="count",
    ),
)  # fmt: skip


@cache
def sql(name: str) -> str:
    return files("copydesk.transfer.migrate").joinpath("sql", f"{name}.sql").read_text("utf-8")
