"""The cost of a warm-up is learned from the durations of cold and warm calls."""

import pytest

from copydesk.jobs.workflow.isolation.warm_up_costs import MAX_TASKS, Task, WarmUpCosts

TASK = Task("docs.git", "check")


def test_cost_is_unknown_before_the_first_cold_call() -> None:
    costs = WarmUpCosts()
    costs.record_warm(TASK, 1)
    assert costs.estimate(TASK) is None


def test_cost_is_the_difference_between_a_cold_and_a_warm_call() -> None:
    costs = WarmUpCosts()
    costs.record_cold(TASK, 7)
    assert costs.estimate(TASK) == 7
    costs.record_warm(TASK, 2)
    assert costs.estimate(TASK) == 5
    assert costs.estimate(Task("other.git", "check")) is None
    assert costs.estimate(Task("docs.git", "reply")) is None


def test_one_slow_warm_call_counts_for_a_while() -> None:
    costs = WarmUpCosts()
    costs.record_cold(TASK, 7)
    costs.record_warm(TASK, 7)
    costs.record_warm(TASK, 0.01)
    assert costs.estimate(TASK) == pytest.approx(0.7)
    for _ in range(100):
        costs.record_warm(TASK, 0.01)
    assert costs.estimate(TASK) == pytest.approx(6.99)


def test_cost_is_never_negative() -> None:
    costs = WarmUpCosts()
    costs.record_cold(TASK, 1)
    costs.record_warm(TASK, 3)
    assert costs.estimate(TASK) == 0


def test_cache_that_is_lost_after_each_call_is_worth_nothing() -> None:
    costs = WarmUpCosts()
    costs.record_cold(TASK, 7)
    costs.record_lost_cache(TASK, 7)
    assert costs.estimate(TASK) == 0


def test_only_recent_tasks_are_remembered() -> None:
    costs = WarmUpCosts()
    costs.record_cold(TASK, 1)
    costs.record_cold(Task("idle.git", "check"), 1)
    for number in range(MAX_TASKS - 1):
        costs.record_warm(TASK, 0)
        costs.record_cold(Task(f"{number}.git", "check"), 1)
    assert costs.estimate(Task("idle.git", "check")) is None
    assert costs.estimate(TASK) == 1
