"""Scopes: the things that visitors are counted for. Their sorts, the salts of their visits, and appending rows."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from copydesk.analytics.stores.duckdb.database import DuckConnection

PAGE_SCOPE, SITE_SCOPE, AGENT_SCOPE, MISSING_SCOPE, MISSING_AGENT_SCOPE, SOURCE_KIND_SCOPE = 0, 1, 2, 3, 4, 5
"""The sort of a referring host is SOURCE_KIND_SCOPE plus the number of its kind."""
SECTION_SCOPE = 32
NO_SECTION = 0
"""The section of a scope that has none."""
SCOPE_COLUMNS = ["id", "project", "sort", "path", "agent", "operator", "kind", "salt", "section"]
SELECT_IDS = """
    select path, id from scopes where sort = $sort and project = $project and path in (select unnest($paths::varchar[]))
"""
AddScopes = Callable[[DuckConnection, Sequence[tuple[object, ...]]], Iterable[int]]
"""Stores new scopes, given by their columns without the id, and returns their ids."""


def find_scope_ids(connection: DuckConnection, sort: int, project: int, paths: Iterable[str]) -> dict[str, int]:
    """Returns the ids of scopes by their paths, without those that are not stored."""
    params = {"sort": sort, "project": project, "paths": list(paths)}
    return dict(connection.execute(SELECT_IDS, params).fetchall())


def compute_salt(project: str, path: str | None = None, sort: int = PAGE_SCOPE) -> int:
    """Returns the salt of a page or a missing page, or of a site without `path`. Agents, sections and sources share the
    salt of their site.

    It depends only on the names, so that all copies of a store have the same salts.
    """
    name = project if path is None else f"{project}\0{path}"
    if sort == MISSING_SCOPE:
        name += "\0missing"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


def append_rows(connection: DuckConnection, table: str, columns: list[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        appender = connection.appender(table, columns=columns)
        appender.append_rows(rows)
        appender.flush()
