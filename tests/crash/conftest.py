"""The helpers' assertions explain themselves as the tests' do."""

import pytest

pytest.register_assert_rewrite(
    "tests.crash.harness", "tests.crash.suite", "tests.crash.remote", "tests.crash.forge_suite"
)
