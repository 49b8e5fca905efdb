"""Known visits that are left out make no difference to the index."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from copydesk.analytics.stores.duckdb.folding import nearest_visits
from copydesk.analytics.stores.duckdb.folding.links import IndexRows, combine_visits, count_links
from copydesk.analytics.stores.duckdb.folding.nearest_visits import NearestVisits
from copydesk.analytics.stores.duckdb.folding.visit_rows import VisitRows, join_visits, sort_distinct

SITE, AGENTS, AI_BITS = 1, (2, 3), 2
SCOPES: Any = SimpleNamespace(
    parent=np.array([0, 0, SITE, SITE, 0, 0, 0], np.int32),
    is_agent=np.array([False, False, True, True, False, False, False]),
    ai=np.full(7, AI_BITS, np.uint8),
)
"""A site with two agents and three sections."""


@pytest.fixture(autouse=True)
def select_from_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_visits, "MAX_UNSELECTED_VISITS", 0)


def make_visits(chance: np.random.Generator, rows: int, keys: int, days: tuple[int, int]) -> VisitRows:
    key = np.arange(1, keys + 1, dtype=np.int64) * (2**63 // (keys + 2))
    return VisitRows(
        chance.choice(key, rows),
        chance.integers(2, 7, rows, dtype=np.int32),
        chance.integers(*days, rows, dtype=np.uint16),
        chance.choice(np.array([1, 2, 4, 3], np.uint8), rows, p=[0.6, 0.2, 0.1, 0.1]),
    )


def count_change(known: VisitRows, new: VisitRows) -> IndexRows:
    rows = join_visits([known, new])
    was = np.concatenate((known.bits, np.zeros(len(new), np.uint8)))
    return count_links(SCOPES, combine_visits(rows, was, rows.bits))


@pytest.mark.parametrize("days", [(90, 95), (1, 5), (1, 95), (40, 60), (50, 51)])
@pytest.mark.parametrize("slots_per_visit", [8, 0])
@pytest.mark.parametrize("keys", [1, 5, 300])
def test_index_changes_as_if_all_known_visits_were_linked(
    monkeypatch: pytest.MonkeyPatch, days: tuple[int, int], slots_per_visit: int, keys: int
) -> None:
    """Without slots for each visit, all chains have the same hash."""
    monkeypatch.setattr(nearest_visits, "SLOTS_PER_VISIT", slots_per_visit)
    for seed in range(30):
        chance = np.random.default_rng(seed)
        known = make_visits(chance, 1_000, keys, (10, 92))
        new = make_visits(chance, int(chance.integers(1, 40)), keys, days)
        known = known.take(np.isin(known.key, sort_distinct(new.key)))
        wanted = count_change(known, new)
        found = count_change(NearestVisits(SCOPES, new).select(known), new)
        for column, found_column in zip(wanted.columns(), found.columns(), strict=True):
            assert found_column.tolist() == column.tolist()


@pytest.mark.parametrize("days", [(90, 95), (1, 5), (40, 60)])
def test_index_changes_as_if_all_known_visits_were_linked_if_these_are_sorted(days: tuple[int, int]) -> None:
    """As in files, where the visits of a key are sorted by scope and day, so that most are left out."""
    selected_rows = 0
    for seed in range(30):
        chance = np.random.default_rng(seed)
        known, new = make_visits(chance, 1_000, 5, (10, 92)).sort(), make_visits(chance, 20, 5, days)
        wanted = count_change(known, new)
        selected = NearestVisits(SCOPES, new).select(known)
        found = count_change(selected, new)
        selected_rows += len(selected)
        for column, found_column in zip(wanted.columns(), found.columns(), strict=True):
            assert found_column.tolist() == column.tolist()
    assert selected_rows < 30 * 1_000 * 0.7


def test_all_known_visits_are_returned_if_there_is_no_new_one() -> None:
    known = make_visits(np.random.default_rng(1), 100, 5, (10, 92))
    assert len(NearestVisits(SCOPES, known.take(slice(0, 0))).select(known)) == 100


def test_only_the_nearest_known_visits_are_selected() -> None:
    days = np.arange(1, 101, dtype=np.uint16)
    known = VisitRows(np.full(100, 7), np.full(100, 4, np.int32), days, np.ones(100, np.uint8))
    other_section = VisitRows(known.key, np.full(100, 5, np.int32), days, known.bits)
    new = VisitRows(np.full(1, 7), np.full(1, 4, np.int32), np.array([50], np.uint16), np.ones(1, np.uint8))
    single = VisitRows(new.key, np.full(1, 6, np.int32), np.array([50], np.uint16), new.bits)
    found = NearestVisits(SCOPES, new).select(join_visits([known, other_section, single]))
    assert found.scope.tolist() == [4, 4, 4]
    assert sorted(found.day.tolist()) == [49, 50, 51]
