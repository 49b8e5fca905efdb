"""Numeric ids of the sources of views: the hosts that visitors came from, and `direct`."""

from collections.abc import Mapping, Sequence

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.ids.scopes import NO_SECTION, SOURCE_KIND_SCOPE, AddScopes, compute_salt
from copydesk.analytics.stores.names.referrer_hosts import OTHER_HOSTS, ReferrerHostLimit
from copydesk.analytics.stores.names.referrer_sources import Source, SourceKind

SELECT_SOURCES = """
    select kind, path, id from scopes
    where sort = $sort and project = $project and path in (select unnest($hosts::varchar[]))
"""
SELECT_HOSTS = "select path from scopes where sort between 6 and 31 and project = $project"
SELECT_KIND = "select 1 from scopes where sort = $sort and project = $project and kind = $kind"
NO_SOURCE = 0
"""The id of the source of a view that is no arrival."""
ReferrerKey = tuple[int, str, str]
"""A project, the host of the page, and the referrer as it was logged."""
SourceKey = tuple[int, Source]


class SourceIds:
    """A cache of the ids of sources, by page host and referrer. Part of the cache of all ids."""

    def __init__(self, add_scopes: AddScopes, max_cached: int) -> None:
        self._add_scopes = add_scopes
        self._max_cached = max_cached
        self._host_limit = ReferrerHostLimit()
        self._ids: dict[ReferrerKey, int] = {}
        self._overflow: set[ReferrerKey] = set()
        """The keys whose hosts are beyond the limit of their day. They may be counted by themselves later."""

    def get_ids(self) -> Mapping[ReferrerKey, int]:
        """Returns the known ids. Call `add` for views whose keys are not among them."""
        return self._ids

    def add(self, connection: DuckConnection, projects: Mapping[str, int], views: Sequence[PageView]) -> None:
        """Makes the sources of views known, and stores those that are new."""
        self._forget_some()
        sources: dict[ReferrerKey, Source | None] = {}
        names: dict[int, str] = {}
        for view in views:
            project_id = projects[view.project]
            key = project_id, view.host, view.referrer
            if view.is_missing or key in self._ids or key in sources:
                continue
            names[project_id] = view.project
            sources[key] = self._host_limit.find_source(
                view, lambda project: self._load_hosts(connection, projects[project])
            )
        wanted = {(key[0], source) for key, source in sources.items() if source is not None}
        known = self._find_stored(connection, wanted)
        for project_id, new_source in sorted(wanted - known.keys()):
            known[project_id, new_source] = self._store(connection, project_id, names[project_id], new_source)
        for key, source in sources.items():
            self._ids[key] = NO_SOURCE if source is None else known[key[0], source]
            if source is not None and source.host == OTHER_HOSTS and source.kind is not SourceKind.DIRECT:
                self._overflow.add(key)

    def _forget_some(self) -> None:
        for key in self._overflow:
            del self._ids[key]
        self._overflow.clear()
        if len(self._ids) > self._max_cached:
            self._ids.clear()

    def _find_stored(self, connection: DuckConnection, sources: set[SourceKey]) -> dict[SourceKey, int]:
        stored: dict[SourceKey, int] = {}
        for project_id, sort in {(project_id, get_source_sort(source)) for project_id, source in sources}:
            hosts = sorted({s.host for owner, s in sources if owner == project_id and get_source_sort(s) == sort})
            params = {"sort": sort, "project": project_id, "hosts": hosts}
            for kind, host, scope_id in connection.execute(SELECT_SOURCES, params).fetchall():
                stored[project_id, Source(SourceKind(kind), host)] = scope_id
        return stored

    def _store(self, connection: DuckConnection, project_id: int, project: str, source: Source) -> int:
        """Stores a source, and its kind if that is new."""
        kind, salt = int(source.kind), compute_salt(project)
        rows: list[tuple[object, ...]] = []
        if not _is_kind_stored(connection, project_id, kind):
            rows.append((project_id, SOURCE_KIND_SCOPE, "", "", "", kind, salt, NO_SECTION))
        if source.kind is not SourceKind.DIRECT:
            rows.append((project_id, get_source_sort(source), source.host, "", "", kind, salt, NO_SECTION))
        return list(self._add_scopes(connection, rows))[-1]

    def _load_hosts(self, connection: DuckConnection, project_id: int) -> list[str]:
        return [path for (path,) in connection.execute(SELECT_HOSTS, {"project": project_id}).fetchall()]


def _is_kind_stored(connection: DuckConnection, project_id: int, kind: int) -> bool:
    params = {"sort": SOURCE_KIND_SCOPE, "project": project_id, "kind": kind}
    return bool(connection.execute(SELECT_KIND, params).fetchall())


def get_source_sort(source: Source) -> int:
    """Returns the sort of the scope that views from a source count for. `direct` is a kind without hosts."""
    return SOURCE_KIND_SCOPE if source.kind is SourceKind.DIRECT else SOURCE_KIND_SCOPE + source.kind
