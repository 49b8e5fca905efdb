"""The crash matrix on PostgreSQL."""

from tests.crash.suite import CrashSuite


class TestPostgres(CrashSuite):
    database = "postgres"
