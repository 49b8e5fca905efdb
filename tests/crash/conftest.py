"""The helpers' assertions explain themselves as the tests' do."""

import pytest

pytest.register_assert_rewrite("tests.crash.harness", "tests.crash.suite")
