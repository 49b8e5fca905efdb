"""Keeps the index of visitors: folds logged views into visits, and visits into its links, in one transaction.

`visitor_report.VisitorReports` counts from it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.compaction import delete_rows
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.folding.links import (
    ChangedVisits,
    IndexRows,
    add_to_known,
    combine_visits,
    count_links,
    find_whole_keys,
    join_index_rows,
)
from copydesk.analytics.stores.duckdb.folding.nearest_visits import NearestVisits
from copydesk.analytics.stores.duckdb.folding.recent_folds import MAX_ROWS_IN_MEMORY, RecentFolds
from copydesk.analytics.stores.duckdb.folding.row_inserts import RowInserts
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import DEFAULT_RUN_SIZES, RunSizes, VisitRuns
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT, ScopeTable
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    NO_VISITS,
    Keys,
    Scopes,
    VisitRows,
    contain_keys,
    join_visits,
    match_visits,
    sort_distinct,
    split_by_key,
)
from copydesk.analytics.stores.duckdb.log.unfolded_views import UnfoldedViews, ViewColumns
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.core.runtime.memory import return_free_memory

MAX_VIEWS_PER_TRANSACTION = 250_000
"""Enough to share the cost of a transaction, which reads most pages of the files; few enough to bound the memory."""
MANY_ADDED_VISITS = 100_000
"""After more new visits, free memory is returned before the next step, which cannot use it: it lies in small pieces
between other arrays. This takes a few milliseconds."""
MAX_VISITS_SEARCHED_AT_ONCE = 2_000
"""Up to this many visits are searched at once. Two searches for fewer of more visits are faster."""
NEW_VISITS_PER_RANGE = 50_000
"""More visits are added in ranges of keys, which bounds the memory: there may be several times as many known visits,
and all of them are copied about twenty times."""
ROWS_BETWEEN_CHECKS = 10_000
"""After this many new rows, it is checked whether the tables should be compacted."""
MAX_FOLD_ROWS = 1_000
"""After this many folds, the rows of all but the last one are deleted."""
SELECT_VIEWS = """
    select
        page, agent, source, kind::utinyint as kind, coalesce(visitor, -1) as visitor,
        (time // 86400000)::usmallint as day
    from views
"""


class VisitorIndex:
    """The index and the visits it is counted from. One caller at a time, who holds the store's fold lock."""

    def __init__(
        self,
        database: DuckDatabase,
        run_sizes: RunSizes = DEFAULT_RUN_SIZES,
        unfolded_views: UnfoldedViews | None = None,
        recent_folds: RecentFolds | None = None,
    ) -> None:
        self._database = database
        self._unfolded_views = unfolded_views or UnfoldedViews()
        self._recent_folds = recent_folds or RecentFolds()
        self._inserts = RowInserts()
        self.visits = VisitRuns(database, self._inserts, run_sizes)
        self._scopes = ScopeTable()
        self._last_folded: int | None = None
        """The last view of the last committed fold; None if it must be read."""
        self._fold_rows = MAX_FOLD_ROWS
        """The rows of the table `folds`, or more: the first fold deletes those of earlier processes."""
        self._new_rows = 0
        self.removals = 0
        """How often visits were removed. If it changes, visits that were read before may not exist any more."""

    @property
    def last_folded(self) -> int:
        """Returns the number of the last folded view, after a fold."""
        assert self._last_folded is not None, "asked after a fold"
        return self._last_folded

    def has_many_new_rows(self) -> bool:
        """Returns whether so many rows were added since the last such call that compacting tables may pay off."""
        if self._new_rows < ROWS_BETWEEN_CHECKS:
            return False
        self._new_rows = 0
        return True

    def fold_views(self, upto: int, max_views: int | None = None) -> Iterator[int]:
        """Counts the logged views up to this number, in several transactions if needed.

        Yields how many each counted.
        """
        while (view_count := self._fold_next(upto, max_views)) is not None:
            yield view_count

    def _fold_next(self, upto: int, max_views: int | None) -> int | None:
        """Counts logged views in one transaction. Returns how many, or None if those up to this number are counted."""
        if self._last_folded is not None and self._last_folded >= upto:
            return None
        with self.change(), self._database.write(for_fold=True) as connection:
            after = read_last_folded(connection) if self._last_folded is None else self._last_folded
            last = min(upto, after + (max_views or MAX_VIEWS_PER_TRANSACTION))
            if after < last:
                view_count, index_rows = self._fold_range(connection, after, last)
        self._last_folded = max(after, last)
        self._unfolded_views.remove(self._last_folded)
        if after >= last:
            return None
        self._recent_folds.add(after, last, index_rows)
        return view_count

    def prepare(self) -> None:
        """Loads what the first fold needs: the visits, as far as folds keep them in memory, and the scopes.

        Loads nothing if the fold will move visits first.
        """
        with self._database.read() as connection:
            if self.visits.has_long_table(connection):
                return
        with self.change(), self._database.write(for_fold=True) as connection:
            self._load_scopes(connection)
            self.visits.load()

    @contextmanager
    def change(self) -> Iterator[None]:
        """Allows changes of the index, in a transaction that is committed before the block ends."""
        try:
            with self.visits.change():
                yield
        except BaseException:
            self.discard_scopes()
            self._last_folded = None
            raise

    def discard_scopes(self) -> None:
        """Discards the cache of scopes. Call it when stored scopes or a project's AI classes have changed."""
        self._scopes = ScopeTable()

    def rebuild(self, connection: DuckConnection, project: int | None) -> None:
        """Rebuilds the index of one project from the visits; None means all."""
        self._load_scopes(connection)
        delete_rows(connection, "firsts", "project = $project or $project is null", {"project": project})
        for rows in self.visits.read_all():
            counted = rows if project is None else rows.take(self._scopes.project[rows.scope] == project)
            self._change_index(connection, [(counted, np.zeros(len(counted), np.uint8), counted.bits)])

    def replace_visits(self, connection: DuckConnection, old: VisitRows, new: VisitRows) -> None:
        """Deletes the visits of the old rows (by scope, key and day), stores the new ones, and corrects the index."""
        self._load_scopes(connection)
        keys = sort_distinct(np.concatenate((old.key, new.key)))
        known = self.visits.find(keys)
        is_removed = match_visits(known, old)
        self.removals += bool(is_removed.any())
        rows = join_visits([known, new])
        was = np.concatenate((known.bits, np.zeros(len(new), np.uint8)))
        now = np.concatenate((np.where(is_removed, np.uint8(0), known.bits), new.bits))
        self._change_index(connection, [(rows, was, now)])
        self.visits.remove_keys(connection, keys, lambda found: match_visits(found, old))
        whole = combine_visits(new, new.bits, new.bits)
        self.visits.add(connection, VisitRows(whole.key, whole.scope, whole.day, whole.now))

    def forget_visitor(self, connection: DuckConnection, project: int, visitor: int) -> None:
        """Deletes the visits of a visitor."""
        self._load_scopes(connection)
        scope_ids = np.flatnonzero(self._scopes.project == project)
        keys = sort_distinct(self._scopes.salt[scope_ids] ^ visitor)
        found = self.visits.find(keys)
        is_own = self._scopes.salt[found.scope] ^ visitor == found.key
        is_own &= self._scopes.project[found.scope] == project
        self.replace_visits(connection, found.take(is_own), NO_VISITS)

    def forget_project(self, connection: DuckConnection, project: int) -> None:
        """Deletes the visits of a project."""
        self.removals += 1
        self._load_scopes(connection)
        self.visits.remove(connection, lambda rows: self._scopes.project[rows.scope] == project)
        self.discard_scopes()

    def load_visits(self, connection: DuckConnection, condition: str, params: dict[str, int]) -> VisitRows:
        """Returns the visits of the views that a condition selects."""
        self._load_scopes(connection)
        return self._find_visits(_read_views(connection, condition, params))

    def count_views(self, connection: DuckConnection, condition: str, params: dict[str, int]) -> None:
        """Adds the views that a condition selects to the counts, and where requests for missing pages came from."""
        self._load_scopes(connection)
        self._add_counts(connection, _read_views(connection, condition, params), condition, params)

    def add_visits(self, connection: DuckConnection, new: VisitRows) -> None:
        """Stores visits. Those that are stored already change nothing."""
        self._load_scopes(connection)
        parts = split_by_key(new, max(1, -(-len(new) // NEW_VISITS_PER_RANGE)))
        self._add_visits(connection, ((self._find_nearest(part, part.key), part) for part in parts))

    def _fold_range(self, connection: DuckConnection, after: int, last: int) -> tuple[int, list[IndexRows] | None]:
        """Counts views. Returns how many they are, and the rows that were added to the index, or None if they are more
        than `RecentFolds` keeps."""
        condition, params = "where seq > $after and seq <= $upto", {"after": after, "upto": last}
        views = self._unfolded_views.find(after, last) or _read_views(connection, condition, params)
        if len(views.page) and max(views.page.max(), views.agent.max(), views.source.max()) >= len(self._scopes.salt):
            self._load_scopes(connection)
        self._add_counts(connection, views, condition, params)
        index_rows = self._add_visits(connection, self._find_known(self._find_visits(views)))
        self._store_last_folded(connection, last)
        return len(views.page), index_rows

    def _store_last_folded(self, connection: DuckConnection, last: int) -> None:
        if self._fold_rows >= MAX_FOLD_ROWS:
            connection.execute("delete from folds")
            self._fold_rows = 0
        self._inserts.insert(connection, "folds", {"upto": np.array([last], np.uint64)})
        self._fold_rows += 1

    def _find_known(self, new: VisitRows) -> Iterator[tuple[VisitRows, VisitRows]]:
        """Yields new visits, in parts that have no scope and key in common, each after the stored visits near them.

        The new visits must be all visits of some views. A visitor who never visited the site has no visits of its
        pages, so these are not searched. Missing pages are no part of the site.
        """
        if len(new) <= MAX_VISITS_SEARCHED_AT_ONCE:
            yield self._find_nearest(new, new.key), new
            return
        ranges = -(-len(new) // NEW_VISITS_PER_RANGE)
        is_of_site = self._scopes.is_of_site[new.scope]
        found_keys = []
        for part in split_by_key(new.take(is_of_site), ranges):
            known = self._find_nearest(part, part.key)
            found_keys.append(sort_distinct(known.key))
            yield known, part
        known_site_keys = np.concatenate(found_keys)
        for part in split_by_key(new.take(~is_of_site), ranges):
            site_key = part.key ^ self._scopes.salt[part.scope] ^ self._scopes.salt[self._scopes.site[part.scope]]
            may_be_known = self._scopes.is_missing[part.scope] | contain_keys(known_site_keys, site_key)
            yield self._find_nearest(part, part.key[may_be_known]), part

    def _find_nearest(self, new: VisitRows, keys: Keys) -> VisitRows:
        """Returns the stored visits with some keys of new visits, without most of those that make no difference."""
        return self.visits.find(sort_distinct(keys), NearestVisits(self._scopes, new).select)

    def _add_visits(
        self, connection: DuckConnection, parts: Iterable[tuple[VisitRows, VisitRows]]
    ) -> list[IndexRows] | None:
        """Stores visits and adds those that are not known to the index. Returns the rows that were added to it, or None
        if they are more than `RecentFolds` keeps.

        Each part has the known visits that new ones may be linked with, and these.
        """
        changes = starmap(add_to_known, parts)
        added_visits, index_rows = self._change_index(connection, changes)
        self.visits.add(connection, added_visits)
        return index_rows

    def _find_visits(self, views: ViewColumns) -> VisitRows:
        """Returns the visits of views: to the page; to the agent and so to the site, and to the sections, unless the
        page is missing; and from the source, if a person arrived."""
        to_page = np.flatnonzero(views.visitor >= 0)
        to_agent = to_page[~self._scopes.is_missing[views.agent[to_page]]]
        from_source = to_agent[_select_arrivals(views)[to_agent]]
        rows = [to_page, to_agent, from_source]
        scope = [views.page[to_page], views.agent[to_agent], views.source[from_source]]
        for section in self._scopes.list_sections(views.page[to_agent]):
            in_section = np.flatnonzero(section)
            rows.append(to_agent[in_section])
            scope.append(section[in_section])
        return self._build_visits(views, np.concatenate(rows), np.concatenate(scope))

    def _build_visits(self, views: ViewColumns, rows: NDArray[np.int64], scope: Scopes) -> VisitRows:
        return VisitRows(views.visitor[rows] ^ self._scopes.salt[scope], scope, views.day[rows], views.kind[rows])

    def _add_counts(
        self, connection: DuckConnection, views: ViewColumns, condition: str, params: dict[str, int]
    ) -> None:
        """Adds views to the counts. The condition selects the same views."""
        if self._scopes.is_missing[views.page].any():
            connection.execute(load_sql("fold_missing").replace("/* condition */", condition), params)
        of_site = ~self._scopes.is_missing[views.agent]
        agent = views.agent[of_site]
        arrivals = _select_arrivals(views)
        scope = np.concatenate((views.page, agent, self._scopes.site[agent], views.source[arrivals]))
        day_kind = _combine_day_kind(views)
        day_kind = np.concatenate((day_kind, day_kind[of_site], day_kind[of_site], day_kind[arrivals]))
        self._insert_counts(connection, scope, day_kind)

    def _insert_counts(self, connection: DuckConnection, scope: Scopes, day_kind: NDArray[np.int64]) -> None:
        """Adds one view for each scope with its day and class."""
        codes, numbers = np.unique(scope.astype(np.int64) << 24 | day_kind, return_counts=True)
        if len(codes):
            scope = (codes >> 24).astype(np.int32)
            day, kind = (codes >> 8 & 0xFFFF).astype(np.uint16), (codes & 0xFF).astype(np.uint8)
            columns = {"project": self._scopes.project[scope], "scope": scope, "day": day, "kind": kind}
            self._inserts.insert(connection, "counts", {**columns, "n": numbers.astype(np.int32)})
            self._new_rows += len(codes)

    def _change_index(
        self, connection: DuckConnection, parts: Iterable[ChangedVisits]
    ) -> tuple[VisitRows, list[IndexRows] | None]:
        """Changes the index for visits with their bits before and after, in parts that have no scope and key in common.

        Returns the bits that are new, as visits sorted by key, and the rows that were added to the index, or None if
        they are more than `RecentFolds` keeps.
        """
        index_parts, added_parts = [], []
        for rows, was, now in parts:
            changes = combine_visits(rows, was, now)
            is_changed = changes.was != changes.now
            index_parts.append(count_links(self._scopes, changes.take(find_whole_keys(changes.key, is_changed))))
            added = changes.take(np.flatnonzero(is_changed))
            added_parts.append(VisitRows(added.key, added.scope, added.day, added.now & ~added.was))
        has_many = sum(map(len, added_parts)) > MANY_ADDED_VISITS
        if has_many:
            return_free_memory()
        index_rows = self._insert_index_rows(connection, index_parts)
        index_parts.clear()
        if has_many:
            return_free_memory()
        added_visits = added_parts[0] if len(added_parts) == 1 else join_visits(added_parts).sort_by_key()
        return added_visits, index_rows

    def _insert_index_rows(self, connection: DuckConnection, parts: list[IndexRows]) -> list[IndexRows] | None:
        """Adds the sums of these rows to the index. Returns them, or None if they are more than `RecentFolds` keeps."""
        kept: list[IndexRows] = []
        row_count = 0
        for rows in join_index_rows(parts):
            self._inserts.insert(connection, "firsts", self._name_columns(rows))
            row_count += len(rows)
            kept = [*kept, rows] if row_count <= MAX_ROWS_IN_MEMORY else []
        self._new_rows += row_count
        return kept if row_count <= MAX_ROWS_IN_MEMORY else None

    def _name_columns(self, rows: IndexRows) -> dict[str, NDArray[np.generic]]:
        return {
            "project": self._scopes.project[rows.scope], "scope": rows.scope, "day": rows.day, "prev": rows.prev,
            "human": rows.human, "ai": rows.ai, "total": rows.total,
        }  # fmt: skip

    def _load_scopes(self, connection: DuckConnection) -> None:
        self._scopes.load_new(connection)


def _combine_day_kind(views: ViewColumns) -> NDArray[np.int64]:
    """Returns the day and the class of each view as one number."""
    return views.day.astype(np.int64) << 8 | views.kind


def _select_arrivals(views: ViewColumns) -> NDArray[np.bool_]:
    """Returns a mask of the views by which people arrived from a source."""
    is_arrival: NDArray[np.bool_] = (views.source > 0) & (views.kind == HUMAN_BIT)
    return is_arrival


def _read_views(connection: DuckConnection, condition: str, params: dict[str, int]) -> ViewColumns:
    return ViewColumns(**connection.execute(SELECT_VIEWS + condition, params).fetchnumpy())
