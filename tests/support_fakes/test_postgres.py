"""The tests' PostgreSQL servers keep few databases, so that a test run needs little disk."""

import psycopg
import pytest

from tests.support import postgres


def test_oldest_unused_databases_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "MAX_DATABASES", 2)
    kept, used, unused = postgres.new_database(is_kept=True), postgres.new_database(), postgres.new_database()
    with psycopg.connect(used):
        for _ in range(3):
            postgres.new_database()
        with psycopg.connect(postgres.server_url()) as connection:
            rows = connection.execute("select datname from pg_database").fetchall()
    left = {name for (name,) in rows}
    assert {postgres.database_name(kept), postgres.database_name(used)} <= left
    assert postgres.database_name(unused) not in left
