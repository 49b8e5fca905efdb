"""After any operations in any order, every report equals the count over all views."""

import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import (
    CLASS_BITS,
    DEFAULT_RAW_VIEW_LIMITS,
    DayRange,
    Interval,
    PageQuery,
    RawViewLimits,
    Reclassification,
    SectionQuery,
    Store,
)
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.errors import RawViewsDeleted
from copydesk.analytics.stores.report_rows import ReportPage
from copydesk.core.clock import DAY, HOUR
from tests.analytics.stores.conformance.model import ReferenceStore

FIRST = 20_470
"""2026-01-18: the following forty days contain a month and several weeks."""
PROJECTS = ("docs", "other")
DAYS = st.integers(FIRST, FIRST + 40)
VIEWS = st.builds(
    PageView,
    project=st.sampled_from((*PROJECTS[:1] * 3, *PROJECTS)),
    path=st.sampled_from(("/", "/a", "/b", "/é", "/a/b", "/a/b/c", "/a/b/d/e", "/a/b/d/f", "/ab/c?v=2/1")),
    at=st.builds(lambda day, time: day * DAY + time, DAYS, st.sampled_from((0, 1, HOUR - 1, HOUR, DAY - 1))),
    kind=st.sampled_from((VisitorClass.HUMAN, VisitorClass.ASSISTANT, *VisitorClass)),
    agent=st.sampled_from(("", "Reader", "Finder")),
    operator=st.sampled_from(("", "Example")),
    rule=st.sampled_from(("token:a", "browser")),
    agent_table_version=st.sampled_from(("1", "2")),
    visitor=st.sampled_from((None, 1, 2, 3, (1 << 63) - 1)),
    host=st.sampled_from(("", "docs.example.com")),
    referrer=st.sampled_from(
        (
            "",
            "example.org",
            "/a",
            "chatgpt.com",
            "www.google.co.uk",
            "bing.com",
            "old.reddit.com",
            "www.docs.example.com",
        )
    ),
    status=st.sampled_from((200, 200, 304, 404, 410)),
    event=st.none() | st.integers(0, 40),
)
RANGES = st.builds(DayRange, st.integers(FIRST - 1, FIRST + 41), st.integers(FIRST - 1, FIRST + 42)) | st.just(
    DayRange()
)
CHOICES = st.builds(
    PageQuery,
    st.sampled_from(("", "", "/", "A", "É")),
    st.sampled_from(("path", "human", "ai", "total")),
    st.booleans(),
)
CLASSES = st.tuples(
    st.sampled_from(("token:a", "browser")),
    st.sampled_from(("", "Reader", "Finder")),
    st.sampled_from(("", "Example")),
    st.sampled_from(sorted(CLASS_BITS)),
)
CHANGES = st.dictionaries(CLASSES, CLASSES, min_size=1, max_size=8).map(
    lambda changes: [Reclassification(*old, *new) for old, new in changes.items() if old != new]
)
SECTIONS = st.sampled_from(
    [
        SectionQuery(prefix, depth)
        for prefix, depth in (("", 1), ("", 2), ("/a", 2), ("/a", 3), ("/a/b", 3), ("/a/b/d", 4), ("/no", 2))
    ]
)
MAX_ASKED_HOURS = 6
INTERVALS: tuple[Interval, ...] = ("day", "week", "month")


def make_state_machine(open_store: Callable[[Path], Store]) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.folder = Path(tempfile.mkdtemp(prefix="copydesk-exact-"))
            self.store, self.model = open_store(self.folder), ReferenceStore()
            self.asked_hours: list[tuple[str, int, int]] = []

        def teardown(self) -> None:
            self.store.close()
            shutil.rmtree(self.folder)

        @rule(views=st.lists(VIEWS, min_size=1, max_size=40))
        def log(self, views: list[PageView]) -> None:
            assert self.store.log_views(views) == self.model.log_views(views)
            days = sorted({(view.project, view.at // DAY) for view in views})[:MAX_ASKED_HOURS]
            self.remember_hours(*((project, day * DAY, (day + 1) * DAY) for project, day in days))

        @rule()
        def fold(self) -> None:
            assert self.store.fold() == self.model.fold()

        @rule(views=st.lists(VIEWS, min_size=1, max_size=10))
        def log_and_fold(self, views: list[PageView]) -> None:
            self.log(views)
            self.fold()

        @rule(
            project=st.sampled_from(PROJECTS),
            days=RANGES,
            limit=st.integers(1, 5),
            offset=st.integers(0, 5),
            choice=CHOICES,
            sections=SECTIONS,
        )
        def ask(
            self, project: str, days: DayRange, limit: int, offset: int, choice: PageQuery, sections: SectionQuery
        ) -> None:
            asked = (project, days, limit, offset)
            assert _with_row_list(self.store.count_visitors_by_page(*asked, choice)) == _with_row_list(
                self.model.count_visitors_by_page(*asked, choice)
            )
            assert _with_row_list(self.store.count_visitors_by_page(*asked)) == _with_row_list(
                self.model.count_visitors_by_page(*asked)
            )
            assert _with_row_list(self.store.count_views_by_page(*asked)) == _with_row_list(
                self.model.count_views_by_page(*asked)
            )
            missing = self.store.list_missing_pages(*asked)
            assert replace(missing, rows=list(missing.rows)) == self.model.list_missing_pages(*asked)
            referrers = self.store.list_referrers(*asked)
            assert replace(referrers, rows=list(referrers.rows)) == self.model.list_referrers(*asked)
            found_sections = self.store.list_sections(*asked, sections)
            assert replace(found_sections, rows=list(found_sections.rows)) == self.model.list_sections(*asked, sections)
            if self.model.has_all_raw_views(project):
                for path in ("/", "/a", "/a/b/c", "/no"):
                    for limits in (DEFAULT_RAW_VIEW_LIMITS, RawViewLimits(of_page=3)):
                        detail = self.store.load_page(project, path, days, limits)
                        assert detail == self.model.load_page(project, path, days, limits)
                    limits = RawViewLimits(of_site=5)
                    expected = [self.model.load_page(project, path, days, limits)]
                    if isinstance(self.store, DuckStore):  # does not search, and so not limit, views copied by page
                        expected.append(self.model.load_page(project, path, days, DEFAULT_RAW_VIEW_LIMITS))
                    assert self.store.load_page(project, path, days, limits) in expected
            rows, more = self.store.list_agents(*asked)
            assert (list(rows), more) == self.model.list_agents(*asked)
            for interval in INTERVALS:
                found = list(self.store.load_timeseries(project, interval, days))
                assert found == self.model.load_timeseries(project, interval, days)
            totals = list(self.store.count_site_totals(PROJECTS, days))
            assert totals == self.model.count_site_totals(PROJECTS, days)
            for each in totals:
                assert each.visitors == self.store.count_visitors_by_page(each.project_id, days, 1).totals
                assert each.views == self.store.count_views_by_page(each.project_id, days, 1).totals

        @rule(
            project=st.sampled_from(PROJECTS),
            first=DAYS,
            start=st.sampled_from((0, 0, 0, 1, HOUR, HOUR + 1)),
            hours=st.integers(0, 23) | st.integers(22, 60),
            rest=st.sampled_from((0, 0, 1, 2, HOUR - 1)),
        )
        def ask_for_hours(self, project: str, first: int, start: int, hours: int, rest: int) -> None:
            self.remember_hours((project, first * DAY + start, first * DAY + hours * HOUR + rest))

        def remember_hours(self, *asked: tuple[str, int, int]) -> None:
            """Chooses what is asked for after each operation."""
            self.asked_hours = [*self.asked_hours, *asked][-MAX_ASKED_HOURS:]

        @rule()
        def rebuild(self) -> None:
            self.store.rebuild_index()

        @rule()
        def restart(self) -> None:
            self.store.close()
            self.store = open_store(self.folder)

        @rule(views=st.lists(VIEWS, min_size=1, max_size=6))
        def restart_and_add_late_views(self, views: list[PageView]) -> None:
            """Adds views to days whose hours were just read from what is stored, because nothing was in memory."""
            self.restart()
            self.compare_hours()
            days = itertools.cycle([(project, at // DAY) for project, at, _ in self.asked_hours] or [("docs", FIRST)])
            moved = zip(views, days, strict=False)
            self.log_and_fold(
                [view._replace(project=project, at=day * DAY + view.at % DAY) for view, (project, day) in moved]
            )

        @rule(kinds=st.sets(st.sampled_from(sorted(CLASS_BITS.keys() - {"human"}))))
        def count_as_ai(self, kinds: set[str]) -> None:
            self.store.set_ai_classes("docs", kinds)
            self.model.ai["docs"] = frozenset(kinds)

        @precondition(lambda self: not self.model.logged)
        @rule(day=DAYS)
        def delete_raw_views(self, day: int) -> None:
            self.store.delete_raw_views(day)
            self.model.delete_raw_views(day)

        @rule(events=st.sets(st.integers(0, 40), min_size=1))
        def withdraw(self, events: set[int]) -> None:
            self.fold()
            withdrawn = self.model.withdraw_views("docs", events)
            if withdrawn is None:
                with pytest.raises(RawViewsDeleted):
                    self.store.withdraw_views("docs", sorted(events))
            else:
                assert self.store.withdraw_views("docs", sorted(events)) == withdrawn

        @rule(changes=CHANGES)
        def reclassify(self, changes: list[Reclassification]) -> None:
            self.fold()
            expected = self.model.reclassify_views("docs", changes, "3")
            assert self.store.reclassify_views("docs", changes, "3") == expected

        @rule()
        def list_rules(self) -> None:
            self.fold()
            for with_missing in (False, True):
                found = self.store.list_rules("docs", with_missing=with_missing)
                assert set(found) == self.model.list_rules("docs", with_missing)

        @rule(visitor=st.sampled_from((1, 2, 3, (1 << 63) - 1)))
        def forget_visitor(self, visitor: int) -> None:
            self.store.forget_visitor("docs", visitor)
            self.model.forget_visitor("docs", visitor)

        @rule()
        def forget(self) -> None:
            self.store.forget_project("other")
            self.model.forget_project("other")

        @invariant()
        def backlog_is_what_is_not_folded(self) -> None:
            assert self.store.backlog() == len(self.model.logged)

        @invariant()
        def hours_that_were_asked_for_stay_exact(self) -> None:
            self.compare_hours()

        def compare_hours(self) -> None:
            for asked in self.asked_hours:
                report = self.store.load_hours(*asked)
                assert replace(report, hours=list(report.hours)) == self.model.load_hours(*asked)

    return Machine


def _with_row_list(page: ReportPage) -> ReportPage:
    """Converts the rows to a list."""
    return replace(page, rows=list(page.rows))


def run_state_machine(open_store: Callable[[Path], Store], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        make_state_machine(open_store),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.deep
def test_reports_stay_exact_under_random_operations(open_store: Callable[[Path], Store], is_slow: bool) -> None:
    run_state_machine(open_store, examples=4 if is_slow else 8, steps=12 if is_slow else 20)


@pytest.mark.drill
@pytest.mark.parametrize("part", range(4))
def test_reports_stay_exact_under_many_random_operations(
    open_store: Callable[[Path], Store], is_slow: bool, part: int
) -> None:
    """Four parts, each well below the time after which a test counts as hung."""
    run_state_machine(open_store, examples=10 if is_slow else 75, steps=30 if is_slow else 40)
