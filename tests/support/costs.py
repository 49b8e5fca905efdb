"""Measures the CPU time of each test of the default tier, and reports those over the budget.

What a fixture of a module or of the run costs belongs to no single test. In CI a test fails the run if it takes twice
the budget, since one measurement on a shared machine can be off by that much. `ALLOWED` names the exceptions.
"""

import os
from collections.abc import Generator

import pytest

from tests.support.cpu_budget import measure_slowness
from tests.support.expensive_tests import ALLOWED

BUDGET_SECONDS = 0.2
CI_FACTOR = 2
PROPERTY = "cpu_seconds"
SHOWN_TESTS = 30


class Costs:
    def __init__(self) -> None:
        self._start = self._shared = 0.0
        self._over_budget: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        self._start, self._shared = _read_cpu_seconds(), 0.0
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        before = _read_cpu_seconds()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared += _read_cpu_seconds() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        before = _read_cpu_seconds()
        yield
        if nextitem is None or nextitem.path != item.path:
            self._shared += _read_cpu_seconds() - before  # the fixtures of the module end
        item.user_properties.append((PROPERTY, _read_cpu_seconds() - self._start - self._shared))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get(PROPERTY)
        is_exempt = {"deep", "drill"} & set(report.keywords) or report.nodeid.partition("[")[0] in ALLOWED
        if isinstance(seconds, float) and seconds > BUDGET_SECONDS and not is_exempt:
            self._over_budget[report.nodeid] = seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._over_budget and os.environ.get("CI"):
            slowest = max(self._over_budget.values())
            limit = BUDGET_SECONDS * CI_FACTOR
            if slowest > limit and slowest > limit * measure_slowness() and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._over_budget:
            return
        terminalreporter.section(f"over {BUDGET_SECONDS} CPU seconds: make them cheaper, or mark them as deep")
        for nodeid, seconds in sorted(self._over_budget.items(), key=lambda entry: -entry[1])[:SHOWN_TESTS]:
            terminalreporter.write_line(f"{seconds:6.2f} {nodeid}")


def _read_cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
