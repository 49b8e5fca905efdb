"""Numeric ids of sections. A section is the beginning of a path: `/ja` is the page `/ja` and all pages below it.

The scopes of sections form a tree: a page has the id of its innermost section in the column `section`, and a section
that of the next one around it. All sections of the first level are scopes; a deeper one becomes a scope when it is
added to the index: by the section indexer, or in a large project together with its first page.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from copydesk.analytics.stores.base import MAX_SECTION_DEPTH
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.ids.scopes import (
    NO_SECTION,
    PAGE_SCOPE,
    SECTION_SCOPE,
    AddScopes,
    compute_salt,
    find_scope_ids,
)
from copydesk.analytics.stores.duckdb.sql_files import load_sql

MAX_SECTIONS_OF_NEW_PAGES = 500
"""New pages add deeper sections up to this number in a project. Those may stay sections with one page, which need no
index, so some are left for sections with more."""
COUNT_DEEPER = "select count(*) from scopes where project = $project and sort = 32 and section <> 0"
SELECT_SCOPES = "select path, id from scopes where project = $project and sort = $sort"
SET_SECTIONS = """
    update scopes set section = changes.section
    from (select unnest($ids::integer[]) as id, unnest($sections::integer[]) as section) as changes
    where scopes.id = changes.id and scopes.section <> changes.section
"""


class SectionIds(NamedTuple):
    """The innermost sections of new pages."""

    ids: list[int]
    has_unindexed: bool
    """Whether one of the pages may be the second one in a deeper section that is not stored."""


def list_sections_of(path: str) -> list[str]:
    """Returns the sections that a page belongs to, from the first level to the page itself; none for the start page."""
    parts = [part for part in path.partition("?")[0].split("/") if part][:MAX_SECTION_DEPTH]
    return ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def add_section_ids(
    connection: DuckConnection,
    add_scopes: AddScopes,
    project_id: int,
    project: str,
    paths: Sequence[str],
    with_deeper: bool,
    used_sections: set[str],
) -> SectionIds:
    """Finds the innermost section of each new page, and stores sections of the first level that are new.

    With `with_deeper`, also stores the deeper sections around these pages that contain no stored page. Their index is
    complete, because they have no earlier visits. `used_sections` are known to contain stored pages; more are added.
    """
    sections = [list_sections_of(path) for path in paths]
    known = find_scope_ids(connection, SECTION_SCOPE, project_id, {name for names in sections for name in names})
    new = sorted({names[0] for names in sections if names} - known.keys())
    rows = [_build_row(project_id, project, section) for section in new]
    known.update(zip(new, add_scopes(connection, rows), strict=True))
    deeper: set[str] = set()
    if with_deeper:
        deeper = {name for names in sections for name in names[1:-1]} - known.keys()
        _add_unused_sections(connection, add_scopes, project_id, project, deeper - used_sections, known)
        used_sections |= deeper - known.keys()
    ids = [_find_innermost(names, known) for names in sections]
    return SectionIds(ids, has_unindexed=not deeper <= known.keys())


def count_deeper_sections(connection: DuckConnection, project_id: int) -> int:
    """Returns how many sections below the first level are in the index of a project, complete or not."""
    [(number,)] = connection.execute(COUNT_DEEPER, {"project": project_id}).fetchall()
    return int(number)


def add_deeper_sections(
    connection: DuckConnection, add_scopes: AddScopes, project_id: int, project: str, sections: Collection[str]
) -> list[int]:
    """Stores sections that are not stored yet, and moves pages and sections into them. Returns the ids of new ones.

    Leaves out sections whose first level is not stored: they have no pages, because the project was deleted and created
    again. Also leaves out sections that are too deep.
    """
    known = _load_ids(connection, project_id, SECTION_SCOPE)
    new = sorted(
        section
        for section in set(sections) - known.keys()
        if (names := list_sections_of(section))[-1] == section and names[0] in known
    )
    new_ids = list(add_scopes(connection, [_build_row(project_id, project, section) for section in new]))
    known.update(zip(new, new_ids, strict=True))
    places = {}
    for path, scope in [*_load_ids(connection, project_id, PAGE_SCOPE).items(), *known.items()]:
        names = list_sections_of(path)
        if not set(new).isdisjoint(names):
            places[scope] = _find_innermost(names if known.get(path) != scope else names[:-1], known)
    connection.execute(SET_SECTIONS, {"ids": list(places), "sections": list(places.values())})
    return new_ids


def _add_unused_sections(
    connection: DuckConnection,
    add_scopes: AddScopes,
    project_id: int,
    project: str,
    sections: Collection[str],
    known: dict[str, int],
) -> None:
    """Stores those of the sections that contain no stored page or section, up to the limit, and adds them to the known
    ones. No stored page or section has to be moved into them."""
    if not sections:
        return
    room = MAX_SECTIONS_OF_NEW_PAGES - count_deeper_sections(connection, project_id)
    if room <= 0:
        return
    params = {"project": project_id, "sections": list(sections), "max_depth": MAX_SECTION_DEPTH}
    used = {section for (section,) in connection.execute(load_sql("used_sections"), params).fetchall()}
    new = sorted(set(sections) - used, key=lambda section: (section.count("/"), section))[:room]
    for _, group in groupby(new, key=lambda section: section.count("/")):  # a section follows the one around it
        level = list(group)
        outer = [_find_innermost(list_sections_of(section)[:-1], known) for section in level]
        rows = [_build_row(project_id, project, *each) for each in zip(level, outer, strict=True)]
        known.update(zip(level, add_scopes(connection, rows), strict=True))


def _build_row(project_id: int, project: str, section: str, outer: int = NO_SECTION) -> tuple[object, ...]:
    return (project_id, SECTION_SCOPE, section, "", "", 0, compute_salt(project), outer)


def _find_innermost(sections: Sequence[str], known: Mapping[str, int]) -> int:
    return next((known[section] for section in reversed(sections) if section in known), NO_SECTION)


def _load_ids(connection: DuckConnection, project_id: int, sort: int) -> dict[str, int]:
    return dict(connection.execute(SELECT_SCOPES, {"project": project_id, "sort": sort}).fetchall())
