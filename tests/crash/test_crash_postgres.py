"""The crash matrix on PostgreSQL."""

import pytest

from tests.crash.suite import CrashSuite

pytestmark = pytest.mark.deep


class TestPostgres(CrashSuite):
    database = "postgres"
