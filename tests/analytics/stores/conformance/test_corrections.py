"""Withdrawn and reclassified views leave no trace: the numbers are those of a store that never had them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import Correction, DayRange, Reclassification, Store
from copydesk.analytics.stores.errors import RawViewsDeleted
from copydesk.analytics.stores.report_rows import Counts
from copydesk.analytics.stores.shared import SharedStore
from tests.analytics.stores.conformance.conftest import STORE_OPENERS
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

TO_ASSISTANT = Reclassification("token:X", "X", "Example", "training", "token:X", "X", "Example", "assistant")


@pytest.fixture(params=[*STORE_OPENERS, "shared"])
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    return STORE_OPENERS.get(request.param, SharedStore)


def read_reports(store: Store) -> list[object]:
    return [
        *(store.count_visitors_by_page("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        *(store.count_views_by_page("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        *(store.list_agents("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        store.load_timeseries("docs", "day"),
        store.list_rules("docs"),
    ]


RANGES = [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]


@pytest.mark.deep
def test_withdrawn_views_are_not_counted_and_can_be_logged_again(store: Store) -> None:
    views = [make_view(event=1), make_view(event=2, visitor=2), make_view("/a", event=3, visitor=2, day=MONDAY + 1)]
    log_and_fold(store, *views)
    before = read_reports(store)
    assert store.withdraw_views("docs", [2, 3, 99]) == 2
    assert store.count_visitors_by_page("docs").totals == Counts(human=1, ai=0, total=1)
    assert store.withdraw_views("docs", [2, 3]) == 0
    assert store.withdraw_views("other", [1]) == 0
    assert store.log_views(views).accepted == 2
    store.fold()
    assert read_reports(store) == before


def test_views_that_are_not_folded_yet_are_withdrawn_too(store: Store) -> None:
    store.log_views([make_view(event=1), make_view(event=2)])
    assert store.withdraw_views("docs", [1]) == 1
    store.fold()
    assert store.count_views_by_page("docs").totals.human == 1


@pytest.mark.deep
def test_day_with_deleted_raw_views_is_not_corrected(store: Store) -> None:
    log_and_fold(store, make_view(event=1, kind="training", agent="X", rule="token:X"))
    store.delete_raw_views(MONDAY + 1)
    late, next_day = make_view(event=2, kind="training", agent="X", rule="token:X"), MONDAY + 1
    log_and_fold(store, late, make_view(event=3, kind="training", agent="X", rule="token:X", day=next_day))
    before = read_reports(store)
    with pytest.raises(RawViewsDeleted, match="2026-01-05"):
        store.withdraw_views("docs", [2, 3])
    assert read_reports(store) == before
    assert store.withdraw_views("docs", [1]) == 0
    assert store.log_views([make_view(event=1)]).duplicates == (0,)
    assert store.reclassify_views("docs", [TO_ASSISTANT], "2") == Correction(1, (MONDAY,))
    assert store.count_views_by_page("docs").totals == Counts(human=0, ai=1, total=1)


def test_reclassified_views_count_in_their_new_class(store: Store) -> None:
    views = [make_view(), make_view(kind="training", agent="X", rule="token:X", visitor=2), make_view("/a", visitor=2)]
    log_and_fold(store, *views, make_view(kind="training", agent="X", rule="address:x", visitor=3))
    assert store.reclassify_views("docs", [TO_ASSISTANT], "2") == Correction(1)
    assert store.count_visitors_by_page("docs").totals == Counts(human=2, ai=1, total=2)
    assert {(row.agent, row.kind, row.visitors) for row in store.list_agents("docs")[0]} == {
        (None, "human", 2),
        ("X", "assistant", 1),
        ("X", "training", 1),
    }
    assert (
        store.reclassify_views("docs", [], "2") == store.reclassify_views("none", [TO_ASSISTANT], "2") == Correction(0)
    )
