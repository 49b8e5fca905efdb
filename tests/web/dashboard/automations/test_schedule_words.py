"""Schedules and triggers in words."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from copydesk.automations.definition import Trigger
from copydesk.automations.kinds import KINDS, Kind
from copydesk.web.dashboard.automations.descriptions import KIND_CHOICES, describe_trigger
from copydesk.web.dashboard.automations.schedule_words import describe_schedule, list_next_slots

OCTOBER_24_2026 = 1_792_800_000_000  # 00:00 UTC; Berlin's clocks go back in the next night


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 6 * * 1", "Mondays at 06:00 UTC"),
        ("30 18 * * mon,THU", "Mondays and Thursdays at 18:30 UTC"),
        ("0 6 * * 1-5", "Weekdays at 06:00 UTC"),
        ("0 6 * * 6,7", "Saturdays and Sundays at 06:00 UTC"),
        ("0 6 * * 0", "Sundays at 06:00 UTC"),
        ("0 6 * * *", "Every day at 06:00 UTC"),
        ("0 6 * * 0-6", "Every day at 06:00 UTC"),
        ("5 6,18 * * *", "Every day at 06:05 and 18:05 UTC"),
        ("0 6 1 * *", "On day 1 of every month at 06:00 UTC"),
        ("0 6 24 12 *", "December 24 of every year at 06:00 UTC"),
        ("* * * * *", "Every minute UTC"),
        ("*/15 * * * *", "Every 15 minutes UTC"),
        ("0 * * * *", "Every hour UTC"),
        ("7 */6 * * *", "Every 6 hours at minute 7 UTC"),
        ("0 * * * 1-5", "Every hour on weekdays UTC"),
    ],
)
def test_common_schedules_have_words(cron: str, words: str) -> None:
    assert describe_schedule(cron, "UTC") == words


@pytest.mark.parametrize(
    "cron", ["*/7 * * * *", "0 6 1 * 1", "0 6 L * *", "0 6 * * 1#2", "0 6 * * 5-1", "0 6 * JAN 1", "1,2 6 * * *"]
)
def test_other_schedules_are_quoted(cron: str) -> None:
    assert describe_schedule(cron, "Europe/Berlin") == f"By the schedule {cron} (Europe/Berlin)"


def test_next_slots_are_local_times_across_a_clock_change() -> None:
    slots = list_next_slots("0 6 * * *", "Europe/Berlin", OCTOBER_24_2026, 2)
    assert slots == ["Sat 2026-10-24 06:00", "Sun 2026-10-25 06:00"]


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"type": "api"}, "Only when started here or through the API"),
        ({"type": "code_change", "repositories": ["api"]}, "When code changes in api"),
        ({"type": "code_change", "repositories": ["api", "web"]}, "When code changes in api or web"),
        ({"type": "code_change"}, "When code changes in any context repository"),
        ({"type": "code_change", "paths": ["src/**"]}, "When code changes in any context repository, in src/**"),
        ({"type": "content_update"}, "When the documentation changes"),
        (
            {"type": "content_update", "paths": ["a", "b", "c", "d", "e"]},
            "When the documentation changes, in a, b, c and 2 more",
        ),
        ({"type": "release", "repositories": ["api"]}, "When api has a new release"),
        ({"type": "release", "tags": "v*"}, "When a context repository has a new release, with a tag like v*"),
    ],
)
def test_triggers_have_words(trigger: dict[str, Any], words: str) -> None:
    assert describe_trigger(TypeAdapter(Trigger).validate_python(trigger)) == words


def test_every_kind_is_offered() -> None:
    assert {choice.value for choice in KIND_CHOICES} == set(Kind) == set(KINDS)
