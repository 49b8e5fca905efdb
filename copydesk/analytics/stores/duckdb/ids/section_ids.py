"""Numeric ids of the sections of the first level. A section is the beginning of a path: `/ja` is the page `/ja` and all
pages below it."""

from collections.abc import Sequence

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.ids.scopes import (
    NO_SECTION,
    SECTION_SCOPE,
    AddScopes,
    compute_salt,
    find_scope_ids,
)


def find_section(path: str) -> str:
    """Returns the section of the first level that a page belongs to; "" for the start page, which has none."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    return f"/{parts[0]}" if parts else ""


def add_section_ids(
    connection: DuckConnection, add_scopes: AddScopes, project_id: int, project: str, paths: Sequence[str]
) -> list[int]:
    """Returns the id of the section of each page, and stores sections that are new."""
    sections = [find_section(path) for path in paths]
    known = find_scope_ids(connection, SECTION_SCOPE, project_id, set(sections))
    new = sorted(set(sections) - known.keys() - {""})
    rows = [(project_id, SECTION_SCOPE, section, "", "", 0, compute_salt(project), NO_SECTION) for section in new]
    known.update(zip(new, add_scopes(connection, rows), strict=True))
    return [known.get(section, NO_SECTION) for section in sections]
