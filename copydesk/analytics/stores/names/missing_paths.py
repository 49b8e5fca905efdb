"""Missing pages: the limit of their paths, because scanners request any number of made-up ones, and their report."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from copydesk.analytics.page_view import MISSING_STATUSES, PageView
from copydesk.analytics.stores.names.name_limit import MAX_TRACKED_DAYS, NameLimit
from copydesk.analytics.stores.report_rows import Counts, MissingReport, MissingRow, ReferrerCount
from copydesk.core.clock import DAY

MAX_MISSING_PATHS = 20_000
"""How many missing paths of a project are counted by themselves."""
MAX_NEW_MISSING_PATHS_PER_DAY = 500
"""How many of them may have their first request on the same day, so that one scan does not use up all."""
OTHER_PATHS = ""
"""Stands for all other missing paths of a project; no path is empty."""
MAX_REFERRERS_PER_DAY = 1_000
"""How many referrers of missing pages a project has per day. Requests with any other count as without one."""
MAX_REFERRERS_PER_PATH = 10
"""How many referrers of a missing path are reported."""


class MissingPathLimit:
    """Decides which missing paths are counted by themselves. The requests for all others are counted together."""

    def __init__(self, max_age_seconds: float | None = None) -> None:
        self._paths = NameLimit(max_age_seconds)
        self._referrers_by_day: dict[tuple[str, int], set[int]] = {}

    def apply(self, views: Sequence[PageView], load_paths: Callable[[str], Iterable[str]]) -> Sequence[PageView]:
        """Returns the views, with OTHER_PATHS as the path of those whose path is one too many, and without a referrer
        that is one too many.

        `load_paths` returns the stored missing paths of a project.
        """
        if not any(view.status in MISSING_STATUSES for view in views):
            return views
        return [self._limit(view, load_paths) if view.is_missing else view for view in views]

    def _limit(self, view: PageView, load_paths: Callable[[str], Iterable[str]]) -> PageView:
        day = view.at // DAY
        if not self._paths.admit(
            view.project, day, view.path, load_paths, MAX_MISSING_PATHS, MAX_NEW_MISSING_PATHS_PER_DAY
        ):
            view = view._replace(path=OTHER_PATHS)
        if not view.referrer:
            return view
        if len(self._referrers_by_day) > MAX_TRACKED_DAYS:
            self._referrers_by_day.clear()
        referrers = self._referrers_by_day.setdefault((view.project, day), set())
        if len(referrers) < MAX_REFERRERS_PER_DAY:
            referrers.add(hash(view.referrer))
        return view if hash(view.referrer) in referrers else view._replace(referrer="")


MissingResult = Sequence[Any]
"""Scope, path, human, AI and all visitors, and requests."""


def split_missing_results(
    results: Sequence[MissingResult], limit: int, offset: int
) -> tuple[MissingResult | None, Sequence[MissingResult], bool]:
    """Splits the rows of a report: all others (None if there are none), the requested rows, and whether there are more.

    The query returns the row of all others first, then the rows from the first on, and at least one more.
    """
    other = results[0] if results and results[0][1] == OTHER_PATHS else None
    rows = results[1:] if other else results
    return other, rows[offset : offset + limit], len(rows) > offset + limit


def build_missing_report(
    other: MissingResult | None, results: Sequence[MissingResult], details: Iterable[Sequence[Any]], has_more: bool
) -> MissingReport:
    """Builds a report. `details` are scope, referrer, requests, and the time of the last request for the scope."""
    last_times: dict[int, int] = {}
    referrers: defaultdict[int, list[ReferrerCount]] = defaultdict(list)
    for scope, referrer, views, last_at in details:
        last_times[scope] = last_at
        if referrer:
            referrers[scope].append(ReferrerCount(referrer, views))
    rows = [
        MissingRow(path, Counts(human, ai, total), views, last_times.get(scope, 0), referrers[scope])
        for scope, path, human, ai, total, views in results
    ]
    if other is None:
        return MissingReport(rows, has_more)
    _, _, human, ai, total, views = other
    return MissingReport(rows, has_more, Counts(human, ai, total), views)
