"""A round of polling pull requests is limited, and every pull request gets its turn."""

from pathlib import Path
from typing import cast

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forges.forge import Forge, PullRequest
from copydesk.jobs.publish.forges.polling import (
    MAX_CALLS_PER_ROUND,
    ROUND_MILLISECONDS,
    FinishedJob,
    archive_if_closed,
    next_batch,
)


class Forge404:
    """Knows no pull request, and counts the calls."""

    def __init__(self) -> None:
        self.requested_numbers: list[int] = []

    def get_pull(self, number: int) -> PullRequest:
        self.requested_numbers.append(number)
        raise ForgeRefused("Not found.", status=404)


class ForgeDown(Forge404):
    def get_pull(self, number: int) -> PullRequest:
        self.requested_numbers.append(number)
        raise ForgeUnavailable("Away.")


def test_deleted_pull_request_does_not_stop_polling_of_others(tmp_path: Path) -> None:
    desk, forge = open_desk(Settings(data=tmp_path)), Forge404()
    archive_if_closed(desk.database, cast(Forge, forge), [FinishedJob(f"job_{n}", n, "branch") for n in range(5)])
    desk.close()
    assert forge.requested_numbers == [0, 1, 2, 3, 4]


def test_each_round_polls_a_bounded_number_and_all_are_polled_eventually() -> None:
    rounds = [next_batch(range(100), step * ROUND_MILLISECONDS) for step in range(7)]
    assert {len(set(each)) for each in rounds} == {MAX_CALLS_PER_ROUND}
    assert set().union(*rounds) == set(range(100))


def test_unavailable_forge_is_skipped_for_the_round(tmp_path: Path) -> None:
    desk, forge = open_desk(Settings(data=tmp_path)), ForgeDown()
    with pytest.raises(ForgeUnavailable):
        candidates = [FinishedJob("job_1", 1, "branch"), FinishedJob("job_2", 2, "branch")]
        archive_if_closed(desk.database, cast(Forge, forge), candidates)
    desk.close()
    assert forge.requested_numbers == [1]
