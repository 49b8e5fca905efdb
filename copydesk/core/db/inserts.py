"""Inserts for which several processes race: the first writer wins."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, TextClause, bindparam, text


def insert_if_absent(tx: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Inserts the row unless one with the same unique key exists. Returns whether it was inserted."""
    return bool(tx.execute(_insert_if_absent_statement(table, tuple(row)), row).rowcount)


@cache
def _insert_if_absent_statement(table: Table, columns: tuple[str, ...]) -> TextClause:
    """Returns a statement for both databases; SQLAlchemy's own insert has this clause only in a dialect of each."""
    names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    statement = text(f"insert into {table.name} ({names}) values ({values}) on conflict do nothing")  # noqa: S608
    return statement.bindparams(*(bindparam(name, type_=table.c[name].type) for name in columns))
