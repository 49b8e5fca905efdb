"""Measures the CPU time of each test of the default tier, and lists those over the budget.

What a fixture of a module or of the run costs belongs to no single test. In CI the listed tests run once more at the
end, because the first measurement may include what a test was only the first to use; one that takes twice the
budget again fails the run. `ALLOWED` names the exceptions.
"""

import os
from collections.abc import Generator

import pytest
from _pytest.runner import runtestprotocol

from tests.support.cpu_budget import measure_slowness
from tests.support.expensive_tests import ALLOWED

BUDGET_SECONDS = 0.2
CI_FACTOR = 2
"""One measurement on a shared machine can be off by this much."""
MEASURED, CONFIRMED = "cpu_seconds", "cpu_seconds_again"
SHOWN_TESTS = 30


class Costs:
    def __init__(self) -> None:
        self._start = self._shared = 0.0
        self._items: dict[str, pytest.Item] = {}
        self._over_budget: dict[str, float] = {}
        self._confirmed: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        self._items[item.nodeid] = item
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
        item.user_properties.append((MEASURED, _read_cpu_seconds() - self._start - self._shared))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown" or {"deep", "drill"} & set(report.keywords):
            return
        for name, seconds in report.user_properties:
            if report.nodeid.partition("[")[0] in ALLOWED or not isinstance(seconds, float):
                continue
            if name == MEASURED and seconds > BUDGET_SECONDS:
                self._over_budget[report.nodeid] = seconds
            elif name == CONFIRMED:
                self._confirmed[report.nodeid] = seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if os.environ.get("CI") and exitstatus == pytest.ExitCode.OK:
            self._run_again(BUDGET_SECONDS * CI_FACTOR)
            if self._confirmed:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _run_again(self, limit: float) -> None:
        """Runs the tests of this process that are far over the budget, and reports those that are so again."""
        slowness = measure_slowness()
        for nodeid in [nodeid for nodeid, seconds in self._over_budget.items() if seconds > limit * slowness]:
            if nodeid not in self._items:
                continue  # another process ran it
            item = self._items[nodeid]
            item.user_properties.clear()
            report = runtestprotocol(item, log=False)[-1]
            seconds = dict(item.user_properties).get(MEASURED)
            if isinstance(seconds, float) and seconds > limit * slowness:
                report.user_properties = [(CONFIRMED, seconds)]
                item.ihook.pytest_runtest_logreport(report=report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for tests, title in (
            (self._over_budget, f"over {BUDGET_SECONDS} CPU seconds: make them cheaper, or mark them as deep"),
            (self._confirmed, f"over {BUDGET_SECONDS * CI_FACTOR:.1f} CPU seconds twice, which fails the run"),
        ):
            if tests:
                terminalreporter.section(title)
            for nodeid, seconds in sorted(tests.items(), key=lambda entry: -entry[1])[:SHOWN_TESTS]:
                terminalreporter.write_line(f"{seconds:6.2f} {nodeid}")


def _read_cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
