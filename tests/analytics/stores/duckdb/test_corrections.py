"""Withdrawn and reclassified views leave no trace: the numbers are those of a store that never had them."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import Correction, Counts, DayRange, RawViewsDeleted, Reclassification, Store
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.shared import SharedStore
from tests.analytics.stores.conformance.test_store import MONDAY, log_and_fold, make_view

TO_ASSISTANT = Reclassification("token:X", "X", "Example", "training", "token:X", "X", "Example", "assistant")


@pytest.fixture(params=["own", "shared"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = SharedStore(tmp_path) if request.param == "shared" else DuckStore(tmp_path / "a.duckdb")
    yield opened
    opened.close()


def read_reports(store: Store) -> list[object]:
    return [
        *(store.count_visitors_by_page("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        *(store.count_views_by_page("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        *(store.list_agents("docs", DayRange(MONDAY + n, MONDAY + n + length)) for n, length in RANGES),
        store.load_timeseries("docs", "day"),
        store.list_rules("docs"),
    ]


RANGES = [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]


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


VIEWS = st.lists(
    st.tuples(
        st.sampled_from(["/", "/a"]),
        st.integers(0, 2),
        st.sampled_from(["human", "assistant", "training"]),
        st.sampled_from([None, 1, 2]),
        st.booleans(),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(VIEWS)
def test_corrected_store_equals_one_that_was_right_from_the_start(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, str, int | None, bool]]
) -> None:
    def make(number: int, kind: str, version: str = "1") -> PageView:
        path, day, _, visitor, _ = drawn[number]
        agent, rule = ("", "rule") if kind == "human" else ("X", "token:X")
        return make_view(path, MONDAY + day, kind, visitor, number, agent=agent, rule=rule, agent_table_version=version)

    folder = tmp_path_factory.mktemp("stores")
    corrected, right = DuckStore(folder / "a.duckdb"), DuckStore(folder / "b.duckdb")
    try:
        kinds = [kind for _, _, kind, _, _ in drawn]
        log_and_fold(corrected, *(make(number, kind) for number, kind in enumerate(kinds)))
        corrected.withdraw_views("docs", [number for number, view in enumerate(drawn) if view[4]])
        corrected.reclassify_views("docs", [TO_ASSISTANT], "2")
        new_kinds = ["assistant" if kind == "training" else kind for kind in kinds]
        log_and_fold(right, *(make(n, kind) for n, kind in enumerate(new_kinds) if not drawn[n][4]))
        assert read_reports(corrected) == read_reports(right)
    finally:
        corrected.close()
        right.close()


def test_store_of_the_previous_schema_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    store = DuckStore(path)
    log_and_fold(store, make_view(event=1))
    before = read_reports(store)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("alter table views drop column event")
        connection.execute("update marks set value = 2 where name = 'schema'")
    store = DuckStore(path)
    assert read_reports(store) == before
    assert store.withdraw_views("docs", [1]) == 0
    assert store.log_views([make_view(event=1), make_view(event=2)]).duplicates == (0,)
    store.close()
