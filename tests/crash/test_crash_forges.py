"""The crash matrix on remote forges, on SQLite; as drills on PostgreSQL too."""

import pytest

from tests.crash.forge_suite import ForgeCrashSuite

pytestmark = pytest.mark.deep


class TestSqlite(ForgeCrashSuite):
    database = "sqlite"


@pytest.mark.drill
class TestPostgres(ForgeCrashSuite):
    database = "postgres"
