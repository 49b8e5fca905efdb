"""The crash matrix on SQLite."""

from tests.crash.suite import CrashSuite


class TestSqlite(CrashSuite):
    database = "sqlite"
