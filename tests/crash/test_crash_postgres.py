"""The crash matrix on PostgreSQL."""

from tests.crash.suite import Crashes


class TestPostgres(Crashes):
    database = "postgres"
