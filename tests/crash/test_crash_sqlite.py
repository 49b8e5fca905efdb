"""The crash matrix on SQLite."""

from tests.crash.suite import Crashes


class TestSqlite(Crashes):
    database = "sqlite"
