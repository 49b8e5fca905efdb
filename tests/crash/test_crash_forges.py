"""The crash matrix on remote forges, on SQLite; as drills on PostgreSQL too."""

import pytest

from tests.crash.forge_suite import ForgeCrashes


class TestSqlite(ForgeCrashes):
    database = "sqlite"


@pytest.mark.drill
class TestPostgres(ForgeCrashes):
    database = "postgres"
