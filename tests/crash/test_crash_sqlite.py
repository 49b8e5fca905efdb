"""The crash matrix on SQLite."""

import pytest

from tests.crash.suite import CrashSuite

pytestmark = pytest.mark.deep


class TestSqlite(CrashSuite):
    database = "sqlite"
