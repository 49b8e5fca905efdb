"""No log that is cut, repeated or mixed gives wrong visitors: it is refused, or its visitors are those who came."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.core.clock import DAY as DAY_MS
from copydesk.core.errors import UserFacingError
from tests.analytics.log_import.conftest import check_files
from tests.analytics.log_import.log_fuzzer import DamagedLog, Person, write_random_log
from tests.analytics.log_import.samples import DAY
from tests.support.drills import mark_drills

LOGS_PER_ROUND = 250
MIN_ACCEPTED_SHARE = 0.6
"""How many logs must be accepted at least, so that refusing everything does not pass."""
ROUNDS = range(48)


@pytest.fixture
def find_error(
    job: Callable[..., ImportRequest], site: SiteConfig, tmp_path: Path
) -> Callable[[DamagedLog], str | None]:
    """Imports a log; returns "refused", what is wrong about its views, or None if they are right."""

    def find(log: DamagedLog) -> str | None:
        path = tmp_path / "a.log"
        path.write_bytes(log.text.encode())
        try:
            check_files(job(path))
        except UserFacingError:
            return "refused"
        views = [view for batch in read_batches(job(path)) for view in batch.views]
        people = {person for person, _, _ in log.possible}
        person_by_visitor = {hash_person(site, person): person for person in people}
        if strangers := [view for view in views if view.visitor and view.visitor not in person_by_visitor]:
            return f"a visitor who did not come: {strangers[0]}"
        if any(view.at // DAY_MS != DAY for view in views):
            return "another day"
        seen = Counter((person_by_visitor[view.visitor], view.path, view.is_missing) for view in views if view.visitor)
        if lost := log.certain - seen:
            return f"views are missing: {lost}"
        if extra := seen - log.possible:
            return f"views that nobody made: {extra}"
        return None

    return find


def hash_person(site: SiteConfig, person: Person) -> int | None:
    return site.hasher.hash_visitor(DAY * DAY_MS, None, person.packed_address, person.agent)


@pytest.mark.deep
@pytest.mark.parametrize("round_number", mark_drills(ROUNDS, default=[0]))
def test_damaged_or_mixed_log_never_gives_wrong_visitors(
    round_number: int, find_error: Callable[[DamagedLog], str | None]
) -> None:
    accepted = 0
    for seed in range(round_number * LOGS_PER_ROUND, (round_number + 1) * LOGS_PER_ROUND):
        log = write_random_log(seed)
        error = find_error(log)
        assert error is None or (error == "refused" and not log.is_undamaged), f"seed {seed}: {error}"
        accepted += error is None
    assert accepted >= LOGS_PER_ROUND * MIN_ACCEPTED_SHARE
