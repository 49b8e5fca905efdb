"""Enables pytest's assertion details in the helper modules."""

import pytest

pytest.register_assert_rewrite(
    "tests.crash.harness", "tests.crash.suite", "tests.crash.forge_case", "tests.crash.forge_suite"
)
